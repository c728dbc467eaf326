"""Causes of single long waits for a loader that otherwise keeps up: S20 and S21.

S20 is a slow sample, S21 is jitter: many fetches that now and then outlast what is read ahead.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from loaderwatch.core.answers import Evidence
from loaderwatch.detect.explanation import Explanation
from loaderwatch.detect.input_bound.spikes import Spike
from loaderwatch.detect.input_bound.symptoms import Symptoms
from loaderwatch.detect.limits import JITTER_SPIKES
from loaderwatch.detect.measures.gain import prefetch_needed
from loaderwatch.detect.measures.statistics import mean, median
from loaderwatch.detect.text import count, duration, listing, rate, sample_name

RECURRING_RATIO = 0.5
"""Share of the long waits that are for samples of others of them, from which on those samples are to blame."""
MOST_NAMED = 3
MOST_PREFETCH = 32  # a prefetch_factor above this costs more memory than it is worth


def jitter(s: Symptoms) -> Explanation | None:
    """Explain S21: several different fetches outlast what is read ahead; None otherwise.

    A larger prefetch_factor, up to ``MOST_PREFETCH``, would bear them.
    """
    spikes, indices, workers, tail_s = s.spikes, _indices(s.spikes), s.workers, _tail_s(s.spikes)
    prefetch, now = prefetch_needed(tail_s, s.step_s, workers), s.loader.prefetch_factor or 2
    distinct = len(indices) if indices else len(spikes)
    if min(len(spikes), distinct) < JITTER_SPIKES or prefetch > MOST_PREFETCH:
        return None
    if _recurring(spikes) >= RECURRING_RATIO * len(spikes):
        return None  # the same samples are slow each time: that is no jitter
    if mean(s.pace.fetches.fetch_s) > workers * s.step_s:
        return None  # no cushion lasts where the workers are slower on average
    cushion_s = now * workers * s.step_s
    size = median(s.pace.fetches.bytes)
    memory = (
        f" It needs about {rate(prefetch * workers * size / 2**20)} MiB of /dev/shm."
        if prefetch * workers * size >= 2**19
        else ""
    )
    advice = (
        f"Set prefetch_factor={prefetch} (now {now}).{memory}"
        if prefetch > now
        else f"Find out why some fetches take {duration(tail_s)}; in_order=False (torch 2.6 or newer) lets others pass them."
    )
    return Explanation(
        scenario="S21",
        confidence=0.85,
        because=f"{count(len(spikes), 'slow fetch', 'slow fetches')} of up to {duration(tail_s)} outlasted the"
        f" {duration(cushion_s)} of batches read ahead",
        cause=f"On average the workers keep up, but now and then a fetch takes up to {duration(tail_s)}, and the prefetched"
        f" batches last only {duration(cushion_s)} (prefetch_factor {now} × {count(workers, 'worker')} ×"
        f" {duration(s.step_s)} per step).",
        advice=advice + _slowest(s, indices),
        gain_ceiling_ratio=s.gain(s.without_spikes_s),
        sample_indices=indices[:16],
        evidence=[*_evidence(s), Evidence(label="read ahead", value=cushion_s, unit="s")],
    )


def slow_sample(s: Symptoms) -> Explanation:
    """Explain S20: one slow sample, or very few, hold up the batches behind them."""
    worst, spikes, indices = s.longest, s.spikes, _indices(s.spikes)
    ready = sum(spike.ready for spike in spikes)
    who = f"worker {worst.worker}" if worst.worker is not None else "a worker"
    took_s = worst.sample_s or worst.fetch_s or worst.wait_s
    if worst.sample_index is not None:
        stream = s.loader.iterable_dataset
        what = f"{sample_name(worst.sample_index, stream)} took {duration(took_s)} in {who}"
        them = "them" if len(indices) > 1 else "it"
        look = f"Look at {listing([sample_name(index, stream) for index in indices])}: shorten, cache or skip {them}."
    else:
        what = f"one batch took {duration(took_s)} in {who}"
        look = "Look at the samples of the batches named here: shorten, cache or skip the long ones."
    behind = " while finished batches waited behind it" if ready else ""
    return Explanation(
        scenario="S20",
        confidence=0.7 if worst.sample_index is None or not ready else 0.9 if len(indices) == 1 else 0.8,
        because=f"{what}{behind}",
        cause=f"Batches are delivered in order, so one slow sample holds up all that are ready: {what}, a usual batch takes"
        f" {duration(median(s.pace.fetches.fetch_s))}. Meanwhile no new work is handed out, and the other workers go idle.",
        advice=f"{look} With torch 2.6 or newer in_order=False lets ready batches pass a slow one (the order then changes)."
        " More workers do not help against such a sample.",
        gain_ceiling_ratio=s.gain(s.without_spikes_s),
        worker=worst.worker,
        pid=worst.pid,
        sample_indices=indices,
        evidence=_evidence(s),
    )


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
