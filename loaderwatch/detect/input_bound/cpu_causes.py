"""Workers that lack CPU although the loader looks reasonable: S03 S04 S05 S06.

All four look like decoding that is too expensive (S07). They are asked first, the most certain first: a quota that stops
us (S04), an affinity mask that puts workers onto each other (S05), threads that fight inside the workers (S06), more
workers than CPUs (S03).
"""

from __future__ import annotations

import math

import numpy as np

from loaderwatch.detect.explanation import Explanation
from loaderwatch.detect.finding import known_evidence
from loaderwatch.detect.measures.gain import gain_ratio
from loaderwatch.detect.measures.machine import Cpus, Machine, helper_cpu_ratio
from loaderwatch.detect.measures.pace import Pace
from loaderwatch.detect.measures.statistics import mean, quantile, ratio
from loaderwatch.detect.text import count, cpu_count, duration, percent, rate

THROTTLED_RATIO = (
    0.25  # Kubernetes' own CPUThrottlingHigh alert (kubernetes-mixin) fires from a quarter of the periods
)
CROWDED_DELAY_RATIO = 0.25
CROWDED_RUNNABLE_RATIO = 0.5
LONE_THREADS = 2  # a worker's main thread and the thread that sends its batches
HELPER_CPU_RATIO = 0.25
FIGHTING_RATIO = (
    0.5  # of the usable CPUs: workers that use less do not push each other off, something else does
)
CROWD = 1.5  # workers per usable CPU
LONE_CROWD = 2.0  # the same for a single loader: up to here what a sample costs matters, not how many workers there are
COLLAPSED_RATIO = 0.25  # of the machine's CPUs: a mask that small and full is worth a question


def cpu_cause(pace: Pace, cpus: Cpus, machine: Machine) -> Explanation | None:
    """Why the workers (or, with none, the training thread) get too little CPU; None when that is not it."""
    return _quota(pace, machine) or _affinity(pace, cpus, machine) or _threads(pace, cpus, machine)


