"""Single long waits in a run that otherwise keeps up: one slow sample (S20), or jitter above the cushion (S21).

Waits that one outstanding sample explains are told apart from the steady trouble of the other batches. A sample that takes
twelve seconds says nothing about the number of workers, and workers that are too few say nothing about that sample: each is
judged without the other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from loaderwatch.core.records import UNKNOWN
from loaderwatch.core.wire import SpanInfo
from loaderwatch.detect.explanation import Explanation
from loaderwatch.detect.finding import Evidence
from loaderwatch.detect.input_bound.batch_causes import collector_spike_cause, collector_times
from loaderwatch.detect.input_bound.heavy_share import heavy_share_cause
from loaderwatch.detect.limits import Limits
from loaderwatch.detect.measures.gain import gain_ratio, prefetch_needed
from loaderwatch.detect.measures.pace import Pace
from loaderwatch.detect.measures.statistics import median, total
from loaderwatch.detect.measures.step_change import may_be_changing, step_change
from loaderwatch.detect.text import count, duration, listing, rate, sample_name

SPIKE_FACTOR = 4.0  # times the typical iteration
MOST_PREFETCH = 32  # a cushion beyond this costs more memory than it is worth
FETCH_PART = 0.5  # share of a long wait in which a worker must have been fetching to be its cause
STARVED_PART = 0.5  # of a fetch, ready to run and without a CPU
SAMPLE_NS = 1_000_000_000
JITTER_SPIKES = 3  # distinct slow fetches that make it jitter rather than a bad sample
COLLECTED_PART = 0.5  # of a fetch, in the garbage collector: not the sample's doing


@dataclass(frozen=True)
class Spike:
    """One long wait and the fetch that caused it. None where not known."""

    request_ns: int
    wait_s: float
    ready: bool  # other batches lay ready behind the awaited one
    worker: int | None
    sample_index: int | None
    sample_s: float | None
    fetch_s: float | None
    fetch_began_ns: int | None = None
    collected_s: float = 0.0  # of that fetch, in the worker's garbage collector
    pid: int | None = None
    open: bool = False  # it goes on


def spike_mask(pace: Pace, limits: Limits) -> NDArray[np.bool_]:
    """Rows whose wait stands out from the others."""
    iteration_s = median(pace.wait_s + np.nan_to_num(pace.step_s) + pace.nested_s)
    result: NDArray[np.bool_] = pace.wait_s >= max(limits.spike_s, SPIKE_FACTOR * iteration_s)
    return result


def find_spikes(pace: Pace, limits: Limits) -> list[Spike]:
    """The long waits of a pace that a worker caused, oldest first.

    A wait during which the awaited worker was done is no spike: the batch lay ready, and was not taken. Nor is one for
    a worker that would have been done in time, had it been given a CPU: on a crowded machine any fetch may take long.
    """
    rows = np.flatnonzero(spike_mask(pace, limits))
    spikes = [_spike(pace, int(row)) for row in rows]
    return [spike for spike in spikes if spike is not None and not _starved(pace, spike, limits)]


def spike_cause(pace: Pace, spikes: list[Spike]) -> Explanation:
    """What the long waits of a loader that otherwise keeps up come from."""
    workers = pace.workers or 1
    step_s = pace.mean_step_s
    tail_s = max(spike.fetch_s or spike.wait_s for spike in spikes)
    prefetch = prefetch_needed(tail_s, step_s, workers)
    indices = _unique([spike.sample_index for spike in spikes])
    distinct = len(indices) if indices else len(spikes)
    lost_s = sum(spike.wait_s for spike in spikes)
    after_s = pace.iteration_s - lost_s / max(1, pace.wait_s.size)
    gain = gain_ratio(pace.iteration_s, after_s)
    worst = max(spikes, key=lambda spike: spike.wait_s)
    collected = collector_spike_cause(worst.worker, worst.fetch_s or worst.wait_s, worst.collected_s, gain)
    if collected is not None:
        return collected
    heavier = heavy_share_cause(pace)
    if heavier is not None:
        return heavier
    if len(spikes) >= JITTER_SPIKES and distinct >= JITTER_SPIKES and prefetch <= MOST_PREFETCH:
        return _jitter(pace, spikes, tail_s, prefetch, gain, indices)
    return _slow_sample(pace, spikes, tail_s, indices, gain)


def _slow_sample(
    pace: Pace, spikes: list[Spike], tail_s: float, indices: list[int], gain: float | None
) -> Explanation:
    worst = max(spikes, key=lambda spike: spike.wait_s)
    ready = sum(spike.ready for spike in spikes)
    who = f"worker {worst.worker}" if worst.worker is not None else "a worker"
    took_s = worst.sample_s or worst.fetch_s or worst.wait_s
    if worst.sample_index is not None:
        stream = pace.loader.iterable_dataset
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
        f" {duration(median(pace.fetches.fetch_s))}. Meanwhile no new work is handed out, and the other workers go idle.",
        advice=f"{look} With torch 2.6 or newer in_order=False lets ready batches pass a slow one (the order then changes)."
        " More workers do not help against such a sample.",
        gain_ceiling_ratio=gain,
        worker=worst.worker,
        pid=worst.pid,
        sample_indices=indices,
        evidence=_evidence(spikes, tail_s),
    )


def _jitter(
    pace: Pace, spikes: list[Spike], tail_s: float, prefetch: int, gain: float | None, indices: list[int]
) -> Explanation:
    workers, now = pace.workers or 1, pace.loader.prefetch_factor or 2
    cushion_s = now * workers * pace.mean_step_s
    size = median(pace.fetches.bytes)
    memory = (
        f" It needs about {rate(prefetch * workers * size / 2**20)} MiB of /dev/shm."
        if math.isfinite(size)
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
        f" {duration(pace.mean_step_s)} per step).",
        advice=advice,
        gain_ceiling_ratio=gain,
        sample_indices=indices[:16],
        evidence=[*_evidence(spikes, tail_s), Evidence(label="read ahead", value=cushion_s, unit="s")],
    )


def _evidence(spikes: list[Spike], tail_s: float) -> list[Evidence]:
    return [
        Evidence(label="long waits", value=len(spikes), unit="count"),
        Evidence(label="longest wait", value=max(spike.wait_s for spike in spikes), unit="s"),
        Evidence(label="slowest fetch", value=tail_s, unit="s"),
        Evidence(
            label="long waits with other batches ready", value=sum(s.ready for s in spikes), unit="count"
        ),
    ]


def _unique(values: list[int | None]) -> list[int]:
    return list(dict.fromkeys(value for value in values if value is not None))


def _spike(pace: Pace, row: int) -> Spike | None:
    request_ns, wait_s = int(pace.request_ns[row]), float(pace.wait_s[row])
    awaited = int(pace.awaited[row])
    worker = awaited if awaited >= 0 else None
    if pace.open_wait and row == pace.wait_s.size - 1:
        return _open_spike(pace.rank.workers, request_ns, wait_s, worker, pace)
    fetches = pace.fetches
    until_ns = request_ns + int(wait_s * 1e9)
    candidates = (fetches.ended_ns > request_ns) & (fetches.began_ns < until_ns)
    if worker is not None:
        candidates &= fetches.worker == worker
    # The batch that ended the wait was ready when it ended; later ones of the same worker are not to blame.
    candidates &= fetches.ended_ns <= until_ns + 250_000_000
    rows = np.flatnonzero(candidates)
    if not rows.size:
        if bool((fetches.worker == worker).any()):
            return None  # its fetches are known, and none was under way
        return Spike(request_ns, wait_s, bool(pace.anything_ready[row]), worker, None, None, None)
    within_ns = np.minimum(fetches.ended_ns[rows], until_ns) - np.maximum(fetches.began_ns[rows], request_ns)
    if within_ns.sum() < FETCH_PART * wait_s * 1e9:
        return None
    slowest = int(rows[np.argmax(np.nan_to_num(fetches.fetch_s[rows]))])
    fetch_s, sample_s = float(fetches.fetch_s[slowest]), float(fetches.slow_s[slowest])
    named = sample_s >= 0.5 * fetch_s and fetches.slow_index[slowest] != UNKNOWN
    return Spike(
        request_ns=request_ns,
        wait_s=wait_s,
        ready=bool(pace.anything_ready[row]),
        worker=int(fetches.worker[slowest]),
        sample_index=int(fetches.slow_index[slowest]) if named else None,
        sample_s=sample_s if named else None,
        fetch_s=fetch_s,
        fetch_began_ns=int(fetches.began_ns[slowest]),
        collected_s=float(collector_times(pace)[slowest]),
    )


def _starved(pace: Pace, spike: Spike, limits: Limits) -> bool:
    """Whether the kernel kept the worker from a CPU for most of its fetch, and what is left is short."""
    if spike.fetch_began_ns is None or spike.fetch_s is None:
        return False
    rows = pace.rank.table("processes")
    ended_ns = spike.fetch_began_ns + int(spike.fetch_s * 1e9)
    during = (
        (rows["worker"] == spike.worker)
        & (rows["loader"] == pace.loader.loader)
        & (rows["t_ns"] > spike.fetch_began_ns)
        & (rows["t_ns"] <= ended_ns + SAMPLE_NS)
    )
    # Each row tells of the second before it.
    delayed_s = min(spike.fetch_s, total(rows["run_delay_ratio"][during]))
    return delayed_s >= STARVED_PART * spike.fetch_s and spike.fetch_s - delayed_s < 2 * limits.spike_s


def _open_spike(
    workers: list[SpanInfo], request_ns: int, wait_s: float, worker: int | None, pace: Pace
) -> Spike | None:
    span = next(
        (w for w in workers if w.worker == worker and w.loader in (None, pace.loader.loader)),
        None,
    )
    if span is not None and span.phase == "idle":
        return None
    sample_s = None
    if span is not None and span.sample_since_ns is not None:
        sample_s = (pace.rank.made_ns - span.sample_since_ns) / 1e9
    others_idle = any(w.phase == "idle" and w.worker != worker for w in workers)
    return Spike(
        request_ns=request_ns,
        wait_s=wait_s,
        ready=others_idle,
        worker=worker,
        sample_index=span.sample_index if span is not None else None,
        sample_s=sample_s,
        fetch_s=sample_s,
        pid=span.pid if span is not None else None,
        open=True,
    )


def slow_samples(pace: Pace, limits: Limits) -> list[Spike]:
    """The long waits for one or two samples that take far longer than a usual batch; none where many do."""
    if not pace.workers:
        return []
    usual_s = median(pace.fetches.fetch_s)
    found = [
        spike
        for spike in find_spikes(pace, limits)
        if spike.sample_index is not None
        and (spike.sample_s or 0.0) >= SPIKE_FACTOR * usual_s
        and spike.collected_s < COLLECTED_PART * (spike.fetch_s or spike.wait_s)
    ]
    if not 0 < len({spike.sample_index for spike in found}) < JITTER_SPIKES:
        return []
    if step_change(pace.fetches) is not None or may_be_changing(pace.fetches):
        return []  # all workers are slow at once: that is no sample's doing
    return found


def without(pace: Pace, spikes: Sequence[Spike]) -> Pace:
    """The pace as it is but for these waits and the fetches that they were for."""
    if not spikes:
        return pace
    began_ns = [spike.fetch_began_ns for spike in spikes if spike.fetch_began_ns is not None]
    rest = pace.where(~np.isin(pace.request_ns, [spike.request_ns for spike in spikes]))
    return rest.with_fetches(~np.isin(pace.fetches.began_ns, began_ns))
