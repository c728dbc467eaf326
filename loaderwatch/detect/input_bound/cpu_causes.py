"""Causes that leave a reasonable loader too little CPU: S03 to S06 in workers, S14 in the training thread.

The four causes in workers look like expensive decoding (S07). S03 is more workers than CPUs, S04 a quota that
stops all threads, S05 an affinity mask that puts several workers on one CPU, S06 threads that compete inside
workers.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from loaderwatch.core.threshold import threshold
from loaderwatch.detect.finding import Explanation, known_evidence
from loaderwatch.detect.input_bound.symptoms import Symptoms
from loaderwatch.detect.measures.machine import Cpus
from loaderwatch.detect.measures.other_work import interpreter_held
from loaderwatch.detect.measures.stacks import code_line
from loaderwatch.detect.measures.statistics import quantile, ratio
from loaderwatch.detect.shared_thresholds import STARVED_PART

THROTTLED_RATIO: Final = threshold(
    0.25,
    "ratio",
    "Kubernetes' own CPUThrottlingHigh alert (kubernetes-mixin) fires from a quarter of the periods",
)
LONE_THREADS: Final = threshold(
    2, "threads", "a worker has its main thread and the thread that sends its batches"
)
HELPER_CPU_RATIO: Final = threshold(
    0.25, "ratio", "chosen: of a worker's CPU time; so much must go to threads other than the reading one"
)
FIGHTING_RATIO: Final = threshold(
    0.5, "ratio", "chosen: of the usable CPUs; if workers use less, something else keeps them from the CPUs"
)
CROWD_FACTOR: Final = threshold(
    1.5, "factor", "chosen: workers, or computing threads of workers, over usable CPUs"
)
LONE_CROWD_FACTOR: Final = threshold(
    2.0, "factor", "chosen: workers of one loader over usable CPUs; below it a sample's cost matters more"
)
COLLAPSED_RATIO: Final = threshold(
    0.25, "ratio", "chosen: of the machine's CPUs; a mask this small whose CPUs are all busy is suspect"
)
MASK_FULL_FACTOR: Final = threshold(
    1.2, "factor", "chosen: times the CPUs in the mask; workers that use more together are not limited by it"
)
NEIGHBOURS_RATIO: Final = threshold(
    0.5, "ratio", "chosen: of this run's usable CPUs; other programs keep so many busy"
)


def quota(s: Symptoms) -> Explanation | None:
    """Explain S04: the control group's quota stops every thread for the rest of each period; None otherwise.

    Linux's sched-bwc.rst describes the mechanism.
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
    about = min(needed, int(have)) if needed and needed > machine.quota else None
    fits = max(1, int(machine.quota / cpus.ranks))
    timed = math.isfinite(cpu_s) and math.isfinite(fetch_s)
    return Explanation(
        scenario="S04",
        confidence=0.95,
        rule="cpu-quota",
        params={
            "quota_cpus": machine.quota,
            "throttled_ratio": machine.throttled_ratio,
            "machine_cpus": machine.cpus or None,
            "cpu_s": cpu_s if timed else None,
            "fetch_s": fetch_s if timed else None,
            "about_cpus": about,
            "fitting_workers": fits if workers > fits else None,
            "workers_now": workers,
        },
        gain_ceiling_ratio=s.gain(after_s),
        evidence=known_evidence(
            ("cpu-quota", machine.quota, "count"),
            ("cpus-of-the-machine", machine.cpus, "count"),
            ("periods-in-which-the-quota-stopped-us", machine.throttled_ratio, "ratio"),
            ("cpus-in-use-by-this-run", machine.ours, "count"),
            ("cpu-time-for-a-batch", cpu_s, "s"),
        ),
    )


