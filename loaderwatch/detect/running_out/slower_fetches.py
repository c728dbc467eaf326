"""Workers that become slower and slower, before the loop waits for the first time: S58, code ``headroom``.

While the workers together deliver batches faster than the loop takes them, the loop's waits show nothing. So
the workers' own times are followed: over the hour of a loader's course, and over the recent past for quick
changes. The loop begins to wait when a fetch takes as long as one step for each worker.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from loaderwatch.core.threshold import threshold
from loaderwatch.detect.evidence import RunEvidence
from loaderwatch.detect.finding import Finding, known_evidence
from loaderwatch.detect.loader_history import FIRST_SLICE_NS, Course
from loaderwatch.detect.measures.history_slices import parts, slices_of
from loaderwatch.detect.measures.pace import Pace, recent
from loaderwatch.detect.measures.statistics import FEW_FOR_DRIFT, Growth, drift
from loaderwatch.detect.running_out.nearest_rank import LATER_S, early_warning, foremost
from loaderwatch.detect.shared_thresholds import QUIET_RATIO, Limits
from loaderwatch.detect.window import WINDOW_S, RankWindow

DRIFTED_FETCH_FACTOR: Final = threshold(
    1.25, "factor", "chosen: the last fetch time over the first; less comes and goes with the host's load"
)
NEAR_LOAD_RATIO: Final = threshold(
    0.5, "ratio", "chosen: of the workers' time that the loop needs; below it the loop will not wait soon"
)


@dataclass(frozen=True)
class Drift:
    """The growth of a loader's fetch time in s, and of the load that fetches are (1: the loop waits)."""

    pace: Pace
    fetch: Growth
    load: Growth

    @property
    def left_s(self) -> float:
        """Return the seconds until the loop waits if this continues."""
        return self.load.eta_s(1.0 - self.load.last)


def detect(run: RunEvidence) -> list[Finding]:
    """Return at most one finding per loader: that of the rank that will wait first."""
    loads = ((_load(rank.rows), rank.rank) for rank in run.live_ranks)
    near = [(-load, rank) for load, rank in loads if load >= NEAR_LOAD_RATIO]
    worst = foremost(run, near, lambda pace: _drift(pace, run.limits), lambda slower: slower.left_s)
    return [_finding(slower) for slower in worst]


def _load(rank: RankWindow) -> float:
    """Return the highest load of a rank's loaders in the newest slices of their courses; 0 if not known."""
    workers = {loader.loader: loader.num_workers or 0 for loader in rank.process.loaders}
    loads = [
        float(course.fetch_s[-1]) / (workers[number] * float(course.step_s[-1]))
        for number, course in rank.courses.items()
        if workers.get(number) and course.step_s[-1] > 0
    ]
    return max((load for load in loads if load == load), default=0.0)


def _drift(pace: Pace, limits: Limits) -> Drift | None:
    now, course = recent(pace, limits), pace.rank.courses.get(pace.loader.loader)
    if now is None or course is None or not pace.workers or not now.empty_share < QUIET_RATIO:
        return None
    left_s = _epoch_left_s(now)
    for candidate in (course, *_lately(pace, course)):
        for slices in parts(candidate):
            slower = _of(pace, slices)
            if slower is None or not slower.left_s < min(LATER_S, slower.fetch.span_s):
                continue
            # Growth with the place in the epoch restarts at the next one, so it must have outlasted an end.
            outlasted = slices.epoch[0] < slices.epoch[-(slices.epoch.size // 4)]
            if outlasted or (slices.epoch[0] == now.epoch[-1] and slower.left_s < left_s):
                return slower
    return None


def _lately(pace: Pace, course: Course) -> tuple[Course, ...]:
    """Return the recent past in finer slices than a long course has, to see what began minutes ago."""
    slice_ns = max(FIRST_SLICE_NS, int(WINDOW_S * 1e9) // (2 * FEW_FOR_DRIFT))
    if course.slice_ns <= slice_ns:
        return ()
    until_ns = int(pace.request_ns[-1])
    return (
        slices_of(pace, slice_ns, max(int(pace.request_ns[0]), until_ns - int(WINDOW_S * 1e9)), until_ns),
    )


def _of(pace: Pace, slices: Course) -> Drift | None:
    """Return the drift in these slices; None if nothing drifts, or steps become longer alike."""
    assert pace.workers
    fetch = drift(slices.t_ns, slices.fetch_s)
    if fetch is None or fetch.last < DRIFTED_FETCH_FACTOR * fetch.first:
        return None
    load = drift(slices.t_ns, slices.fetch_s / (pace.workers * slices.step_s))
    return Drift(pace, fetch, load) if load is not None and load.last < 1.0 else None


def _epoch_left_s(now: Pace) -> float:
    """Return the seconds until the current epoch ends; infinite if its length is not known."""
    batches = now.loader.batches
    if batches is None:
        return float("inf")
    return (batches - 1 - int(now.batch[-1])) * now.iteration_s


def _finding(slower: Drift) -> Finding:
    pace = slower.pace
    assert pace.workers
    each_s = slower.fetch.last / pace.workers
    return early_warning(
        "fetches-get-slower",
        "S58",
        pace,
        began_ns=pace.rank.made_ns - int(slower.fetch.span_s * 1e9),
        params={
            "loader": pace.loader.name,
            "fetch_s": slower.fetch.last,
            "ago_s": slower.fetch.span_s,
            "before_s": slower.fetch.first,
            "waits": "gpu" if pace.clock != "loop" else "loop",
            "eta_s": slower.left_s,
            "each_s": each_s,
            "step_s": each_s / slower.load.last,
            "load_ratio": slower.load.last,
        },
        evidence=known_evidence(
            ("fetch-of-a-batch", slower.fetch.last, "s"),
            ("fetch-of-a-batch-before", slower.fetch.first, "s"),
            ("seen-for", slower.fetch.span_s, "s"),
            ("a-batch-from-all-workers", each_s, "s"),
            ("step", each_s / slower.load.last, "s"),
            ("until-the-loop-waits", slower.left_s, "s"),
        ),
    )
