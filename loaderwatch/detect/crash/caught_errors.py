"""Loader errors that the script catches to try again. Code ``caught-error``: S37 for dead workers, else S22.

The process lives and passes begin, so it does not hang. But training stops, or repeats its first batches.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from loaderwatch.core.answers import Param, Text
from loaderwatch.core.records import EndedBy
from loaderwatch.core.threshold import threshold
from loaderwatch.detect.codes import CAUGHT_ERROR as CODE
from loaderwatch.detect.crash.death_traces import dead_worker
from loaderwatch.detect.crash.killed import killed_worker
from loaderwatch.detect.evidence import RunEvidence
from loaderwatch.detect.finding import Explanation, Finding, observed, who
from loaderwatch.detect.window import RankWindow, RunWindow, distinct, one_of

IN_A_ROW: Final = threshold(3, "passes", "chosen: so many failures in a row are not an accident")
LATELY_S: Final = threshold(60.0, "s", "chosen: caught errors go on until so long after the last one")
_DIED: Final = (EndedBy.WORKER_DIED, EndedBy.LEFT_AFTER_DEATH)
_FAILED: Final = (EndedBy.ERROR, *_DIED)


def detect(run: RunEvidence) -> list[Finding]:
    """Return at most one finding per rank, for the loader with the most failed passes in a row."""
    findings: list[Finding] = []
    for rank in (live.rows for live in run.live_ranks):
        if _may_fail(rank):
            loaders = distinct(rank.table("epoch_ends")["loader"])
            # A loader that is recreated for each try has several numbers: count all together, and each alone.
            rows = max((_failures(rank, numbers) for numbers in (loaders, *([n] for n in loaders))), key=len)
            findings += [finding for finding in [_finding(run.window, rank, rows)] if finding is not None]
    return findings


def _may_fail(rank: RankWindow) -> bool:
    """Whether enough passes failed to look closer; cheap, because nearly all of a thousand ranks are fine."""
    ends = rank.table("epoch_ends")
    return bool(ends["ended_by"].size) and int(one_of(ends["ended_by"], _FAILED).sum()) >= IN_A_ROW


def _failures(rank: RankWindow, loaders: Sequence[int]) -> NDArray[np.intp]:
    """Return these loaders' failed passes since their last complete pass; none if the newest is old."""
    ends = rank.table("epoch_ends")
    rows = np.flatnonzero(np.isin(ends["loader"], loaders))
    complete = np.flatnonzero(ends["ended_by"][rows] == EndedBy.EXHAUSTED)
    rows = rows[complete[-1] + 1 :] if complete.size else rows
    rows = rows[np.isin(ends["ended_by"][rows], _FAILED)]
    over = rows.size and rank.made_ns - int(ends["request_ns"][rows[-1]]) > LATELY_S * 1e9
    return rows[:0] if over else rows


def _standing(rank: RankWindow, rows: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return the newest failures since which training has made at most one step per failure."""
    steps, failed_ns = rank.table("steps"), rank.table("epoch_ends")["request_ns"][rows]
    requested_ns = np.sort(steps["request_ns"][steps["off_main_thread"] != 1])
    # np.searchsorted is fast enough for a script that fails thousands of times a second.
    trained = requested_ns.size - np.searchsorted(requested_ns, failed_ns, side="right")
    stuck_rows = np.flatnonzero(trained <= np.arange(rows.size, 0, -1))
    return rows[stuck_rows[0] :] if stuck_rows.size else rows[:0]


def _finding(window: RunWindow, rank: RankWindow, rows: NDArray[np.intp]) -> Finding | None:
    ends = rank.table("epoch_ends")
    standing = _standing(rank, rows)
    stands = standing.size >= IN_A_ROW
    rows = standing if stands else rows
    # A script may leave out single batches and go on with the same pass.
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