def affinity(s: Symptoms) -> Explanation | None:
    """Explain S05: the workers may run on only a few CPUs and take turns (pytorch#101850); None otherwise."""
    cpus, machine, workers = s.cpus, s.machine, s.workers
    mask = machine.worker_affinity
    full = workers * machine.worker_cpu_ratio <= MASK_FULL_FACTOR * mask and s.crowded
    if workers < 2 or not mask < workers or not full:
        return None
    wide = machine.main_affinity
    if mask < wide:
        may, rule, confidence = wide, "workers-pinned-to-few-cpus", 0.95
    elif (
        machine.cpus
        and cpus.ranks * mask <= COLLAPSED_RATIO * machine.cpus
        and not machine.quota <= mask
        and machine.cpus - machine.ours - np.nan_to_num(cpus.others) >= 1
    ):
        may, rule, confidence = machine.cpus / cpus.ranks, "job-pinned-to-few-cpus", 0.8
    else:
        return None
    cpu_s = s.batch_cpu_s
    after_s = _after(s, cpu_s / max(1.0, min(workers, may)))
    return Explanation(
        scenario="S05",
        confidence=confidence,
        rule=rule,
        params={
            "workers_now": workers,
            "mask_cpus": mask,
            "shared_cpus": round(mask),
            "training_cpus": wide,
            "machine_cpus": machine.cpus,
            "ask_cpus": workers + 1,
            "each_ratio": machine.worker_cpu_ratio,
            "cpu_s": cpu_s,
            "fetch_s": s.batch_s,
        },
        gain_ceiling_ratio=s.gain(after_s),
        evidence=known_evidence(
            ("cpus-a-worker-may-use", mask, "count"),
            ("cpus-the-training-process-may-use", wide, "count"),
            ("cpus-of-the-machine", machine.cpus, "count"),
            ("cpu-use-of-a-worker-all-its-threads", machine.worker_cpu_ratio, "ratio"),
            ("cpu-time-for-a-batch", cpu_s, "s"),
            ("workers-ready-but-without-a-cpu", machine.worker_delay_ratio, "ratio"),
        ),
    )


def threads(s: Symptoms) -> Explanation | None:
    """Explain S06: threads of NumPy, OpenCV and others in the workers compete for CPUs; None otherwise."""
    # PyTorch limits only its own threads in a worker (pytorch#22260).
    cpus, machine = s.cpus, s.machine
    helpers = machine.worker_threads - LONE_THREADS
    cpu_s = s.batch_cpu_s
    share = s.helper_cpu_ratio
    if not (
        helpers >= 1
        and share >= HELPER_CPU_RATIO
        and machine.workers_here * machine.worker_cpu_ratio >= FIGHTING_RATIO * cpus.usable
        and machine.workers_here * (helpers + 1) >= CROWD_FACTOR * cpus.usable
        and s.crowded
    ):
        return None
    fighting = round(machine.workers_here * (helpers + 1))
    return Explanation(
        scenario="S06",
        confidence=0.9,
        rule="threads-inside-workers",
        params={
            "threads": round(helpers + 1),
            "all_threads": round(machine.worker_threads),
            "fighting": fighting,
            "usable_cpus": cpus.usable,
            "helpers_ratio": share,
        },
        # The reading thread spins while it waits for the other threads, so its CPU time is no bound.
        gain_ceiling_ratio=s.gain(_free_step_s(s)),
        evidence=known_evidence(
            ("threads-of-a-worker", machine.worker_threads, "count"),
            ("computing-threads-of-all-workers", fighting, "count"),
            ("cpu-use-of-a-worker-all-its-threads", machine.worker_cpu_ratio, "ratio"),
            ("cpu-time-of-a-worker-in-other-threads", share, "ratio"),
            ("cpu-time-for-a-batch-reading-thread", cpu_s, "s"),
            ("workers-ready-but-without-a-cpu", machine.worker_delay_ratio, "ratio"),
            ("involuntary-switches-of-a-worker", machine.worker_switches_per_s, "per_s"),
            ("voluntary-switches-of-a-worker", machine.worker_waits_per_s, "per_s"),
        ),
    )


