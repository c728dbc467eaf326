"""Causes of too little CPU for a reasonable loader: S03 to S06 in workers, S14 in the training thread.

The four of the workers look like decoding that is too expensive (S07): a quota that stops us (S04), an
affinity mask that puts workers onto each other (S05), threads that fight inside the workers (S06), more
workers than CPUs (S03).
"""

from __future__ import annotations

import math

import numpy as np

from loaderwatch.detect.explanation import Explanation
from loaderwatch.detect.finding import known_evidence
from loaderwatch.detect.input_bound.symptoms import Symptoms
from loaderwatch.detect.limits import STARVED_PART
from loaderwatch.detect.measures.children import ELSEWHERE, interpreter_held
from loaderwatch.detect.measures.machine import Cpus
from loaderwatch.detect.measures.statistics import quantile, ratio
from loaderwatch.detect.text import count, cpu_count, duration, percent, rate

THROTTLED_RATIO = (
    0.25  # Kubernetes' own CPUThrottlingHigh alert (kubernetes-mixin) fires from a quarter of the periods
)
LONE_THREADS = 2  # a worker's main thread and the thread that sends its batches
HELPER_CPU_RATIO = 0.25
FIGHTING_RATIO = (
    0.5  # of the usable CPUs: workers that use less do not push each other off, something else does
)
CROWD = 1.5  # workers per usable CPU
LONE_CROWD = 2.0  # the same for a single loader: up to here what a sample costs matters, not how many workers there are
COLLAPSED_RATIO = 0.25  # of the machine's CPUs: a mask this small, with all its CPUs in use, is suspect
MASK_FULL = 1.2  # times the CPUs in the mask: workers that together use more are not limited by it
NEIGHBOURS_RATIO = 0.5  # of the CPUs that this run may use, in the hands of other programs


def quota(s: Symptoms) -> Explanation | None:
    """Explain S04: the control group's quota stops every thread for the rest of each period; None otherwise.

    The mechanism is described in Linux's sched-bwc.rst.
    """
    cpus, machine, workers = s.cpus, s.machine, s.pace.workers or 0
    if not (math.isfinite(machine.quota) and machine.throttled_ratio >= THROTTLED_RATIO):
        return None
    fetch_s, cpu_s = s.batch_s, s.batch_cpu_s
    step_s = _free_step_s(s)
    have = machine.cpus or machine.quota
    if workers:
        after_s = max(step_s, cpu_s / max(1.0, min(workers, have / cpus.ranks)))
    else:
        after_s = step_s + (cpu_s if math.isfinite(cpu_s) else 0.0)
    needed = math.ceil(cpus.ranks * (cpu_s / step_s + 1)) if step_s > 0 and cpu_s > 0 else None
    raise_to = f" to about {min(needed, int(have))} CPUs" if needed and needed > machine.quota else ""
    fits = max(1, int(machine.quota / cpus.ranks))
    size = (
        f" Until then num_workers={fits} is enough ({workers} now): more of them only take turns."
        if workers > fits
        else ""
    )
    return Explanation(
        scenario="S04",
        confidence=0.95,
        because=f"the container's quota of {cpu_count(machine.quota)} stops it in {percent(machine.throttled_ratio)} of all periods",
        cause=f"The control group may use {cpu_count(machine.quota)}"
        f"{f' of the {machine.cpus} this machine shows' if machine.cpus else ''}. In {percent(machine.throttled_ratio)} of the"
        " scheduler's periods that was used up, and every thread stood still until the next one."
        + (
            f" A batch needs {duration(cpu_s)} of CPU and takes {duration(fetch_s)}."
            if math.isfinite(cpu_s) and math.isfinite(fetch_s)
            else ""
        ),
        advice=f"Raise the CPU limit{raise_to} (Kubernetes limits.cpu, docker --cpus), or make reading a sample cheaper.{size}"
        " os.cpu_count() and PyTorch's own hint about workers do not see the quota.",
        gain_ceiling_ratio=s.gain(after_s),
        evidence=known_evidence(
            ("CPU quota", machine.quota, "count"),
            ("CPUs of the machine", machine.cpus, "count"),
            ("periods in which the quota stopped us", machine.throttled_ratio, "ratio"),
            ("CPUs in use by this run", machine.ours, "count"),
            ("CPU time for a batch", cpu_s, "s"),
        ),
    )


