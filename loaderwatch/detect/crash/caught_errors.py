"""Errors of a loader that the script catches to try again: S37 for workers that die, S22 for others; code ``caught-error``.

The process lives, batches come and passes begin, so nothing stands still; and yet training gets no further, or trains on the
same first batches for ever.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from loaderwatch.core.answers import Param, Text
from loaderwatch.core.records import EndedBy
from loaderwatch.core.threshold import threshold
from loaderwatch.detect.crash.death_traces import dead_worker
from loaderwatch.detect.crash.killed import killed_worker
from loaderwatch.detect.evidence import RunEvidence
from loaderwatch.detect.explanation import Explanation
from loaderwatch.detect.finding import Finding, observed
from loaderwatch.detect.rank_lists import who
from loaderwatch.detect.window import RankWindow, RunWindow, distinct, one_of

CODE: Final = "caught-error"
IN_A_ROW: Final = threshold(
    3, "passes", "chosen: so many passes that fail one after the other are no accident that the script bears"
)
LATELY_S: Final = threshold(
    60.0, "s", "chosen: caught errors count as going on for so long after the last of them"
)
_DIED: Final = (EndedBy.WORKER_DIED, EndedBy.LEFT_AFTER_DEATH)
_FAILED: Final = (EndedBy.ERROR, *_DIED)


def detect(run: RunEvidence) -> list[Finding]:
    """At most one finding for each rank: of the loader whose newest passes failed one after the other, most often."""
    found: list[Finding] = []
    for rank in (live.rows for live in run.live_ranks):
        if _may_fail(rank):
            loaders = distinct(rank.table("epoch_ends")["loader"])
            # One that is made anew for each try may have several numbers; one that fails beside others that do not has its own.
            most = max(
                (_failures(rank, numbers) for numbers in (loaders, *([one] for one in loaders))), key=len
            )
            found += [finding for finding in [_finding(run.window, rank, most)] if finding is not None]
    return found


def _may_fail(rank: RankWindow) -> bool:
    """Whether passes failed often enough to be looked at; cheap, as most of a thousand ranks are well."""
    ends = rank.table("epoch_ends")
    return bool(ends["ended_by"].size) and int(one_of(ends["ended_by"], _FAILED).sum()) >= IN_A_ROW


def _failures(rank: RankWindow, loaders: Sequence[int]) -> NDArray[np.intp]:
    """Return the rows of these loaders' ends that were failures, since a pass came to its end; none if they are over."""
    ends = rank.table("epoch_ends")
    rows = np.flatnonzero(np.isin(ends["loader"], loaders))
    whole = np.flatnonzero(ends["ended_by"][rows] == EndedBy.EXHAUSTED)
    rows = rows[whole[-1] + 1 :] if whole.size else rows
    rows = rows[np.isin(ends["ended_by"][rows], _FAILED)]
    over = rows.size and rank.made_ns - int(ends["request_ns"][rows[-1]]) > LATELY_S * 1e9
    return rows[:0] if over else rows


def _standing(rank: RankWindow, rows: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return the newest of these failures between which hardly a step was made: no more than one for each of them."""
    steps, failed_ns = rank.table("steps"), rank.table("epoch_ends")["request_ns"][rows]
    made_ns = np.sort(steps["request_ns"][steps["off_main_thread"] != 1])
    trained = made_ns.size - np.searchsorted(
        made_ns, failed_ns, side="right"
    )  # a script may fail thousands of times a second
    stands = np.flatnonzero(trained <= np.arange(rows.size, 0, -1))
    return rows[stands[0] :] if stands.size else rows[:0]


def _finding(window: RunWindow, rank: RankWindow, rows: NDArray[np.intp]) -> Finding | None:
    ends = rank.table("epoch_ends")
    standing = _standing(rank, rows)
    stands = standing.size >= IN_A_ROW
    rows = standing if stands else rows
    # Where single batches are left out, the pass goes on.
    if not stands and len(distinct(ends["epoch"][rows])) < IN_A_ROW:
        return None
    began_ns = int(ends["request_ns"][rows[0]])
    since_s = (rank.made_ns - began_ns) / 1e9
    training = [loader.name for loader in rank.process.loaders if loader.role == "train"]
    params: dict[str, Param] = {
        "loader": training[0] if len(training) == 1 else None,
        "failures": int(rows.size),
        "stands": stands,
        "since_s": since_s,
    }
    died = _died(window, rank) if np.isin(ends["ended_by"][rows], _DIED).any() else None
    rule = "worker-death-caught" if died is not None else "loader-error-caught"
    frame = {
        **who([rank.rank], window.world_size),
        "stands": stands,
        "because": Text(rule, params, "because"),
    }
    return Finding(
        key=f"{CODE}:rank{rank.rank}",
        code=CODE,
        scenario="S22" if died is None else "S37",
        severity="critical" if stands else "warning",
        confidence=0.8 if died is None else 0.9,
        began_ns=began_ns,
        rule=rule,
        params=params,
        frame=Text("error-caught-again-and-again", frame),
        also=[] if died is None else [Text(died.rule, died.params), *died.also],
        evidence=[
            observed("failures-in-a-row", int(rows.size), "count"),
            observed("it-has-taken", since_s, "s"),
        ],
        rank=rank.rank,
        host=rank.host,
        worker=died.worker if died is not None else None,
        pid=died.pid if died is not None else None,
        sample_indices=died.sample_indices if died is not None else [],
        lost_s=since_s if stands else None,
    )


def _died(window: RunWindow, rank: RankWindow) -> Explanation:
    worker = dead_worker(rank)
    return killed_worker(rank, window.hosts.get(rank.host), worker.pid if worker is not None else None, "")
