"""Ready batches that are being used up, measured by the loop's own clock: code ``headroom``.

If workers become slower than the loop, the loop does not wait at once: it first uses up the batches read
ahead. This happens quickly. It is reported if batches are ready at each request and the device's clock says
nothing.
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

NEWEST_REQUESTS: Final = threshold(8, "requests", "chosen: their mean of ready batches is what is ready now")
READY_FALLS: Final = threshold(-0.7, "rank correlation", "chosen: of the number of ready batches with time")
SURELY_LONGER_ERRORS: Final = threshold(
    3.0, "standard errors", "chance alone makes workers' batches so much longer once in a thousand"
)


@dataclass(frozen=True)
class Cushion:
    """The ready batches of a loader on one rank, now and ``ago_s`` seconds earlier (``before``)."""

    pace: Pace  # of the time in which they became fewer
    now: float
    before: float
    ago_s: float
    each_s: float  # per batch, from all workers together

    @property
    def left_s(self) -> float:
        """Return how many seconds the ready batches last if this continues."""
        return self.now / (self.before - self.now) * self.ago_s


def detect(run: RunEvidence) -> list[Finding]:
    """Return at most one finding per loader: that of the rank that will wait first."""
    near = [
        (part, rank.rank) for rank in run.live_ranks if 0 < (part := _ready_part(rank.rows)) <= HALVED_RATIO
    ]
    worst = foremost(run, near, lambda pace: _cushion(pace, run.limits), lambda cushion: cushion.left_s)
    return [_finding(cushion) for cushion in worst]


def _ready_part(rank: RankWindow) -> float:
    """Return the share of a rank's read-ahead that was ready at the newest requests; NaN if not known."""
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
    cushion = Cushion(rows, left, before, ago_s, mean(each_s))
    return cushion if cushion.left_s < min(SOON_S, _reading_left_s(rows)) else None


def _falling(pace: Pace) -> Pace | None:
    """Return this epoch's requests since most batches were ready; None if too few, or the end is near.

    At the end of an epoch, nothing more is read ahead, and the ready batches are meant to be used up.
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
    """Return the seconds until the workers have read all batches of this epoch, at the loop's pace."""
    batches = rows.loader.batches
    assert batches is not None
    return (batches - warm_batches(rows.loader) - int(rows.batch[-1])) * rows.iteration_s


def _is_longer(times_s: Floats, than_s: float) -> bool:
    """Whether the mean of these times exceeds a given time by more than chance explains."""
    return mean(times_s) - than_s > SURELY_LONGER_ERRORS * float(times_s.std()) / math.sqrt(times_s.size)


def _finding(cushion: Cushion) -> Finding:
    pace = cushion.pace
    return early_warning(
        "read-ahead-used-up",
        "",
        pace,
        began_ns=int(pace.request_ns[0]),
        params={
            "loader": pace.loader.name,
            "ready": cushion.now,
            "ago_s": cushion.ago_s,
            "before": cushion.before,
            "eta_s": cushion.left_s,
            "workers": pace.loader.num_workers or 0,
            "each_s": cushion.each_s,
            "iteration_s": pace.iteration_s,
        },
        evidence=known_evidence(
            ("batches-ready", cushion.now, "count"),
            ("batches-ready-before", cushion.before, "count"),
            ("a-batch-from-all-workers", cushion.each_s, "s"),
            ("iteration", pace.iteration_s, "s"),
            ("fetch-of-a-batch", median(pace.fetches.fetch_s[-2 * NEWEST_REQUESTS :]), "s"),
            ("until-the-loop-waits", cushion.left_s, "s"),
        ),
    )
