"""A rank that works longer than the others in each iteration, so that they wait for it: code ``slow-step``.

It is a remark, or a warning where it costs as much as what is critical elsewhere and lasts. From the other ranks' side it
looks like a slow loader, and is none. It is seen where collectives are measured (DDP with gloo).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from loaderwatch.core.facts import SCRIPT_WORK
from loaderwatch.core.records import UNKNOWN
from loaderwatch.core.threshold import threshold
from loaderwatch.detect.evidence import RunEvidence
from loaderwatch.detect.finding import Finding, observed
from loaderwatch.detect.measures.coupling import MOST_ITERATIONS
from loaderwatch.detect.measures.stacks import beside_model, main_frames, user_frame, usual_stack
from loaderwatch.detect.measures.statistics import mean, median
from loaderwatch.detect.slow_step.step_finding import CODE
from loaderwatch.detect.window import RankWindow

LARGER_BATCHES_FACTOR: Final = threshold(
    1.3,
    "factor",
    "chosen: times the others' mean batch; from there the size of its batches is why a rank works longer",
)
LASTING_RATIO: Final = threshold(
    0.8,
    "ratio",
    "chosen: of the recent past that the iterations must "
    "fill; the first ones after a hang raised a false warning",
)


def detect(run: RunEvidence) -> list[Finding]:
    """Return at most one finding. It has the key of a weak GPU's, which says more where it is known."""
    found = run.coupling
    if found is None or found.cause != "work" or len(found.waited_for) != 1:
        return []
    (rank,) = found.waited_for
    own = found.share(rank)
    usual_s = median(np.array([found.share(other).own_s for other in found.waiting]))
    at, limits = run.ranks[rank], run.limits
    lost_ratio = found.wait_s / own.iteration_s
    # Of quick iterations only the newest are compared, which are a shorter past.
    past_s = min(limits.recent_s, MOST_ITERATIONS * own.iteration_s)
    lasts = found.iterations * own.iteration_s >= LASTING_RATIO * past_s
    larger = _larger_batches(at.rows, [run.ranks[other].rows for other in found.waiting])
    dump = usual_stack(beside_model(at.passing_stacks.get(SCRIPT_WORK, [])))
    frame = user_frame(main_frames(dump))
    return [
        Finding(
            key=f"{CODE}:gpu:rank{rank}",
            code=CODE,
            scenario="S48",
            severity="warning" if lost_ratio >= limits.input_critical_ratio and lasts else "info",
            confidence=0.6,
            began_ns=at.made_ns - int(found.iterations * own.iteration_s * 1e9),
            rule="rank-works-longer",
            params={
                "rank": rank,
                "own_s": own.own_s,
                "usual_s": usual_s,
                "waiting": len(found.waiting),
                "others": sorted(found.waiting),
                "wait_s": found.wait_s,
                "iteration_s": own.iteration_s,
                "lost_ratio": lost_ratio,
                "larger": larger,
                "at": None if frame is None else frame.text,
                "host": at.host,
            },
            evidence=[
                observed("iteration-of-every-rank", own.iteration_s, "s"),
                observed("own-work-of-rank-per-iteration", own.own_s, "s", rank=rank),
                observed("own-work-of-the-others-per-iteration", usual_s, "s"),
                observed("others-wait-for-rank-per-iteration", found.wait_s, "s", rank=rank),
            ],
            rank=rank,
            host=at.host,
            pid=at.process.pid,
            gain_ceiling_ratio=lost_ratio,
            stacks=[] if dump is None else [dump],
        )
    ]


def _larger_batches(rank: RankWindow, others: Sequence[RankWindow]) -> float | None:
    """Return how many times as large a rank's batches are as the others', on average; None where they are about as large, or that is not known."""
    usual = median(np.array([_batch_bytes(other) for other in others]))
    times = _batch_bytes(rank) / usual if usual > 0 else 0.0
    return times if times >= LARGER_BATCHES_FACTOR else None


def _batch_bytes(rank: RankWindow) -> float:
    """Return the mean bytes of a batch; NaN where none is known."""
    sizes = rank.table("fetches")["bytes"]
    return mean(sizes[sizes != UNKNOWN].astype(np.float64))