def crowd_cause(pace: Pace, cpus: Cpus, machine: Machine) -> Explanation | None:
    """S03: more workers want a CPU than there are."""
    if not (
        pace.workers
        and machine.workers_here >= CROWD * machine.usable
        and (machine.workers_here > pace.workers or pace.workers > LONE_CROWD * machine.usable)
        and machine.workers_here >= machine.usable + 2
        and machine.workers_runnable > machine.usable
        and _crowded(cpus, machine)
    ):
        return None
    each = max(1, int(machine.usable / machine.ranks + 0.01))
    target = min(each, pace.workers)
    fetch_s, cpu_s = _fetch_s(pace), _fetch_cpu_s(pace)
    # Fewer workers get no more CPU in all than these do. What comes back is what these burn beside reading.
    load_s = max(
        cpu_s / (pace.workers * max(machine.worker_cpu_ratio, 0.01)), cpu_s * machine.ranks / machine.usable
    )
    total_of = (
        f"{count(machine.workers_here, 'worker')}"
        if machine.ranks == 1 and machine.workers_here == pace.workers
        else f"{machine.workers_here} workers ({pace.workers} per rank and loader, {count(machine.ranks, 'rank')})"
    )
    waits = (
        f" A worker that could run waits for a CPU {percent(machine.worker_delay_ratio)} of the time."
        if math.isfinite(machine.worker_delay_ratio)
        else ""
    )
    lower = (
        f"Lower num_workers {pace.workers} → {target}: {cpu_count(machine.usable)} can carry about as many busy workers"
        f" {'in all' if machine.ranks == 1 else f'over {machine.ranks} ranks'}, and validation loaders with persistent"
        " workers count too."
        if target < pace.workers
        else "Count all loaders with persistent workers, validation included, and keep fewer of them alive."
    )
    return Explanation(
        scenario="S03",
        confidence=0.9 if math.isfinite(machine.worker_delay_ratio) else 0.75,
        because=f"{total_of} share {cpu_count(machine.usable, 'usable CPU')}, so each fetch takes {duration(fetch_s)} instead of"
        f" {duration(cpu_s)}",
        cause=f"{total_of} compute on {cpu_count(machine.usable, 'usable CPU')}. A batch needs {duration(cpu_s)} of CPU, but takes"
        f" {duration(fetch_s)}, because the workers take turns.{waits} Adding workers does not help; it only makes each"
        " slower and takes CPU from the training thread.",
        advice=f"{lower} That frees memory, and the CPU that each worker burns beside reading. To go faster than that, reading"
        f" a sample must cost less CPU{_per_sample(pace, cpu_s, machine)}",
        gain_ceiling_ratio=gain_ratio(pace.iteration_s, _after(pace, load_s)),
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


def _quota(pace: Pace, machine: Machine) -> Explanation | None:
    """S04: the control group's quota stops every thread for the rest of each period (Linux, sched-bwc.rst)."""
    if not (math.isfinite(machine.quota) and machine.throttled_ratio >= THROTTLED_RATIO):
        return None
    fetch_s, cpu_s = _fetch_s(pace), _fetch_cpu_s(pace)
    step_s = _free_step_s(pace)
    workers = pace.workers or 0
    have = machine.cpus or machine.quota
    if workers:
        after_s = max(step_s, cpu_s / max(1.0, min(workers, have / machine.ranks)))
    else:
        after_s = step_s + (cpu_s if math.isfinite(cpu_s) else 0.0)
    needed = math.ceil(machine.ranks * (cpu_s / step_s + 1)) if step_s > 0 and cpu_s > 0 else None
    raise_to = f" to about {min(needed, int(have))} CPUs" if needed and needed > machine.quota else ""
    fits = max(1, int(machine.quota / machine.ranks))
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
        gain_ceiling_ratio=gain_ratio(pace.iteration_s, after_s),
        evidence=known_evidence(
            ("CPU quota", machine.quota, "count"),
            ("CPUs of the machine", machine.cpus, "count"),
            ("periods in which the quota stopped us", machine.throttled_ratio, "ratio"),
            ("CPUs in use by this run", machine.ours, "count"),
            ("CPU time for a batch", cpu_s, "s"),
        ),
    )


def _affinity(pace: Pace, cpus: Cpus, machine: Machine) -> Explanation | None:
    """S05: the workers may run on few CPUs only, and sit on each other there (pytorch#101850)."""
    workers, mask = pace.workers or 0, machine.worker_affinity
    full = workers * machine.worker_cpu_ratio <= 1.2 * mask and _crowded(cpus, machine)
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
        and machine.ranks * mask <= COLLAPSED_RATIO * machine.cpus
        and not machine.quota <= mask
        and machine.cpus - machine.ours - np.nan_to_num(cpus.others) >= 1
    ):
        may = machine.cpus / machine.ranks
        whose = f"this machine has {machine.cpus}"
        confidence = 0.8
        cure = (
            f"Ask for more CPUs: Slurm --cpus-per-task={workers + 1} (or srun --cpu-bind=none), docker --cpuset-cpus; or unset"
            " OMP_PLACES and KMP_AFFINITY if an OpenMP runtime shrank the mask at import."
        )
    else:
        return None
    cpu_s = _fetch_cpu_s(pace)
    after_s = _after(pace, cpu_s / max(1.0, min(workers, may)))
    on = cpu_count(mask)
    return Explanation(
        scenario="S05",
        confidence=confidence,
        because=f"its {workers} workers may run on {on} only, while {whose}",
        cause=f"The affinity mask of the {workers} workers holds {on}, while {whose}: they take turns, {percent(machine.worker_cpu_ratio)}"
        f" of a CPU each. A batch needs {duration(cpu_s)} of CPU and takes {duration(_fetch_s(pace))}.",
        advice=f"{cure} More workers do not help while they share {'it' if round(mask) == 1 else 'those'}.",
        gain_ceiling_ratio=gain_ratio(pace.iteration_s, after_s),
        evidence=known_evidence(
            ("CPUs a worker may use", mask, "count"),
            ("CPUs the training process may use", wide, "count"),
            ("CPUs of the machine", machine.cpus, "count"),
            ("CPU use of a worker, all its threads", machine.worker_cpu_ratio, "ratio"),
            ("CPU time for a batch", cpu_s, "s"),
            ("workers ready but without a CPU", machine.worker_delay_ratio, "ratio"),
        ),
    )


