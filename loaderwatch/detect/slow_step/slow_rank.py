"""A rank that works longer than the others in each iteration, so that they wait for it: code ``slow-step``.

It is a remark, or a warning if it lasts and costs as much as the critical share. To the other ranks it looks
like a slow loader, which it is not. It can be seen only if collectives are measured (DDP with gloo).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from loaderwatch.core.facts import SCRIPT_WORK
from loaderwatch.core.records import UNKNOWN, ProfilePart
from loaderwatch.core.threshold import threshold
from loaderwatch.detect.codes import SLOW_STEP as CODE
from loaderwatch.detect.evidence import RunEvidence
from loaderwatch.detect.finding import Finding, observed
from loaderwatch.detect.measures.coupling import MOST_ITERATIONS
from loaderwatch.detect.measures.stacks import (
    beside_model,
    main_frames,
    user_frame,
    usual_stack,
    works_aside,
)
from loaderwatch.detect.measures.statistics import mean, median
from loaderwatch.detect.window import RankWindow

LARGER_BATCHES_FACTOR: Final = threshold(
    1.3, "factor", "chosen: times the others' mean batch; larger batches explain longer work"
)
LASTING_RATIO: Final = threshold(
    0.8, "ratio", "chosen: of the recent past with iterations; the first after a hang raised a false warning"
)


def detect(run: RunEvidence) -> list[Finding]:
    """Return at most one finding. It shares its key with a weak GPU, which is the better finding if known."""
    coupling = run.coupling
    if coupling is None or coupling.cause != "work" or len(coupling.waited_for) != 1:
        return []
    (rank,) = coupling.waited_for
    own = coupling.share(rank)
    usual_s = median(np.array([coupling.share(other).own_s for other in coupling.waiting]))
    awaited, limits = run.ranks[rank], run.limits
    lost_ratio = coupling.wait_s / own.iteration_s
    # Only the newest iterations are compared, so quick iterations cover a shorter past.
    past_s = min(limits.recent_s, MOST_ITERATIONS * own.iteration_s)
    lasts = coupling.iterations * own.iteration_s >= LASTING_RATIO * past_s
    larger = _larger_batches(awaited.rows, [run.ranks[other].rows for other in coupling.waiting])
    dump = usual_stack(beside_model(awaited.passing_stacks.get(SCRIPT_WORK, [])))
    frame = awaited.profile(ProfilePart.STEP).usual_line(works_aside) or user_frame(main_frames(dump))
    return [
        Finding(
            key=f"{CODE}:gpu:rank{rank}",
            code=CODE,
            scenario="S48",
            severity="warning" if lost_ratio >= limits.input_critical_ratio and lasts else "info",
            confidence=0.6,
            began_ns=awaited.made_ns - int(coupling.iterations * own.iteration_s * 1e9),
            rule="rank-works-longer",
            params={
                "rank": rank,
                "own_s": own.own_s,
                "usual_s": usual_s,
                "waiting": len(coupling.waiting),
                "others": sorted(coupling.waiting),
                "wait_s": coupling.wait_s,
                "iteration_s": own.iteration_s,
                "lost_ratio": lost_ratio,
                "larger": larger,
                "at": None if frame is None else frame.text,
                "host": awaited.host,
            },
            evidence=[
                observed("iteration-of-every-rank", own.iteration_s, "s"),
                observed("own-work-of-rank-per-iteration", own.own_s, "s", rank=rank),
                observed("own-work-of-the-others-per-iteration", usual_s, "s"),
                observed("others-wait-for-rank-per-iteration", coupling.wait_s, "s", rank=rank),
            ],
            rank=rank,
            host=awaited.host,
            pid=awaited.process.pid,
            gain_ceiling_ratio=lost_ratio,
            stacks=[] if dump is None else [dump],
        )
    ]


def _larger_batches(rank: RankWindow, others: Sequence[RankWindow]) -> float | None:
    """Return a rank's batch size as a multiple of the others'; None if not much larger or not known."""
    usual = median(np.array([_batch_bytes(other) for other in others]))
    times = _batch_bytes(rank) / usual if usual > 0 else 0.0
    return times if times >= LARGER_BATCHES_FACTOR else None


def _batch_bytes(rank: RankWindow) -> float:
    """Return the mean bytes of a batch; NaN if none is known."""
    sizes = rank.table("fetches")["bytes"]
    return mean(sizes[sizes != UNKNOWN].astype(np.float64))