def crowd(s: Symptoms) -> Explanation | None:
    """Explain S03: more workers want a CPU than there are CPUs; None otherwise.

    Their fetches must consist of CPU time or waits for a CPU: on a full machine even workers that sleep lack
    CPU.
    """
    cpus, machine, workers = s.cpus, s.machine, s.workers
    if not (
        machine.workers_here >= CROWD_FACTOR * cpus.usable
        and (machine.workers_here > workers or workers > LONE_CROWD_FACTOR * cpus.usable)
        and machine.workers_here >= cpus.usable + 2
        and machine.workers_runnable > cpus.usable
        and s.crowded
        and s.on_or_for_cpu_ratio >= STARVED_PART
    ):
        return None
    fair_share = max(1, int(cpus.usable / cpus.ranks + 0.01))
    target = min(fair_share, workers)
    fetch_s, cpu_s = s.batch_s, s.batch_cpu_s
    # Fewer workers get no more CPU in total. The gain is the CPU time that the workers spend besides reading.
    load_s = max(cpu_s / (workers * max(machine.worker_cpu_ratio, 0.01)), cpu_s * cpus.ranks / cpus.usable)
    sample_s = ratio(cpu_s, s.samples)
    return Explanation(
        scenario="S03",
        confidence=0.9 if math.isfinite(machine.worker_delay_ratio) else 0.75,
        rule="too-many-workers",
        params={
            "workers": machine.workers_here,
            "each": workers,
            "ranks": cpus.ranks,
            "alone": cpus.ranks == 1 and machine.workers_here == workers,
            "usable_cpus": cpus.usable,
            "fetch_s": fetch_s,
            "cpu_s": cpu_s,
            "delay_ratio": machine.worker_delay_ratio,
            "target": target if target < workers else None,
            "sample_cpu_s": sample_s if sample_s > 0 else None,
            "samples_per_s": cpus.usable / sample_s if sample_s > 0 else None,
        },
        gain_ceiling_ratio=s.gain(_after(s, load_s)),
        evidence=known_evidence(
            ("workers-on-this-host", machine.workers_here, "count"),
            ("workers-that-want-a-cpu", machine.workers_runnable, "count"),
            ("cpu-time-for-a-batch", cpu_s, "s"),
            ("workers-ready-but-without-a-cpu", machine.worker_delay_ratio, "ratio"),
            ("training-thread-ready-but-without-a-cpu", machine.main_delay_ratio, "ratio"),
            ("involuntary-switches-of-a-worker", machine.worker_switches_per_s, "per_s"),
            ("cpu-pressure", machine.psi_cpu_ratio, "ratio"),
        ),
    )


def starved_training_thread(s: Symptoms) -> Explanation:
    """Explain S14: batches are ready, but something keeps the training thread from taking them."""
    held = interpreter_held(s.pace.rank)
    if held is not None:
        return Explanation(
            scenario="S14",
            confidence=0.85,
            mild=True,
            rule="interpreter-held",
            params={
                "at": code_line(held.frame),
                "ready": s.ready,
                "wait_s": s.wait_s,
                "blocked_s": held.blocked_s,
                "looked_s": held.looked_s,
                "woken_per_s": held.woken_per_s,
            },
            gain_ceiling_ratio=s.gain(s.step_s),
            stacks=[held.dump],
        )
    others = held_by_others(s.cpus)
    return Explanation(
        scenario="S14",
        confidence=0.5,
        # A busy machine looks the same, and the loader cannot help it: hardly any of the wait is work.
        mild=True,
        rule="training-thread-without-cpu" if others is None else "cpus-held-by-others",
        params={"ready": s.ready, "wait_s": s.wait_s, "others_cpus": others},
        gain_ceiling_ratio=s.gain(s.step_s),
    )


def held_by_others(cpus: Cpus) -> float | None:
    """Return how many CPUs other programs keep busy; None unless they are many of the usable CPUs.

    No change to the loader frees those CPUs.
    """
    many = min(cpus.others, cpus.usable - cpus.ours) >= NEIGHBOURS_RATIO * cpus.usable
    return cpus.others if many else None


def _free_step_s(s: Symptoms) -> float:
    """Return the seconds of a step that no competition for CPUs held up: the 10 % quantile of all steps."""
    return quantile(s.pace.step_s + np.nan_to_num(s.pace.nested_s), 0.1)


def _after(s: Symptoms, load_s: float) -> float:
    step_s = _free_step_s(s)
    return max(step_s, load_s) if math.isfinite(load_s) else step_s
