"""Workers that take longer and longer for a batch, before the loop waits for the first time: S58, code ``headroom``.

While the workers together bring batches faster than the loop takes them, nothing shows in its waits, whatever happens to
the workers. So it is their own times that are followed, over the hour that a loader's course tells of, and over the recent
past for what changes quickly. The loop begins to wait when a fetch takes as long as all workers' steps together.
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
    1.25,
    "factor",
    "chosen: the last fetch time over the first; less comes and goes with what else the host does",
)
NEAR_LOAD_RATIO: Final = threshold(
    0.5,
    "ratio",
    "chosen: of the workers' time that the loop needs; with a lower load the loop will not wait soon",
)


@dataclass(frozen=True)
class Drift:
    """Fetches of a loader on one rank that become slower: their growth in s, and the load (0 to 1 and more) that they are."""

    pace: Pace
    fetch: Growth
    load: Growth

    @property
    def left_s(self) -> float:
        """Return how long it takes until the loop waits if it goes on so, in s."""
        return self.load.eta_s(1.0 - self.load.last)


def detect(run: RunEvidence) -> list[Finding]:
    """Return at most one finding for each loader, that of the rank that will wait first."""
    loads = ((_load(rank.rows), rank.rank) for rank in run.live_ranks)
    near = [(-load, rank) for load, rank in loads if load >= NEAR_LOAD_RATIO]
    worst = foremost(run, near, lambda pace: _drift(pace, run.limits), lambda found: found.left_s)
    return [_finding(found) for found in worst]


def _load(rank: RankWindow) -> float:
    """Return the greatest load of a rank's loaders in the newest slices of their courses; 0 where none is known."""
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
    for one in (course, *_lately(pace, course)):
        for slices in parts(one):
            found = _of(pace, slices)
            if found is None or not found.left_s < min(LATER_S, found.fetch.span_s):
                continue
            # What grows with the place in the epoch begins anew with the next one, so it must have outlasted an epoch's end.
            outlasted = slices.epoch[0] < slices.epoch[-(slices.epoch.size // 4)]
            if outlasted or (slices.epoch[0] == now.epoch[-1] and found.left_s < left_s):
                return found
    return None


def _lately(pace: Pace, course: Course) -> tuple[Course, ...]:
    """Return the recent past in finer slices than those of a long course, for what began minutes ago."""
    slice_ns = max(FIRST_SLICE_NS, int(WINDOW_S * 1e9) // (2 * FEW_FOR_DRIFT))
    if course.slice_ns <= slice_ns:
        return ()
    until_ns = int(pace.request_ns[-1])
    return (
        slices_of(pace, slice_ns, max(int(pace.request_ns[0]), until_ns - int(WINDOW_S * 1e9)), until_ns),
    )


def _of(pace: Pace, slices: Course) -> Drift | None:
    """Return the drift in these slices; None where nothing drifts, or steps become as much longer as fetches."""
    assert pace.workers
    fetch = drift(slices.t_ns, slices.fetch_s)
    if fetch is None or fetch.last < DRIFTED_FETCH_FACTOR * fetch.first:
        return None
    load = drift(slices.t_ns, slices.fetch_s / (pace.workers * slices.step_s))
    return Drift(pace, fetch, load) if load is not None and load.last < 1.0 else None


def _epoch_left_s(now: Pace) -> float:
    """Return the seconds until the epoch at hand ends; infinite where its length is not known."""
    batches = now.loader.batches
    if batches is None:
        return float("inf")
    return (batches - 1 - int(now.batch[-1])) * now.iteration_s


def _finding(found: Drift) -> Finding:
    pace = found.pace
    assert pace.workers
    each_s = found.fetch.last / pace.workers
    return early_warning(
        "fetches-get-slower",
        "S58",
        pace,
        began_ns=pace.rank.made_ns - int(found.fetch.span_s * 1e9),
        params={
            "loader": pace.loader.name,
            "fetch_s": found.fetch.last,
            "ago_s": found.fetch.span_s,
            "before_s": found.fetch.first,
            "waits": "gpu" if pace.clock != "loop" else "loop",
            "eta_s": found.left_s,
            "each_s": each_s,
            "step_s": each_s / found.load.last,
            "load_ratio": found.load.last,
        },
        evidence=known_evidence(
            ("fetch-of-a-batch", found.fetch.last, "s"),
            ("fetch-of-a-batch-before", found.fetch.first, "s"),
            ("seen-for", found.fetch.span_s, "s"),
            ("a-batch-from-all-workers", each_s, "s"),
            ("step", each_s / found.load.last, "s"),
            ("until-the-loop-waits", found.left_s, "s"),
        ),
    )
