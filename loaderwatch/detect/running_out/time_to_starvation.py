"""How long the GPU could work without another batch, before it starves for the first time: code ``headroom``.

The finding is a remark, made from the device's clock alone; ``ready_batches`` uses the loop's own clock. A
loader that gets slower first uses up the ready batches, and then the work that the loop has queued for the
GPU, its slack. Only then does the GPU starve. A quick change shows in the batches of the recent past, a
change over an hour in the loader's course.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from loaderwatch.core.records import UNKNOWN
from loaderwatch.core.threshold import threshold
from loaderwatch.detect.device_clock import slack_of
from loaderwatch.detect.evidence import RunEvidence
from loaderwatch.detect.finding import Finding, known_evidence
from loaderwatch.detect.measures.history_slices import parts
from loaderwatch.detect.measures.pace import Pace, recent
from loaderwatch.detect.measures.statistics import drift, mean, median, trend
from loaderwatch.detect.running_out.nearest_rank import HALVED_RATIO, LATER_S, SOON_S, early_warning, foremost
from loaderwatch.detect.shared_thresholds import QUIET_RATIO, Limits
from loaderwatch.detect.window import RankWindow

NEWEST_BATCHES: Final = threshold(16, "batches", "chosen: their median is the present headroom")
LOW_HEADROOM_STEPS: Final = threshold(
    2.0, "steps", "chosen: a loader with more headroom needs no closer look"
)
SLOWER_FETCH_FACTOR: Final = threshold(
    1.1, "factor", "chosen: times the fetch before; above it the message calls fetches slower"
)
HEADROOM_FALLS: Final = threshold(
    -0.5, "rank correlation", "of headroom with time; by chance it comes once in thousands for 48 batches"
)


@dataclass(frozen=True)
class Headroom:
    """A loader's headroom on one rank, in seconds; ``before_s`` is the headroom ``ago_s`` seconds earlier."""

    pace: Pace
    now_s: float
    before_s: float
    ago_s: float
    ready: float
    shrinks: bool

    @property
    def left_s(self) -> float:
        """Return how many seconds it lasts if this continues."""
        return self.now_s / (self.before_s - self.now_s) * self.ago_s


def detect(run: RunEvidence) -> list[Finding]:
    """Return at most one finding per loader: that of the rank with the least headroom."""
    near = [
        (left, rank.rank)
        for rank in run.live_ranks
        if (left := _steps_left(rank.rows, run.limits)) < LOW_HEADROOM_STEPS
    ]
    worst = foremost(run, near, lambda pace: _headroom(pace, run.limits), lambda headroom: headroom.now_s)
    return [_finding(headroom) for headroom in worst]


def _steps_left(rank: RankWindow, limits: Limits) -> float:
    """Return the headroom of a rank's newest batches in iterations; infinite if not known or used up.

    This check is cheap, because most of a thousand GPUs are well, or starve all together.
    """
    steps = rank.steps
    newest = slice(-2 * NEWEST_BATCHES, None)
    slack_ns, wait_ns = slack_of(steps)[newest], steps["wait_ns"][newest]
    known = slack_ns != UNKNOWN
    if int(known.sum()) < NEWEST_BATCHES:
        return math.inf
    request_ns, ready = steps["request_ns"][newest], steps["ready"][newest]
    lasted_ns = int(request_ns[-1]) - int(request_ns[0])
    if not lasted_ns or float(np.maximum(wait_ns[:-1], 0).sum()) >= limits.input_warning_ratio * lasted_ns:
        return math.inf
    iteration_ns = lasted_ns / (request_ns.size - 1)
    headroom_ns = slack_ns + np.maximum(ready, 0) * iteration_ns
    return float(np.median(headroom_ns[known])) / iteration_ns


def _headroom(pace: Pace, limits: Limits) -> Headroom | None:
    now = recent(pace, limits)
    if now is None or pace.clock != "device" or now.share >= limits.input_warning_ratio:
        return None
    known = pace.where(np.isfinite(pace.headroom_s))
    rows = known.request_ns.size
    if rows < 3 * NEWEST_BATCHES:
        return None
    first, last = known.headroom_s[: rows // 3], known.headroom_s[-NEWEST_BATCHES:]
    headroom = Headroom(
        pace=pace,
        now_s=median(last),
        before_s=median(first),
        ago_s=(int(known.request_ns[-NEWEST_BATCHES // 2]) - int(known.request_ns[rows // 6])) / 1e9,
        ready=median(known.ready[-NEWEST_BATCHES:].astype(np.float64)),
        shrinks=trend(known.headroom_s) <= HEADROOM_FALLS and median(last) <= HALVED_RATIO * median(first),
    )
    if headroom.now_s >= LOW_HEADROOM_STEPS * now.iteration_s:
        return None
    if now.share < QUIET_RATIO:
        if headroom.shrinks and headroom.left_s < SOON_S:
            return headroom
        slowly = _slowly(headroom)
        if slowly is not None:
            return slowly
    if headroom.shrinks:
        return None
    keeps_up_just = bool(pace.workers) and headroom.ready == 0 and headroom.now_s < now.iteration_s
    return headroom if keeps_up_just else None


def _slowly(recently: Headroom) -> Headroom | None:
    """Return the headroom that shrinks over the loader's course; None if it does not."""
    course = recently.pace.rank.courses.get(recently.pace.loader.loader)
    for slices in parts(course) if course is not None else ():
        sunk = drift(slices.t_ns, -slices.headroom_s)
        if sunk is None or -sunk.last > HALVED_RATIO * -sunk.first:
            continue
        slowly = replace(recently, now_s=-sunk.last, before_s=-sunk.first, ago_s=sunk.span_s, shrinks=True)
        if slowly.now_s > 0 and slowly.left_s < min(LATER_S, slowly.ago_s):
            return slowly
    return None


def _finding(headroom: Headroom) -> Finding:
    pace = headroom.pace
    rows = pace.fetches.fetch_s
    before_s, now_s = median(rows[: rows.size // 3]), median(rows[-rows.size // 3 :])
    since_ns = pace.rank.made_ns - int(headroom.ago_s * 1e9)
    return early_warning(
        "gpu-work-used-up" if headroom.shrinks else "loader-barely-keeps-up",
        "",
        pace,
        began_ns=since_ns if headroom.shrinks else int(pace.request_ns[-NEWEST_BATCHES]),
        params={
            "left_s": headroom.now_s,
            "ago_s": headroom.ago_s,
            "before_s": headroom.before_s,
            "eta_s": headroom.left_s if headroom.shrinks else None,
            "slower": now_s > SLOWER_FETCH_FACTOR * before_s,
            "fetch_s": now_s,
            "fetch_before_s": before_s,
            "iteration_s": pace.iteration_s,
            "lacked_ratio": pace.share,
        },
        evidence=known_evidence(
            ("gpu-work-and-ready-batches-left", headroom.now_s, "s"),
            ("queued-on-the-gpu", median(pace.slack_s[-2 * NEWEST_BATCHES :]), "s"),
            ("left-before", headroom.before_s, "s"),
            ("batches-ready", headroom.ready, "count"),
            ("iteration", pace.iteration_s, "s"),
            ("fetch-of-a-batch", mean(rows), "s"),
        ),
    )