def affinity(s: Symptoms) -> Explanation | None:
    """Explain S05: the workers may run on few CPUs only and take turns (pytorch#101850); None otherwise."""
    cpus, machine, workers = s.cpus, s.machine, s.workers
    mask = machine.worker_affinity
    full = workers * machine.worker_cpu_ratio <= MASK_FULL * mask and s.crowded
    if workers < 2 or not mask < workers or not full:
        return None
    wide = machine.main_affinity
    if mask < wide:
        may = wide
        whose = f"the training process may use {cpu_count(wide)}"
        confidence = 0.95
        cure = (
            "In worker_init_fn, call os.sched_setaffinity(0, cpus) with the CPUs of the training process"
            " (os.sched_getaffinity(0), taken there); then look for what shrinks the mask: OMP_PLACES, OMP_PROC_BIND,"
            " KMP_AFFINITY, GOMP_CPU_AFFINITY, a library that pins its threads, or your own worker_init_fn."
        )
    elif (
        machine.cpus
        and cpus.ranks * mask <= COLLAPSED_RATIO * machine.cpus
        and not machine.quota <= mask
        and machine.cpus - machine.ours - np.nan_to_num(cpus.others) >= 1
    ):
        may = machine.cpus / cpus.ranks
        whose = f"this machine has {machine.cpus}"
        confidence = 0.8
        cure = (
            f"Ask for more CPUs: Slurm --cpus-per-task={workers + 1} (or srun --cpu-bind=none), docker --cpuset-cpus; or unset"
            " OMP_PLACES and KMP_AFFINITY if an OpenMP runtime shrank the mask at import."
        )
    else:
        return None
    cpu_s = s.batch_cpu_s
    after_s = _after(s, cpu_s / max(1.0, min(workers, may)))
    on = cpu_count(mask)
    return Explanation(
        scenario="S05",
        confidence=confidence,
        because=f"its {workers} workers may run on {on} only, while {whose}",
        cause=f"The affinity mask of the {workers} workers holds {on}, while {whose}: they take turns, {percent(machine.worker_cpu_ratio)}"
        f" of a CPU each. A batch needs {duration(cpu_s)} of CPU and takes {duration(s.batch_s)}.",
        advice=f"{cure} More workers do not help while they share {'it' if round(mask) == 1 else 'those'}.",
        gain_ceiling_ratio=s.gain(after_s),
        evidence=known_evidence(
            ("CPUs a worker may use", mask, "count"),
            ("CPUs the training process may use", wide, "count"),
            ("CPUs of the machine", machine.cpus, "count"),
            ("CPU use of a worker, all its threads", machine.worker_cpu_ratio, "ratio"),
            ("CPU time for a batch", cpu_s, "s"),
            ("workers ready but without a CPU", machine.worker_delay_ratio, "ratio"),
        ),
    )


