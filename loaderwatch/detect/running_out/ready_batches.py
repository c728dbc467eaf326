"""Batches that lie ready and are being used up, by the loop's own clock: code ``headroom``.

A loader whose workers have become slower than the loop does not make it wait at once: it first uses up what they have read
ahead. This goes quickly, and is told where batches lie ready at each request and where the device's clock tells nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from loaderwatch.core.records import UNKNOWN
from loaderwatch.core.threshold import threshold
from loaderwatch.detect.evidence import RunEvidence
from loaderwatch.detect.finding import Finding, known_evidence
from loaderwatch.detect.measures.pace import Pace, recent, warm_batches
from loaderwatch.detect.measures.statistics import Floats, known, mean, median, trend
from loaderwatch.detect.running_out.nearest_rank import HALVED_RATIO, SOON_S, early_warning, foremost
from loaderwatch.detect.shared_thresholds import QUIET_RATIO, Limits
from loaderwatch.detect.window import RankWindow

NEWEST_REQUESTS: Final = threshold(
    8, "requests", "chosen: the mean of what lay ready at them is what lies ready now"
)
READY_FALLS: Final = threshold(-0.7, "rank correlation", "chosen: of the batches ready with time")
SURELY_LONGER_ERRORS: Final = threshold(
    3.0,
    "standard errors",
    "chance alone makes a batch of the workers so much longer than the loop's in one of a thousand",
)


@dataclass(frozen=True)
class Cushion:
    """What lies ready of a loader on one rank, in batches; ``before`` is that of ``ago_s`` seconds earlier."""

    pace: Pace  # of the time in which it shrank
    now: float
    before: float
    ago_s: float
    each_s: float  # one batch from all workers

    @property
    def left_s(self) -> float:
        """Return how long it lasts if it goes on so."""
        return self.now / (self.before - self.now) * self.ago_s


def detect(run: RunEvidence) -> list[Finding]:
    """Return at most one finding for each loader, that of the rank that will wait first."""
    near = [
        (part, rank.rank) for rank in run.live_ranks if 0 < (part := _ready_part(rank.rows)) <= HALVED_RATIO
    ]
    worst = foremost(run, near, lambda pace: _cushion(pace, run.limits), lambda found: found.left_s)
    return [_finding(found) for found in worst]


def _ready_part(rank: RankWindow) -> float:
    """Return the part of what a rank's loaders read ahead that lay ready at the newest requests; NaN where that is not known."""
    ready = rank.table("steps")["ready"][-NEWEST_REQUESTS:]
    ready = ready[ready != UNKNOWN]
    most = max((warm_batches(loader) for loader in rank.process.loaders if loader.num_workers), default=0)
    return float(np.median(ready)) / most if ready.size and most else math.nan


def _cushion(pace: Pace, limits: Limits) -> Cushion | None:
    now = recent(pace, limits)
    if now is None or pace.clock != "loop" or not pace.workers or not now.empty_share < QUIET_RATIO:
        return None
    rows = _falling(pace)
    if rows is None:
        return None
    ready = rows.ready.astype(np.float64)
    before, left = mean(ready[:NEWEST_REQUESTS]), mean(ready[-NEWEST_REQUESTS:])
    if not 0 < left <= HALVED_RATIO * before or trend(ready) > READY_FALLS:
        return None
    ago_s = (int(rows.request_ns[-NEWEST_REQUESTS // 2]) - int(rows.request_ns[NEWEST_REQUESTS // 2])) / 1e9
    inside = rows.fetches.began_ns >= rows.request_ns[0]
    each_s = known(rows.fetches.fetch_s[inside]) / pace.workers
    if each_s.size < NEWEST_REQUESTS or not _is_longer(each_s, rows.iteration_s):
        return None
    found = Cushion(rows, left, before, ago_s, mean(each_s))
    return found if found.left_s < min(SOON_S, _reading_left_s(rows)) else None


def _falling(pace: Pace) -> Pace | None:
    """Return the requests since most batches lay ready in the epoch at hand; None if they are too few, or its end is near.

    At the end of an epoch nothing is read ahead any more, and what lies ready is meant to be used up.
    """
    if pace.loader.batches is None:
        return None
    rows = pace.where((pace.epoch == pace.epoch[-1]) & (pace.ready != UNKNOWN))
    if not rows.ready.size or _reading_left_s(rows) <= 0:
        return None
    most = int(np.flatnonzero(rows.ready == rows.ready.max())[-1])
    rows = rows.since(int(rows.request_ns[most]))
    return rows if rows.ready.size >= 3 * NEWEST_REQUESTS else None


def _reading_left_s(rows: Pace) -> float:
    """Return the seconds for which the workers still have batches of this epoch to read, at the pace of the loop."""
    batches = rows.loader.batches
    assert batches is not None
    return (batches - warm_batches(rows.loader) - int(rows.batch[-1])) * rows.iteration_s


def _is_longer(times_s: Floats, than_s: float) -> bool:
    """Whether the mean of some times is above a given one by more than chance makes it."""
    return mean(times_s) - than_s > SURELY_LONGER_ERRORS * float(times_s.std()) / math.sqrt(times_s.size)


def _finding(found: Cushion) -> Finding:
    pace = found.pace
    return early_warning(
        "read-ahead-used-up",
        "",
        pace,
        began_ns=int(pace.request_ns[0]),
        params={
            "loader": pace.loader.name,
            "ready": found.now,
            "ago_s": found.ago_s,
            "before": found.before,
            "eta_s": found.left_s,
            "workers": pace.loader.num_workers or 0,
            "each_s": found.each_s,
            "iteration_s": pace.iteration_s,
        },
        evidence=known_evidence(
            ("batches-ready", found.now, "count"),
            ("batches-ready-before", found.before, "count"),
            ("a-batch-from-all-workers", found.each_s, "s"),
            ("iteration", pace.iteration_s, "s"),
            ("fetch-of-a-batch", median(pace.fetches.fetch_s[-2 * NEWEST_REQUESTS :]), "s"),
            ("until-the-loop-waits", found.left_s, "s"),
        ),
    )