def _threads(pace: Pace, cpus: Cpus, machine: Machine) -> Explanation | None:
    """S06: PyTorch limits only its own threads in a worker; those of NumPy, OpenCV and others fight (pytorch#22260)."""
    workers = pace.workers or 0
    helpers = machine.worker_threads - LONE_THREADS
    cpu_s = _fetch_cpu_s(pace)
    share = helper_cpu_ratio(pace)
    if not (
        workers
        and helpers >= 1
        and share >= HELPER_CPU_RATIO
        and machine.workers_here * machine.worker_cpu_ratio >= FIGHTING_RATIO * machine.usable
        and machine.workers_here * (helpers + 1) >= CROWD * machine.usable
        and _crowded(cpus, machine)
    ):
        return None
    fighting = round(machine.workers_here * (helpers + 1))
    return Explanation(
        scenario="S06",
        confidence=0.9,
        because=f"each worker computes with {round(helpers + 1)} threads, {fighting} in all on {cpu_count(machine.usable)}",
        cause=f"A worker has {round(machine.worker_threads)} threads, and {percent(share)} of its CPU time goes to threads other than"
        f" the one that reads samples: BLAS, OpenMP or OpenCV pools. {fighting} computing threads on"
        f" {cpu_count(machine.usable, 'usable CPU')} spin and push each other off. PyTorch limits only its own threads inside a worker.",
        advice="Set OMP_NUM_THREADS=1, OPENBLAS_NUM_THREADS=1, MKL_NUM_THREADS=1 and NUMEXPR_NUM_THREADS=1 before Python starts (or"
        " call threadpoolctl.threadpool_limits(1) and cv2.setNumThreads(0) in worker_init_fn). torch.set_num_threads() in the"
        " training process does not reach workers.",
        # The reading thread spins as well while it waits for the others, so its CPU time is no bound.
        gain_ceiling_ratio=gain_ratio(pace.iteration_s, _free_step_s(pace)),
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


def _crowded(cpus: Cpus, machine: Machine) -> bool:
    """Workers want a CPU and do not get one."""
    return machine.worker_delay_ratio >= CROWDED_DELAY_RATIO or (
        not math.isfinite(machine.worker_delay_ratio) and cpus.runnable_ratio >= CROWDED_RUNNABLE_RATIO
    )


def _lately(pace: Pace) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    mask = pace.fetches.ended_ns >= pace.request_ns[0]
    return mask if mask.any() else np.ones_like(mask)


def _fetch_s(pace: Pace) -> float:
    return mean(pace.fetches.fetch_s[_lately(pace)])


def _fetch_cpu_s(pace: Pace) -> float:
    """CPU time of the reading thread for a batch."""
    return mean(pace.fetches.cpu_s[_lately(pace)])


def _free_step_s(pace: Pace) -> float:
    """A step that was not held up by the fight for CPUs: the quick ones."""
    return quantile(pace.step_s + np.nan_to_num(pace.nested_s), 0.1)


def _after(pace: Pace, load_s: float) -> float:
    step_s = _free_step_s(pace)
    return max(step_s, load_s) if math.isfinite(load_s) else step_s


def _per_sample(pace: Pace, cpu_s: float, machine: Machine) -> str:
    samples = mean(np.where(pace.fetches.samples > 0, pace.fetches.samples, np.nan).astype(np.float64))
    each_s = ratio(cpu_s, samples)
    if not each_s > 0:
        return "."
    return f" ({duration(each_s)} now: at most {rate(machine.usable / each_s)} samples/s on {cpu_count(machine.usable)})."
