"""Causes of single long waits for a loader that otherwise keeps up: S20, S21 and S33.

S20 is a slow sample. S21 is jitter: many fetches that sometimes take longer than the read-ahead lasts. S33 is
a dataset that reads a block of samples at once.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Final

import numpy as np

from loaderwatch.core.answers import Evidence, Text
from loaderwatch.core.records import UNKNOWN
from loaderwatch.core.threshold import threshold
from loaderwatch.detect.finding import Explanation, observed
from loaderwatch.detect.input_bound.spikes import Spike
from loaderwatch.detect.input_bound.symptoms import Symptoms
from loaderwatch.detect.measures.gain import MOST_PREFETCH, prefetch_needed
from loaderwatch.detect.measures.statistics import median
from loaderwatch.detect.shared_thresholds import JITTER_SPIKES

RECURRING_RATIO: Final = threshold(
    0.5, "ratio", "chosen: of the long waits; if so many are for recurring samples, those are to blame"
)
MOST_SLOWEST_NAMED: Final = threshold(3, "samples", "chosen: the message stays short")
MOST_SLOW_INDICES: Final = threshold(16, "samples", "chosen: the finding stays short")
MOST_BURST_PREFETCH: Final = threshold(
    128, "batches", "chosen: only a large prefetch_factor covers the read of a whole block"
)
LEAST_BLOCK_SAMPLES: Final = threshold(8, "samples", "chosen: closer samples may each be slow by themselves")
MOST_BLOCKED_PREFETCH: Final = threshold(
    16, "batches", "chosen: below MOST_PREFETCH: in_order=False lets ready batches pass at no cost of memory"
)


def blocks(s: Symptoms) -> Explanation | None:
    """Explain S33: the dataset reads a block of samples when the last one is used up; None otherwise.

    The sign is the position of the slow samples: in each worker they are one block apart.
    """
    size = _block(s.spikes)
    if size is None or not (s.loader.iterable_dataset or _each_reads_them(s, size)):
        return None
    each_s, tail_s = s.mean_fetch_s / s.workers, _tail_s(s.spikes)
    prefetch = prefetch_needed(_cushion_needed_s(s), s.step_s, s.workers)
    bears = "prefetch" if prefetch <= MOST_BURST_PREFETCH else "nothing"
    return Explanation(
        scenario="S33",
        confidence=0.92,  # more than a slow sample has, which the first block looks like
        rule="slow-blocks",
        params={
            "block": size,
            "tail_s": tail_s,
            "usual_s": s.typical_fetch_s,
            "then": "stays" if each_s > s.step_s else bears,
            "each_s": each_s,
            "step_s": s.step_s,
            "prefetch_factor": prefetch,
            "memory_bytes": _memory_bytes(s, prefetch),
        },
        gain_ceiling_ratio=s.gain(max(s.without_spikes_s, each_s)),
        worker=s.longest.worker if s.workers == 1 else None,
        evidence=[*_evidence(s), observed("samples-read-at-once", size, "count")],
    )


def jitter(s: Symptoms) -> Explanation | None:
    """Explain S21: several different fetches take longer than the read-ahead lasts; None otherwise.

    A larger prefetch_factor would cover them. If ready batches are behind the awaited one, the factor must be
    moderate: beyond it, letting ready batches pass is cheaper.
    """
    spikes, indices, workers, tail_s = s.spikes, _indices(s.spikes), s.workers, _tail_s(s.spikes)
    prefetch, now = prefetch_needed(_cushion_needed_s(s), s.step_s, workers), s.loader.prefetch_factor or 2
    distinct = len(indices) if indices else len(spikes)
    blocked = _others_could_pass(s)
    most = MOST_BLOCKED_PREFETCH if blocked else MOST_PREFETCH
    if min(len(spikes), distinct) < JITTER_SPIKES or prefetch > most:
        return None
    if _recurring(spikes) >= RECURRING_RATIO * len(spikes):
        return None  # the same samples are slow each time, which is no jitter
    if s.mean_fetch_s > workers * s.step_s:
        return None  # no read-ahead lasts if the workers are slower on average
    cushion_s = now * workers * s.step_s
    return Explanation(
        scenario="S21",
        confidence=0.85,
        rule="uneven-fetches",
        params={
            "slow_fetches": len(spikes),
            "tail_s": tail_s,
            "cushion_s": cushion_s,
            "prefetch_factor_now": now,
            "workers": workers,
            "step_s": s.step_s,
            "raise": prefetch > now,
            "prefetch_factor": prefetch,
            "memory_bytes": _memory_bytes(s, prefetch),
            "pass": blocked,
            "named": _slowest(s, indices) or None,
        },
        gain_ceiling_ratio=s.gain(s.without_spikes_s),
        sample_indices=indices[:MOST_SLOW_INDICES],
        evidence=[*_evidence(s), observed("read-ahead", cushion_s, "s")],
    )


def slow_sample(s: Symptoms) -> Explanation:
    """Explain S20: slow samples hold up the batches behind them."""
    worst, spikes, indices = s.longest, s.spikes, _indices(s.spikes)
    ready = sum(spike.ready for spike in spikes)
    took_s = worst.sample_s or worst.fetch_s or worst.wait_s
    several = len(indices) > 1
    could_pass = s.workers > 1 and s.loader.in_order is not False
    return Explanation(
        scenario="S20",
        confidence=0.7 if worst.sample_index is None or not ready else 0.8 if several else 0.9,
        rule="slow-sample",
        params={
            "sample": worst.sample_index,
            "stream": bool(s.loader.iterable_dataset),
            "worker": worst.worker,
            "took_s": took_s,
            "usual_s": s.typical_fetch_s,
            "several": several,
            "slow_samples": len(indices),
            "named": _named(s, indices),
            "behind": ready > 0,
            "pass": could_pass,
        },
        gain_ceiling_ratio=s.gain(s.without_spikes_s),
        worker=worst.worker,
        pid=worst.pid,
        sample_indices=indices[:MOST_SLOW_INDICES],
        evidence=_evidence(s),
    )


def _block(spikes: Sequence[Spike]) -> int | None:
    """Return how many samples are between the slow ones of each worker; None if that differs.

    If there is only one gap, it may be chance: the first sample's distance from the beginning must fit as
    well. A block that nobody waited for makes a gap twice as large, so only half of the gaps must equal the
    block.
    """
    places: defaultdict[int | None, set[int]] = defaultdict(set)
    for spike in spikes:
        if spike.sample_index is not None:
            places[spike.worker].add(spike.sample_index)
    apart = [gap for indices in places.values() for gap in np.diff(sorted(indices)).tolist()]
    if not apart or min(apart) < LEAST_BLOCK_SAMPLES:
        return None
    size = int(min(apart))
    if len(apart) == 1:
        apart += [size, *(index for indices in places.values() if len(indices) > 1 for index in indices)]
    alike = sum(gap == size for gap in apart)
    return size if 2 * alike >= len(apart) and all(gap % size == 0 for gap in apart) else None


def _each_reads_them(s: Symptoms, size: int) -> bool:
    """Whether several workers read most blocks: a sample that is slow by itself has only one reader."""
    fetches, least_s = s.pace.fetches, 0.5 * _tail_s(s.spikes)
    readers: defaultdict[int, set[int]] = defaultdict(set)
    for row in np.flatnonzero((np.nan_to_num(fetches.slow_s) >= least_s) & (fetches.slow_index != UNKNOWN)):
        readers[int(fetches.slow_index[row]) // size].add(int(fetches.worker[row]))
    return 2 * sum(len(workers) > 1 for workers in readers.values()) > len(readers)


def _others_could_pass(s: Symptoms) -> bool:
    """Whether in most long waits ready batches of other workers were behind the awaited one."""
    return (
        s.workers > 1
        and s.loader.in_order is not False
        and 2 * sum(spike.ready for spike in s.spikes) > len(s.spikes)
    )


def _cushion_needed_s(s: Symptoms) -> float:
    """Return how many seconds the read-ahead must last so that the loop never waits for a fetch.

    It must cover the slowest fetch. If a worker has not caught up before its next slow fetch, the delays add
    up. Each fetch adds the time by which it exceeds one turn of all workers (Lindley's recursion for a
    queue).
    """
    fetches, turn_s, tail_s = s.pace.fetches, s.workers * s.step_s, _tail_s(s.spikes)
    for worker in np.unique(fetches.worker[s.lately]):
        took_s = np.nan_to_num(fetches.fetch_s[s.lately & (fetches.worker == worker)])
        walk_s = np.cumsum(took_s - turn_s)
        behind_s = walk_s - np.minimum.accumulate(np.minimum(walk_s, 0.0))
        tail_s = max(tail_s, float(behind_s.max()) + turn_s)
    return tail_s


def _memory_bytes(s: Symptoms, prefetch: int) -> float | None:
    """Return the bytes of /dev/shm that a prefetch_factor needs; None if they are few or not known."""
    needed = prefetch * s.workers * median(s.pace.fetches.bytes)
    return needed if needed >= 2**19 else None


def _slowest(s: Symptoms, indices: Sequence[int]) -> list[Text]:
    """Return the names of the slowest samples; empty if none are known."""
    slowest = sorted(s.spikes, key=lambda spike: -(spike.sample_s or 0.0))
    return _named(s, [index for index in _indices(slowest) if index in indices][:MOST_SLOWEST_NAMED])


def _named(s: Symptoms, indices: Sequence[int]) -> list[Text]:
    """Return the names of samples as messages."""
    stream = bool(s.loader.iterable_dataset)
    return [Text("sample-name", {"sample": index, "stream": stream}) for index in indices]


def _recurring(spikes: Sequence[Spike]) -> int:
    """Return the number of waits for samples that caused several waits."""
    times = Counter(spike.sample_index for spike in spikes if spike.sample_index is not None)
    return sum(number for number in times.values() if number > 1)


def _indices(spikes: Sequence[Spike]) -> list[int]:
    """Return the indices of the samples to blame, each once."""
    return list(dict.fromkeys(spike.sample_index for spike in spikes if spike.sample_index is not None))


def _tail_s(spikes: Sequence[Spike]) -> float:
    """Return the seconds of the slowest fetch; the wait stands in for a fetch that is not known."""
    return max(spike.fetch_s or spike.wait_s for spike in spikes)


def _evidence(s: Symptoms) -> list[Evidence]:
    ready = sum(spike.ready for spike in s.spikes)
    return [
        observed("long-waits", len(s.spikes), "count"),
        observed("longest-wait", s.longest.wait_s, "s"),
        observed("slowest-fetch", _tail_s(s.spikes), "s"),
        observed("long-waits-with-other-batches-ready", ready, "count"),
    ]