def threads(s: Symptoms) -> Explanation | None:
    """Explain S06: threads of NumPy, OpenCV and others in the workers fight for CPUs; None otherwise.

    PyTorch limits only its own threads in a worker (pytorch#22260).
    """
    cpus, machine = s.cpus, s.machine
    helpers = machine.worker_threads - LONE_THREADS
    cpu_s = s.batch_cpu_s
    share = s.helper_cpu_ratio
    if not (
        helpers >= 1
        and share >= HELPER_CPU_RATIO
        and machine.workers_here * machine.worker_cpu_ratio >= FIGHTING_RATIO * cpus.usable
        and machine.workers_here * (helpers + 1) >= CROWD * cpus.usable
        and s.crowded
    ):
        return None
    fighting = round(machine.workers_here * (helpers + 1))
    return Explanation(
        scenario="S06",
        confidence=0.9,
        because=f"each worker computes with {round(helpers + 1)} threads, {fighting} in all on {cpu_count(cpus.usable)}",
        cause=f"A worker has {round(machine.worker_threads)} threads, and {percent(share)} of its CPU time goes to threads other than"
        f" the one that reads samples: BLAS, OpenMP or OpenCV pools. {fighting} computing threads on"
        f" {cpu_count(cpus.usable, 'usable CPU')} spin and push each other off. PyTorch limits only its own threads inside a worker.",
        advice="Set OMP_NUM_THREADS=1, OPENBLAS_NUM_THREADS=1, MKL_NUM_THREADS=1 and NUMEXPR_NUM_THREADS=1 before Python starts (or"
        " call threadpoolctl.threadpool_limits(1) and cv2.setNumThreads(0) in worker_init_fn). torch.set_num_threads() in the"
        " training process does not reach workers.",
        # The reading thread spins as well while it waits for the others, so its CPU time is no bound.
        gain_ceiling_ratio=s.gain(_free_step_s(s)),
        evidence=known_evidence(
            ("threads of a worker", machine.worker_threads, "count"),
            ("computing threads of all workers", fighting, "count"),
            ("CPU use of a worker, all its threads", machine.worker_cpu_ratio, "ratio"),
            ("CPU time of a worker in other threads", share, "ratio"),
            ("CPU time for a batch, reading thread", cpu_s, "s"),
            ("workers ready but without a CPU", machine.worker_delay_ratio, "ratio"),
            ("involuntary switches of a worker", machine.worker_switches_per_s, "per_s"),
            ("voluntary switches of a worker", machine.worker_waits_per_s, "per_s"),
        ),
    )


def crowd(s: Symptoms) -> Explanation | None:
    """Explain S03: more workers want a CPU than there are CPUs; None otherwise.

    That must be what their fetches are made of: on a full machine workers that sleep lack CPU as well.
    """
    cpus, machine, workers = s.cpus, s.machine, s.workers
    if not (
        machine.workers_here >= CROWD * cpus.usable
        and (machine.workers_here > workers or workers > LONE_CROWD * cpus.usable)
        and machine.workers_here >= cpus.usable + 2
        and machine.workers_runnable > cpus.usable
        and s.crowded
        and s.on_or_for_cpu_ratio >= STARVED_PART
    ):
        return None
    each = max(1, int(cpus.usable / cpus.ranks + 0.01))
    target = min(each, workers)
    fetch_s, cpu_s = s.batch_s, s.batch_cpu_s
    # Fewer workers get no more CPU in all than these do. What comes back is what these burn beside reading.
    load_s = max(cpu_s / (workers * max(machine.worker_cpu_ratio, 0.01)), cpu_s * cpus.ranks / cpus.usable)
    total_of = (
        f"{count(machine.workers_here, 'worker')}"
        if cpus.ranks == 1 and machine.workers_here == workers
        else f"{machine.workers_here} workers ({workers} per rank and loader, {count(cpus.ranks, 'rank')})"
    )
    waits = (
        f" A worker that could run waits for a CPU {percent(machine.worker_delay_ratio)} of the time."
        if math.isfinite(machine.worker_delay_ratio)
        else ""
    )
    lower = (
        f"Lower num_workers {workers} → {target}: {cpu_count(cpus.usable)} can carry about as many busy workers"
        f" {'in all' if cpus.ranks == 1 else f'over {cpus.ranks} ranks'}, and validation loaders with persistent"
        " workers count too."
        if target < workers
        else "Count all loaders with persistent workers, validation included, and keep fewer of them alive."
    )
    return Explanation(
        scenario="S03",
        confidence=0.9 if math.isfinite(machine.worker_delay_ratio) else 0.75,
        because=f"{total_of} share {cpu_count(cpus.usable, 'usable CPU')}, so each fetch takes {duration(fetch_s)} instead of"
        f" {duration(cpu_s)}",
        cause=f"{total_of} compute on {cpu_count(cpus.usable, 'usable CPU')}. A batch needs {duration(cpu_s)} of CPU, but takes"
        f" {duration(fetch_s)}, because the workers take turns.{waits} Adding workers does not help; it only makes each"
        " slower and takes CPU from the training thread.",
        advice=f"{lower} That frees memory, and the CPU that each worker burns beside reading. To go faster than that, reading"
        f" a sample must cost less CPU{_per_sample(s)}",
        gain_ceiling_ratio=s.gain(_after(s, load_s)),
        evidence=known_evidence(
            ("workers on this host", machine.workers_here, "count"),
            ("workers that want a CPU", machine.workers_runnable, "count"),
            ("CPU time for a batch", cpu_s, "s"),
            ("workers ready but without a CPU", machine.worker_delay_ratio, "ratio"),
            ("training thread ready but without a CPU", machine.main_delay_ratio, "ratio"),
            ("involuntary switches of a worker", machine.worker_switches_per_s, "per_s"),
            ("CPU pressure", machine.psi_cpu_ratio, "ratio"),
        ),
    )


