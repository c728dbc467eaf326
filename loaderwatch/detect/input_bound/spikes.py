"""Single long waits of a loop, and the fetch that each was for.

Waits for one outstanding sample are separated from the steady trouble of the other batches. A sample that
takes twelve seconds says nothing about the number of workers, and too few workers say nothing about that
sample.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from loaderwatch.core.facts import SpanInfo
from loaderwatch.core.records import UNKNOWN
from loaderwatch.core.threshold import threshold
from loaderwatch.detect.measures.machine import run_delay_s
from loaderwatch.detect.measures.pace import Pace
from loaderwatch.detect.measures.statistics import mean, median
from loaderwatch.detect.shared_thresholds import (
    COLLECTOR_PART,
    JITTER_SPIKES,
    LATENCY_CPU_RATIO,
    STARVED_PART,
)

SPIKE_S: Final = threshold(0.25, "s", "chosen: a shorter wait is no spike, however short the others are")
SPIKE_FACTOR: Final = threshold(
    4.0, "factor", "chosen: times the typical iteration, or times the usual fetch"
)
FETCH_CAUSES_WAIT_RATIO: Final = threshold(
    0.5, "ratio", "chosen: of a long wait; a worker must have been fetching for so much of it to be its cause"
)
FEW_TOGETHER: Final = threshold(
    2, "waits", "chosen: in a single wait, workers may stand still together by chance"
)
LOCKED_OUT_RATIO: Final = threshold(
    0.5, "ratio", "chosen: of the looks at workers that stand still together; so many find a lock or sleep"
)
ALL_STAND_RATIO: Final = threshold(
    0.8, "ratio", "chosen: of long waits in which all workers stand still, and of the fetch time they share"
)
ONE_SAMPLE_RATIO: Final = threshold(
    0.5, "ratio", "chosen: of a long fetch or an open wait; its cause is a sample that took so much"
)


@dataclass(frozen=True)
class Spike:
    """One long wait and the fetch that caused it; ``_ns`` is UTC. None if not known."""

    request_ns: int
    wait_s: float
    ready: bool  # other batches were ready behind the awaited one
    worker: int | None
    sample_index: int | None
    sample_s: float | None
    fetch_s: float | None
    fetch_began_ns: int | None = None
    collected_s: float = 0.0  # the part of that fetch in the worker's garbage collector
    pid: int | None = None
    open: bool = False  # the wait goes on


def spike_mask(pace: Pace) -> NDArray[np.bool_]:
    """Return the mask, shape (rows,), of the rows whose wait is far longer than the others."""
    iteration_s = median(pace.wait_s + np.nan_to_num(pace.step_s) + pace.nested_s)
    result: NDArray[np.bool_] = pace.wait_s >= max(SPIKE_S, SPIKE_FACTOR * iteration_s)
    return result


def find_spikes(pace: Pace) -> list[Spike]:
    """Return the long waits of a pace that a worker caused, oldest first.

    Two kinds of wait do not count. If the awaited worker was done, the batch was ready and only not taken. If
    a worker lacked a CPU, any fetch may take long: on a crowded machine no sample is to blame.
    """
    rows = np.flatnonzero(spike_mask(pace))
    spikes = [_spike(pace, int(row)) for row in rows]
    return [spike for spike in spikes if spike is not None and not _starved(pace, spike)]


def _spike(pace: Pace, row: int) -> Spike | None:
    request_ns, wait_s = int(pace.request_ns[row]), float(pace.wait_s[row])
    awaited = int(pace.awaited[row])
    worker = awaited if awaited >= 0 else None
    if pace.open_wait and row == pace.wait_s.size - 1:
        return _open_spike(pace.rank.workers, request_ns, wait_s, worker, pace)
    fetches = pace.fetches
    in_loop_s = float(pace.loop_wait_s[row])
    until_ns = request_ns + int(in_loop_s * 1e9)
    candidates = (fetches.ended_ns > request_ns) & (fetches.began_ns < until_ns)
    if worker is not None:
        candidates &= fetches.worker == worker
    # The batch that ended the wait was ready at its end; later batches of the same worker are not to blame.
    candidates &= fetches.ended_ns <= until_ns + 250_000_000
    rows = np.flatnonzero(candidates)
    if not rows.size:
        if bool((fetches.worker == worker).any()):
            return None  # the worker's fetches are known, and none was under way
        return Spike(request_ns, wait_s, bool(pace.anything_ready[row]), worker, None, None, None)
    within_ns = np.minimum(fetches.ended_ns[rows], until_ns) - np.maximum(fetches.began_ns[rows], request_ns)
    if within_ns.sum() < FETCH_CAUSES_WAIT_RATIO * in_loop_s * 1e9:
        return None
    slowest = int(rows[np.argmax(np.nan_to_num(fetches.fetch_s[rows]))])
    fetch_s, sample_s = float(fetches.fetch_s[slowest]), float(fetches.slow_s[slowest])
    named = sample_s >= ONE_SAMPLE_RATIO * fetch_s and fetches.slow_index[slowest] != UNKNOWN
    return Spike(
        request_ns=request_ns,
        wait_s=wait_s,
        ready=bool(pace.anything_ready[row]),
        worker=int(fetches.worker[slowest]),
        sample_index=int(fetches.slow_index[slowest]) if named else None,
        sample_s=sample_s if named else None,
        fetch_s=fetch_s,
        fetch_began_ns=int(fetches.began_ns[slowest]),
        collected_s=float(pace.collected_s[slowest]),
    )


def stand_still_together(pace: Pace, spikes: Sequence[Spike]) -> bool:
    """Whether all workers stand still at the same moments, so that no single sample is to blame.

    In nearly all long waits, every other worker was in an equally long fetch at the same time and did not
    compute.
    """
    known = [spike for spike in spikes if spike.fetch_s is not None and spike.fetch_began_ns is not None]
    if (pace.workers or 0) < 2 or len(known) < FEW_TOGETHER or len(known) < ALL_STAND_RATIO * len(spikes):
        return False
    return sum(_all_stand(pace, spike) for spike in known) >= ALL_STAND_RATIO * len(known)


def _all_stand(pace: Pace, spike: Spike) -> bool:
    assert spike.fetch_s is not None
    assert spike.fetch_began_ns is not None
    fetches, began_ns = pace.fetches, spike.fetch_began_ns
    ended_ns = began_ns + int(spike.fetch_s * 1e9)
    shared_ns = np.minimum(fetches.ended_ns, ended_ns) - np.maximum(fetches.began_ns, began_ns)
    standing = shared_ns >= ALL_STAND_RATIO * spike.fetch_s * 1e9
    standing &= fetches.cpu_s < LATENCY_CPU_RATIO * fetches.fetch_s
    return np.unique(fetches.worker[standing]).size == pace.workers


def locked_ratio(pace: Pace, spikes: Sequence[Spike]) -> float:
    """Return the share (0 to 1) of looks in these waits that found a worker in a lock or asleep; or NaN."""
    rows = pace.rank.table("processes")
    mine = (rows["worker"] >= 0) & (rows["loader"] == pace.loader.loader)
    within = np.zeros(mine.size, dtype=bool)
    for spike in spikes:
        if spike.fetch_s is not None and spike.fetch_began_ns is not None:
            ended_ns = spike.fetch_began_ns + int(spike.fetch_s * 1e9)
            within |= (rows["t_ns"] >= spike.fetch_began_ns) & (rows["t_ns"] <= ended_ns)
    looks = mine & within
    return mean(np.fmax(rows["timer_wait"][looks], rows["lock_wait"][looks]))


def _starved(pace: Pace, spike: Spike) -> bool:
    """Whether the worker lacked a CPU for most of its fetch, and the rest is short."""
    if spike.fetch_began_ns is None or spike.fetch_s is None:
        return False
    delayed_s = run_delay_s(
        pace.rank, spike.fetch_began_ns, spike.fetch_s, worker=spike.worker, loader=pace.loader.loader
    )
    return delayed_s >= STARVED_PART * spike.fetch_s and spike.fetch_s - delayed_s < 2 * SPIKE_S


def _open_spike(
    workers: list[SpanInfo], request_ns: int, wait_s: float, worker: int | None, pace: Pace
) -> Spike | None:
    span = next(
        (w for w in workers if w.worker == worker and w.loader in (None, pace.loader.loader)),
        None,
    )
    if span is not None and span.phase == "idle":
        return None
    sample_index = sample_s = None
    if span is not None and span.sample_since_ns is not None:
        in_hand_s = (pace.rank.made_ns - span.sample_since_ns) / 1e9
        # The worker's state may be newer than the loop's: then it reads the batch after the awaited one.
        if in_hand_s >= ONE_SAMPLE_RATIO * wait_s:
            sample_index, sample_s = span.sample_index, in_hand_s
    others_idle = any(w.phase == "idle" and w.worker != worker for w in workers)
    return Spike(
        request_ns=request_ns,
        wait_s=wait_s,
        ready=others_idle,
        worker=worker,
        sample_index=sample_index,
        sample_s=sample_s,
        fetch_s=sample_s,
        pid=span.pid if span is not None else None,
        open=True,
    )


def slow_samples(pace: Pace) -> list[Spike]:
    """Return the long waits for one or two samples far slower than a usual batch; none if many are."""
    if not pace.workers:
        return []
    usual_s = median(pace.fetches.fetch_s)
    spikes = [
        spike
        for spike in find_spikes(pace)
        if spike.sample_index is not None
        and (spike.sample_s or 0.0) >= SPIKE_FACTOR * usual_s
        and spike.collected_s < COLLECTOR_PART * (spike.fetch_s or spike.wait_s)
    ]
    if not 0 < len({spike.sample_index for spike in spikes}) < JITTER_SPIKES:
        return []
    if pace.fetches.change is not None or pace.fetches.may_be_changing:
        return []  # all workers are slow at once, so no sample is to blame
    return spikes


def without(pace: Pace, spikes: Sequence[Spike]) -> Pace:
    """Return the pace without these waits and without the fetches that they were for."""
    if not spikes:
        return pace
    began_ns = [spike.fetch_began_ns for spike in spikes if spike.fetch_began_ns is not None]
    rest = pace.where(~np.isin(pace.request_ns, [spike.request_ns for spike in spikes]))
    return rest.with_fetches(~np.isin(pace.fetches.began_ns, began_ns))
