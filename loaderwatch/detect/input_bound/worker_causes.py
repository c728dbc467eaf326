"""Causes in workers that are missing or too slow: S01, S02, S07, S08, S23 and S58.

S01 is no workers at all, S02 too few of them, S07 no CPU for more, S08 slow storage, S23 one worker with a
heavy share, S58 fetches that take longer and longer.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from loaderwatch.core.answers import Param
from loaderwatch.core.threshold import threshold
from loaderwatch.detect.finding import Explanation, known_evidence, observed
from loaderwatch.detect.input_bound.cpu_causes import held_by_others
from loaderwatch.detect.input_bound.lock_causes import looks_ratio
from loaderwatch.detect.input_bound.symptoms import Symptoms
from loaderwatch.detect.iterable_datasets import split
from loaderwatch.detect.measures.gain import iteration_with, workers_needed
from loaderwatch.detect.measures.history_slices import FEW_ROWS, parts
from loaderwatch.detect.measures.machine import Cpus
from loaderwatch.detect.measures.statistics import STEADY_RISE, median, ratio, trend
from loaderwatch.detect.shared_thresholds import LATENCY_CPU_RATIO

WORTH_RATIO: Final = threshold(
    0.1, "ratio", "chosen: of the time; a change that gains less at best is not advised by itself"
)
GAINS_RATIO: Final = threshold(
    0.02, "ratio", "chosen: of the time; a smaller gain is the same speed after rounding"
)
MOST_WORKERS_PER_CPU: Final = threshold(
    4, "workers", "chosen: beyond it, even more sleeping workers do not help"
)
FREE_CPUS: Final = threshold(0.5, "CPUs", "chosen: with less of a CPU free, there is none for another worker")
MANY_WORKERS: Final = threshold(
    4, "workers", "chosen: if so many wait for storage, the loader is not at fault"
)
WORKERS_ASLEEP_RATIO: Final = threshold(
    0.5, "ratio", "chosen: of the looks at workers that find them asleep for a set time"
)
MOST_NEEDED_WORKERS: Final = threshold(
    16, "workers", "chosen: if more are needed, the storage's latency is the trouble"
)
MAPPED_FAULTS_PER_S: Final = threshold(
    20.0, "faults/s", "chosen: of one worker; faults for loading code and libraries end within a second"
)
GROWN_FETCH_FACTOR: Final = threshold(
    1.5, "factor", "chosen: the last fetch time over the first, if the workers kept up at first"
)
GROWN_ALONE_FACTOR: Final = threshold(
    2.0, "factor", "chosen: the same if the workers never kept up; then most of a fetch is growth"
)
BETWEEN_FACTOR: Final = threshold(
    1.1, "factor", "chosen: by which the middle differs from both ends; after a jump it does not"
)
HEAVY_SHARE_FACTOR: Final = threshold(3.0, "factor", "chosen: times the lightest worker's usual batch")
FEW_SHARE_BATCHES: Final = threshold(4, "batches", "chosen: of each worker, before its usual batch is known")


def other_iterable(s: Symptoms) -> Explanation:
    """Explain S01: the loop iterates no DataLoader, but an object that makes batches while the loop waits."""
    return Explanation(
        scenario="S01",
        confidence=0.5,
        rule="no-dataloader",
        params={
            "loader": s.loader.name,
            "class": s.loader.class_name,
            "has_threads": bool(s.loader.reader),
            "iteration_s": s.iteration_s,
            "wait_s": s.wait_s,
            "step_s": s.step_s,
        },
        gain_ceiling_ratio=s.gain(max(s.step_s, 0.0)),
    )


def in_memory(s: Symptoms) -> Explanation | None:
    """Explain S01: the samples are in memory, and the loader takes them one by one; None otherwise.

    Workers would only copy to the training process what it has already.
    """
    if s.loader.reader or s.loader.iterable_dataset or not s.in_memory:
        return None
    each_s = ratio(s.batch_cpu_s, s.samples)
    return Explanation(
        scenario="S01",
        confidence=0.9,
        mild=True,
        rule="data-in-memory",
        params={
            "batch_s": s.batch_s,
            "sample_cpu_s": each_s,
            "samples": s.samples,
            "has_workers": bool(s.pace.workers),
        },
        gain_ceiling_ratio=s.gain(s.step_s),
        evidence=known_evidence(("cpu-time-of-a-sample", each_s, "s")),
    )


def no_workers(s: Symptoms) -> Explanation:
    """Explain S01: the training thread, or one that reads ahead for it, reads every batch (num_workers=0)."""
    cpus, reader = s.cpus, s.loader.reader
    read_s = s.iteration_s if reader else s.wait_s
    # A thread that is ready to read but gets no CPU does not wait for storage.
    delayed = 0.0 if reader or not math.isfinite(s.machine.main_delay_ratio) else s.machine.main_delay_ratio
    sleeping = s.fetch_cpu_ratio + delayed < LATENCY_CPU_RATIO and math.isfinite(cpus.per_rank)
    most = int(MOST_WORKERS_PER_CPU * cpus.per_rank) if sleeping else _most_workers(cpus, 1.0, 0)
    workers = max(1, min(workers_needed(read_s, s.step_s), most))
    overlapped_s, least_s = iteration_with(read_s, workers, s.step_s), cpus.least_s(s.iteration_s)
    after_s = max(overlapped_s, least_s)
    if after_s > (1 - GAINS_RATIO) * s.iteration_s and workers == 1:
        then = "no-second-worker"
    elif least_s <= overlapped_s:
        then = "workers"
    elif least_s <= (1 - WORTH_RATIO) * s.iteration_s:
        then = "workers-in-part"
    else:
        then = "cheaper-samples"
    if then in ("no-second-worker", "cheaper-samples"):
        after_s = s.step_s
    return Explanation(
        scenario="S01",
        confidence=0.95,
        rule="no-workers",
        params={
            "reader": reader or None,
            "read_s": read_s,
            "step_s": s.step_s,
            "then": then,
            "workers": workers,
            "after_s": after_s,
            "iteration_s": s.iteration_s,
            "own_cpus": cpus.ours,
            "usable_cpus": cpus.usable,
            "ranks": cpus.ranks,
            "others_cpus": None if sleeping else held_by_others(cpus),
            "fork_failed": s.pace.rank.process.cuda,
            **split(s.loader),
        },
        gain_ceiling_ratio=s.gain(after_s),
    )


def heavy_share(s: Symptoms) -> Explanation | None:
    """Explain S23: one worker's share of a stream is too heavy, but the others keep up; None otherwise.

    An iterable dataset delivers batches in turn, worker after worker. So the worker with the heavy files,
    long documents or larger shards sets the pace: the loop regularly waits for it while batches of the others
    are ready. Neither prefetching nor more workers help, because the share stays with one worker.
    """
    workers = s.workers
    if not s.loader.iterable_dataset or workers < 2:
        return None
    usual = {}
    for worker in range(workers):
        took = s.pace.fetches.fetch_s[s.pace.fetches.worker == worker]
        if took.size < FEW_SHARE_BATCHES:
            return None
        usual[worker] = median(took)
    turn_s = workers * s.step_s  # from one batch of a worker to its next
    least_s = min(usual.values())
    heavy = [worker for worker, took_s in usual.items() if took_s > max(turn_s, HEAVY_SHARE_FACTOR * least_s)]
    light_s = max((took_s for worker, took_s in usual.items() if worker not in heavy), default=0.0)
    if not heavy or 2 * len(heavy) > workers or light_s > turn_s:
        return None
    heavy_s = max(usual[worker] for worker in heavy)
    even_s = iteration_with(sum(usual.values()) / workers, workers, s.step_s)
    return Explanation(
        scenario="S23",
        confidence=0.85,
        rule="heavy-share",
        params={
            "loader": s.loader.name,
            "heavy": " ".join(str(worker) for worker in heavy),
            "heavy_workers": len(heavy),
            "workers": workers,
            "heavy_s": heavy_s,
            "light_s": light_s,
            "turn_s": turn_s,
        },
        gain_ceiling_ratio=s.gain(even_s),
        worker=heavy[0] if len(heavy) == 1 else None,
        evidence=[
            observed("usual-fetch-of-the-heavy-share", heavy_s, "s"),
            observed("usual-fetch-of-the-other-workers-at-most", light_s, "s"),
            observed("time-between-two-batches-of-a-worker", turn_s, "s"),
        ],
    )


class GrownFetch(NamedTuple):
    """A fetch whose time, in seconds, has risen steadily."""

    of_cpu: bool  # its CPU time has risen, not its duration
    first_s: float
    last_s: float
    span_s: float
    kept_up: bool  # the workers kept up at first


def growing(s: Symptoms) -> Explanation | None:
    """Explain S58: fetches take longer and longer, which more workers would only delay; None otherwise."""
    grown = _growth(s)
    if grown is None:
        return None
    first_s, last_s = grown.first_s, grown.last_s
    return Explanation(
        scenario="S58",
        confidence=0.95,  # more than too few workers has, which is reported before the growth shows
        rule="fetches-keep-growing",
        params={
            **_speeds(s),
            "of_cpu": grown.of_cpu,
            "first_s": first_s,
            "last_s": last_s,
            "span_s": grown.span_s,
            "kept_up": grown.kept_up,
        },
        gain_ceiling_ratio=s.gain(max(s.step_s, s.fetch_s * first_s / last_s / s.workers)),
        evidence=known_evidence(
            ("cpu-time-of-a-fetch" if grown.of_cpu else "fetch-of-a-batch", last_s, "s"),
            ("cpu-time-of-a-fetch-before" if grown.of_cpu else "fetch-of-a-batch-before", first_s, "s"),
            ("seen-for", grown.span_s, "s"),
        ),
    )


def _growth(s: Symptoms) -> GrownFetch | None:
    """Return how a fetch's duration, or else its CPU time, has risen steadily; None if neither has.

    A cost that grows with each sample grows more slowly once the loop waits, so the rise need not be a
    straight line. If others use the CPUs, the duration follows their load, and only the CPU time shows the
    growth.
    """
    course = s.pace.rank.courses.get(s.loader.loader)
    for slices in parts(course) if course is not None else ():
        clocks = (slices.fetch_s,) if s.waits_for_storage else (slices.fetch_s, slices.fetch_cpu_s)
        few = max(FEW_ROWS, slices.fetch_s.size // 16)  # at each end
        half = (slices.fetch_s.size - few) // 2
        kept_up = median(slices.fetch_s[:few]) / s.workers <= s.step_s
        for times_s in clocks:
            first_s, middle_s, last_s = (
                median(times_s[at : at + few]) for at in (0, half, times_s.size - few)
            )
            grown = 0 < first_s <= last_s / (GROWN_FETCH_FACTOR if kept_up else GROWN_ALONE_FACTOR)
            between = BETWEEN_FACTOR * first_s <= middle_s <= last_s / BETWEEN_FACTOR
            if grown and between and trend(times_s) >= STEADY_RISE:
                span_s = float(slices.t_ns[-1] - slices.t_ns[0]) / 1e9
                return GrownFetch(times_s is slices.fetch_cpu_s, first_s, last_s, span_s, kept_up)
    return None


def no_cpu_for_more(s: Symptoms) -> Explanation | None:
    """Explain S07: the workers compute, and no CPU is free for more of them; None otherwise."""
    cpus, computing = s.cpus, s.computing_ratio
    full = cpus.free < FREE_CPUS if math.isfinite(cpus.free) else s.workers >= s.cores
    if s.waits_for_storage or s.mostly_awaits or not (full or _target(s) <= s.workers):
        return None
    on_cpu = min(computing, s.fetch_cpu_ratio) if math.isfinite(s.fetch_cpu_ratio) else computing
    cpu_per_sample = s.fetch_s * on_cpu / s.samples if s.samples > 0 else math.nan
    most = cpus.per_rank / cpu_per_sample if cpu_per_sample > 0 else math.nan
    return Explanation(
        scenario="S07",
        confidence=0.85 if math.isfinite(cpus.free) else 0.6,
        rule="no-cpu-for-more-workers",
        params={
            **_speeds(s),
            "comb": s.comb_period,
            "computing_ratio": min(1.0, computing),
            "others_cpus": held_by_others(cpus),
            "sample_cpu_s": cpu_per_sample if math.isfinite(most) else None,
            "samples_per_s": most if math.isfinite(most) else None,
            "usable_cpus": cpus.usable,
            "ranks": cpus.ranks,
        },
        gain_ceiling_ratio=s.gain(s.step_s),
    )


def slow_storage(s: Symptoms) -> Explanation | None:
    """Explain S08: the workers do nothing but wait for their reads; None otherwise.

    There must be many workers already, or far too many must be needed.
    """
    enough = s.workers >= max(MANY_WORKERS, s.cores) or s.workers_needed > max(
        MOST_NEEDED_WORKERS, 4 * s.cores
    )
    if not (s.waits_for_storage and enough):
        return None
    machine = s.machine
    mapped = machine.worker_faults_per_s >= MAPPED_FAULTS_PER_S
    return Explanation(
        scenario="S08",
        confidence=0.8,
        rule="slow-storage",
        params={
            **_speeds(s),
            "comb": s.comb_period,
            "computing_ratio": s.computing_ratio,
            "faults_per_s": machine.worker_faults_per_s if mapped else None,
            "try_workers": min(4 * s.workers, workers_needed(s.fetch_s, s.step_s)),
            **_before_more(s),
        },
        gain_ceiling_ratio=s.gain(s.step_s),
        evidence=known_evidence(
            ("read-from-storage-per-second", machine.read_bytes_per_s, "bytes"),
            ("waits-of-a-worker-voluntary-switches", machine.worker_waits_per_s, "per_s"),
            ("page-faults-of-a-worker-that-wait-for-storage", machine.worker_faults_per_s, "per_s"),
            ("i-o-pressure", machine.psi_io_ratio, "ratio"),
        ),
    )


def too_few_workers(s: Symptoms) -> Explanation:
    """Explain S02: more workers would keep up, and there is room for them."""
    workers, cpus, computing = s.workers, s.cpus, s.computing_ratio
    target = _target(s)
    after_s = max(iteration_with(s.fetch_s, target, s.step_s), cpus.least_s(s.iteration_s))
    if math.isfinite(cpus.free) and computing >= LATENCY_CPU_RATIO:
        room = "free"
    else:
        room = "little-used" if math.isfinite(computing) else "unknown"
    return Explanation(
        scenario="S02",
        confidence=0.9 if math.isfinite(computing) and (s.comb_period or workers == 1) else 0.75,
        rule="too-few-workers",
        params={
            **_speeds(s),
            "short": s.fetch_s / workers > s.step_s,
            "comb": s.comb_period,
            "target": target,
            "room": room,
            "free_cpus": cpus.free,
            "usable_cpus": cpus.usable,
            "computing_ratio": computing,
            **_before_more(s),
        },
        gain_ceiling_ratio=s.gain(after_s),
    )


def _target(s: Symptoms) -> int:
    """Return how many workers to use: enough to keep up, but no more computing ones than the CPUs carry."""
    if s.waits_for_storage or s.mostly_awaits:
        return s.workers_needed
    known = [ratio for ratio in (s.computing_ratio, s.worker_cpu_ratio) if math.isfinite(ratio)]
    return min(s.workers_needed, _most_workers(s.cpus, max(known, default=1.0), s.workers))


def _most_workers(cpus: Cpus, cores: float, now: int) -> int:
    """Return how many workers the CPUs carry: ``now`` running ones, plus those that fit on the free CPUs.

    ``each`` is the CPU use of one worker, in cores.
    """
    if not math.isfinite(cpus.free):
        return max(now, 4)
    most = max(1, int(MOST_WORKERS_PER_CPU * cpus.per_rank))
    return max(1, now, min(most, now + int(cpus.free / cpus.ranks / max(cores, 0.1) + 0.5)))


def _speeds(s: Symptoms) -> dict[str, Param]:
    """Return the parameters of the messages ``workers-deliver`` and ``worker-and-model``."""
    return {
        "workers": s.workers,
        "iteration_s": s.iteration_s,
        "fetch_s": s.fetch_s,
        "step_s": s.step_s,
    }


def _before_more(s: Symptoms) -> dict[str, Param]:
    """Return the parameters of ``before-more-workers``: a stream's split, and whether workers sleep."""
    asleep = looks_ratio(s, "timer_wait")
    tells = s.waits_for_storage and asleep >= WORKERS_ASLEEP_RATIO
    return {**split(s.loader), "asleep_ratio": asleep if tells else None}
