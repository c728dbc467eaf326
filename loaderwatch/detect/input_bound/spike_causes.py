"""Causes of single long waits for a loader that otherwise keeps up: S20, S21 and S33.

S20 is a slow sample, S21 is jitter: many fetches that now and then outlast what is read ahead. S33 is a dataset that reads a block
of samples at once.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

import numpy as np

from loaderwatch.core.answers import Evidence
from loaderwatch.core.records import UNKNOWN
from loaderwatch.detect.explanation import Explanation
from loaderwatch.detect.input_bound.spikes import Spike
from loaderwatch.detect.input_bound.symptoms import Symptoms
from loaderwatch.detect.limits import JITTER_SPIKES
from loaderwatch.detect.measures.gain import prefetch_needed
from loaderwatch.detect.measures.statistics import median
from loaderwatch.detect.text import count, duration, listing, rate, sample_name

RECURRING_RATIO = 0.5
"""Share of the long waits that are for samples of others of them, from which on those samples are to blame."""
MOST_NAMED = 3
MOST_INDICES = 16
MOST_PREFETCH = 32  # a prefetch_factor above this costs more memory than it is worth
MOST_BURST_PREFETCH = 128  # the same where nothing but a large one bears the burst of a whole block
LEAST_BLOCK = 8  # samples: what lies nearer to each other may be slow by itself
MOST_BLOCKED_PREFETCH = 16  # the same where in_order=False lets ready batches pass, which costs none


def blocks(s: Symptoms) -> Explanation | None:
    """Explain S33: the dataset reads many samples at once whenever it has handed out the last of them; None otherwise.

    Told by the places of the slow samples: of each worker they lie a block apart.
    """
    size = _block(s.spikes)
    if size is None or not (s.loader.iterable_dataset or _each_reads_them(s, size)):
        return None
    each_s, tail_s = s.mean_fetch_s / s.workers, _tail_s(s.spikes)
    advice = (
        "No sample is to blame. Read the next block while this one is handed out: in a thread of the dataset, or, for a shuffle buffer,"
        " take one sample and read one. Smaller blocks make shorter stops that come more often."
    )
    prefetch = prefetch_needed(_cushion_needed_s(s), s.step_s, s.workers)
    if each_s > s.step_s:
        advice += f" On average a batch takes the workers {duration(each_s)}, for steps of {duration(s.step_s)}: that stays."
    elif prefetch <= MOST_BURST_PREFETCH:
        advice += f" prefetch_factor={prefetch} bears it as well.{_memory(s, prefetch)}"
    return Explanation(
        scenario="S33",
        confidence=0.92,  # above that of a slow sample, which the first block is told as
        because=f"every {size} samples a worker stops to read for up to {duration(tail_s)}",
        cause=f"The slow samples lie {size} apart in what a worker reads. There the dataset reads a whole block (a shuffle buffer that is"
        f" filled anew, a row group, a shard) and then hands it out from memory: a usual batch takes {duration(s.typical_fetch_s)}.",
        advice=advice,
        gain_ceiling_ratio=s.gain(max(s.without_spikes_s, each_s)),
        worker=s.longest.worker if s.workers == 1 else None,
        evidence=[*_evidence(s), Evidence(label="samples read at once", value=size, unit="count")],
    )


def jitter(s: Symptoms) -> Explanation | None:
    """Explain S21: several different fetches outlast what is read ahead; None otherwise.

    A larger prefetch_factor would bear them. Where ready batches lie behind the awaited one, it must be a moderate one:
    beyond it, letting those pass is the cheaper cure.
    """
    spikes, indices, workers, tail_s = s.spikes, _indices(s.spikes), s.workers, _tail_s(s.spikes)
    prefetch, now = prefetch_needed(_cushion_needed_s(s), s.step_s, workers), s.loader.prefetch_factor or 2
    distinct = len(indices) if indices else len(spikes)
    blocked = _others_could_pass(s)
    most = MOST_BLOCKED_PREFETCH if blocked else MOST_PREFETCH
    if min(len(spikes), distinct) < JITTER_SPIKES or prefetch > most:
        return None
    if _recurring(spikes) >= RECURRING_RATIO * len(spikes):
        return None  # the same samples are slow each time: that is no jitter
    if s.mean_fetch_s > workers * s.step_s:
        return None  # no cushion lasts where the workers are slower on average
    cushion_s = now * workers * s.step_s
    if prefetch > now:
        advice = f"Set prefetch_factor={prefetch} (now {now}).{_memory(s, prefetch)}"
        passing = " in_order=False (torch 2.6 or newer) takes no memory, but changes the order."
    else:
        advice = f"Find out why some fetches take {duration(tail_s)}."
        passing = " in_order=False (torch 2.6 or newer) lets others pass them."
    return Explanation(
        scenario="S21",
        confidence=0.85,
        because=f"{count(len(spikes), 'slow fetch', 'slow fetches')} of up to {duration(tail_s)} outlasted the"
        f" {duration(cushion_s)} of batches read ahead",
        cause=f"On average the workers keep up, but now and then a fetch takes up to {duration(tail_s)}, and the prefetched"
        f" batches last only {duration(cushion_s)} (prefetch_factor {now} × {count(workers, 'worker')} ×"
        f" {duration(s.step_s)} per step).",
        advice=advice + (passing if blocked else "") + _slowest(s, indices),
        gain_ceiling_ratio=s.gain(s.without_spikes_s),
        sample_indices=indices[:MOST_INDICES],
        evidence=[*_evidence(s), Evidence(label="read ahead", value=cushion_s, unit="s")],
    )


def slow_sample(s: Symptoms) -> Explanation:
    """Explain S20: slow samples hold up the batches behind them."""
    worst, spikes, indices = s.longest, s.spikes, _indices(s.spikes)
    ready = sum(spike.ready for spike in spikes)
    who = f"worker {worst.worker}" if worst.worker is not None else "a worker"
    took_s = worst.sample_s or worst.fetch_s or worst.wait_s
    stream, several = s.loader.iterable_dataset, len(indices) > 1
    if worst.sample_index is not None:
        what = f"{sample_name(worst.sample_index, stream)} took {duration(took_s)} in {who}"
        named = [sample_name(index, stream) for index in indices]
        look = f"Look at {listing(named)}: shorten, cache or skip {'them' if several else 'it'}."
    else:
        what = f"one batch took {duration(took_s)} in {who}"
        look = "Look at the samples of the batches named here: shorten, cache or skip the long ones."
    behind = " while finished batches waited behind it" if ready else ""
    others = f", the slowest of {len(indices)} slow samples" if several else ""
    passing = (
        " With torch 2.6 or newer in_order=False lets ready batches pass a slow one (the order then changes)."
        if s.workers > 1 and s.loader.in_order is not False
        else ""
    )
    return Explanation(
        scenario="S20",
        confidence=0.7 if worst.sample_index is None or not ready else 0.8 if several else 0.9,
        because=f"{what}{others}{behind}",
        cause=f"Batches are delivered in order, so {'each' if several else 'one'} slow sample holds up all that are ready:"
        f" {what}, a usual batch takes {duration(s.typical_fetch_s)}. Meanwhile no new work is handed out, and the other"
        " workers go idle.",
        advice=f"{look}{passing} More workers do not help against such {'samples' if several else 'a sample'}.",
        gain_ceiling_ratio=s.gain(s.without_spikes_s),
        worker=worst.worker,
        pid=worst.pid,
        sample_indices=indices[:MOST_INDICES],
        evidence=_evidence(s),
    )


def _block(spikes: Sequence[Spike]) -> int | None:
    """Return how many samples lie between the slow ones of each worker; None where that differs.

    Two of them may lie anywhere, unless they are as far apart as the first is from the beginning, or a part of that. A block
    that nobody waited for leaves a gap of two, but half of the gaps are of one.
    """
    places: defaultdict[int | None, set[int]] = defaultdict(set)
    for spike in spikes:
        if spike.sample_index is not None:
            places[spike.worker].add(spike.sample_index)
    apart = [gap for found in places.values() for gap in np.diff(sorted(found)).tolist()]
    if not apart or min(apart) < LEAST_BLOCK:
        return None
    size = int(min(apart))
    if len(apart) == 1:
        apart += [size, *(place for found in places.values() if len(found) > 1 for place in found)]
    alike = sum(gap == size for gap in apart)
    return size if 2 * alike >= len(apart) and all(gap % size == 0 for gap in apart) else None


def _each_reads_them(s: Symptoms, size: int) -> bool:
    """Whether most blocks were read by several workers: a sample of a map-style dataset may be slow by itself, but for one of them."""
    fetches, least_s = s.pace.fetches, 0.5 * _tail_s(s.spikes)
    readers: defaultdict[int, set[int]] = defaultdict(set)
    for row in np.flatnonzero((np.nan_to_num(fetches.slow_s) >= least_s) & (fetches.slow_index != UNKNOWN)):
        readers[int(fetches.slow_index[row]) // size].add(int(fetches.worker[row]))
    return 2 * sum(len(workers) > 1 for workers in readers.values()) > len(readers)


def _others_could_pass(s: Symptoms) -> bool:
    """Whether most of the long waits had ready batches of other workers lying behind the awaited one."""
    return (
        s.workers > 1
        and s.loader.in_order is not False
        and 2 * sum(one.ready for one in s.spikes) > len(s.spikes)
    )


def _cushion_needed_s(s: Symptoms) -> float:
    """Return how long the batches that are read ahead must last, in seconds, so that the loop waits for no fetch.

    The slowest fetch is the least. A worker that has not caught up by its next slow one is behind by both: each of its
    fetches puts it behind by what it takes beyond a turn of all workers (Lindley's recursion for a queue).
    """
    fetches, turn_s, tail_s = s.pace.fetches, s.workers * s.step_s, _tail_s(s.spikes)
    for worker in np.unique(fetches.worker[s.lately]):
        took_s = np.nan_to_num(fetches.fetch_s[s.lately & (fetches.worker == worker)])
        walk_s = np.cumsum(took_s - turn_s)
        behind_s = walk_s - np.minimum.accumulate(np.minimum(walk_s, 0.0))
        tail_s = max(tail_s, float(behind_s.max()) + turn_s)
    return tail_s


def _memory(s: Symptoms, prefetch: int) -> str:
    """Return a sentence about the /dev/shm that a prefetch_factor needs; an empty one where that is little or not known."""
    needed = prefetch * s.workers * median(s.pace.fetches.bytes)
    return f" It needs about {rate(needed / 2**20)} MiB of /dev/shm." if needed >= 2**19 else ""


def _slowest(s: Symptoms, indices: Sequence[int]) -> str:
    """Return a sentence that names the slowest samples; an empty one where they are not known."""
    if not indices:
        return ""
    slowest = sorted(s.spikes, key=lambda spike: -(spike.sample_s or 0.0))
    named = [index for index in _indices(slowest) if index in indices][:MOST_NAMED]
    return f" The slowest were {listing([sample_name(index, s.loader.iterable_dataset) for index in named])}."


def _recurring(spikes: Sequence[Spike]) -> int:
    """Return how many of these waits were for a sample that another one of them was for, too."""
    times = Counter(spike.sample_index for spike in spikes if spike.sample_index is not None)
    return sum(number for number in times.values() if number > 1)


def _indices(spikes: Sequence[Spike]) -> list[int]:
    """Return the indices of the samples that are to blame, each once."""
    return list(dict.fromkeys(spike.sample_index for spike in spikes if spike.sample_index is not None))


def _tail_s(spikes: Sequence[Spike]) -> float:
    """Return the seconds of the slowest fetch; where a fetch is not known, its wait counts instead."""
    return max(spike.fetch_s or spike.wait_s for spike in spikes)


def _evidence(s: Symptoms) -> list[Evidence]:
    ready = sum(spike.ready for spike in s.spikes)
    return [
        Evidence(label="long waits", value=len(s.spikes), unit="count"),
        Evidence(label="longest wait", value=s.longest.wait_s, unit="s"),
        Evidence(label="slowest fetch", value=_tail_s(s.spikes), unit="s"),
        Evidence(label="long waits with other batches ready", value=ready, unit="count"),
    ]