def starved_training_thread(s: Symptoms) -> Explanation:
    """Explain S14: batches lie ready, and the training thread is kept from taking them."""
    held = interpreter_held(s.pace.rank)
    if held is not None:
        return Explanation(
            scenario="S14",
            confidence=0.85,
            mild=True,
            because=f"batches lie ready, but another thread of its own process computes in Python at {held.frame} and holds the interpreter"
            f" ({duration(s.wait_s)} per batch)",
            cause=f"{rate(s.ready)} batches lie ready on average and unpacking needs little CPU, yet next() takes {duration(s.wait_s)}: the"
            f" training thread neither ran nor lacked a CPU for {duration(held.blocked_s)} of the last {duration(held.looked_s)}, and asked for"
            f" the interpreter's lock {round(held.woken_per_s)} times a second.",
            advice=ELSEWHERE,
            gain_ceiling_ratio=s.gain(s.step_s),
            stacks=[held.dump],
        )
    why = (
        "other programs hold the CPUs"
        if neighbours(s.cpus)
        else "the training thread gets no CPU to take them"
    )
    return Explanation(
        scenario="S14",
        confidence=0.5,
        mild=True,  # a busy machine looks like this as well, and the loader cannot help it: hardly any of the wait is work
        because=f"batches lie ready, but {why} ({duration(s.wait_s)} per batch)",
        cause=f"{rate(s.ready)} batches lie ready on average and unpacking needs little CPU, yet next() takes"
        f" {duration(s.wait_s)}: other threads of this process, or other processes, keep the training thread from running."
        f"{neighbours(s.cpus)}",
        advice="Look for busy Python threads in the training process (loggers, progress bars, in-process prefetchers) and for"
        " other programs on these cores. More workers would make it worse.",
        gain_ceiling_ratio=s.gain(s.step_s),
    )


def neighbours(cpus: Cpus) -> str:
    """Return a sentence about other programs if they take many of the CPUs that this run may use, else "".

    No change to the loader brings those CPUs back.
    """
    if not min(cpus.others, cpus.usable - cpus.ours) >= NEIGHBOURS_RATIO * cpus.usable:
        return ""
    return f" Other programs on this host keep {cpu_count(cpus.others)} busy: move them away first."


def _free_step_s(s: Symptoms) -> float:
    """Return the seconds of a step that no fight for CPUs held up: the 10 % quantile of all steps."""
    return quantile(s.pace.step_s + np.nan_to_num(s.pace.nested_s), 0.1)


def _after(s: Symptoms, load_s: float) -> float:
    step_s = _free_step_s(s)
    return max(step_s, load_s) if math.isfinite(load_s) else step_s


def _per_sample(s: Symptoms) -> str:
    each_s = ratio(s.batch_cpu_s, s.samples)
    if not each_s > 0:
        return "."
    return f" ({duration(each_s)} now: at most {rate(s.cpus.usable / each_s)} samples/s on {cpu_count(s.cpus.usable)})."
