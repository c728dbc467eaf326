"""Errors of a loader that the script catches to try again: S37 for workers that die, S22 for others; code ``caught-error``.

The process lives, batches come and passes begin, so nothing stands still; and yet training gets no further, or trains on the
same first batches for ever.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from loaderwatch.core.answers import Evidence
from loaderwatch.core.records import EndedBy
from loaderwatch.detect.crash.evidence import dead_worker
from loaderwatch.detect.crash.killed import killed_worker
from loaderwatch.detect.explanation import Explanation
from loaderwatch.detect.finding import Finding, Texts
from loaderwatch.detect.limits import Limits
from loaderwatch.detect.text import duration, ranks_phrase
from loaderwatch.detect.window import RankWindow, RunWindow, distinct, one_of

CODE: Final = "caught-error"
IN_A_ROW: Final = 3
"""So many passes in a row that fail are no accident that was borne."""
LATELY_S: Final = 60.0
"""Seconds after the last of them for which it counts as going on."""
_DIED: Final = (EndedBy.WORKER_DIED, EndedBy.LEFT_AFTER_DEATH)
_FAILED: Final = (EndedBy.ERROR, *_DIED)


def detect(window: RunWindow, limits: Limits) -> list[Finding]:
    """At most one finding for each rank: of the loader whose newest passes failed one after the other, most often."""
    found: list[Finding] = []
    for rank in window.ranks.values():
        if rank.process.state == "live" and _may_fail(rank):
            loaders = distinct(rank.table("epoch_ends")["loader"])
            # One that is made anew for each try may have several numbers; one that fails beside others that do not has its own.
            most = max(
                (_failures(rank, numbers) for numbers in (loaders, *([one] for one in loaders))), key=len
            )
            found += [finding for finding in [_finding(window, rank, most)] if finding is not None]
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
    name = training[0] if len(training) == 1 else "its loader"
    died = bool(np.isin(ends["ended_by"][rows], _DIED).any())
    explanation = _died(window, rank) if died else _raised()
    what = (
        f"a worker of {name} has died {rows.size} times in a row"
        if died
        else f"{name} has raised an error {rows.size} times in a row"
    )
    who = ranks_phrase([rank.rank], window.world_size)
    return Finding(
        key=f"{CODE}:rank{rank.rank}",
        code=CODE,
        scenario=explanation.scenario,
        severity="critical" if stands else "warning",
        confidence=explanation.confidence,
        began_ns=began_ns,
        texts=Texts(
            title=(
                f"{who} gets no further: {what}, and the script catches the error and tries again."
                if stands
                else f"{who} goes on after errors: {what}, and the script catches the error and begins another pass."
            ),
            cause=(
                f"No pass has come to its end for {duration(since_s)}, and hardly a training step has ended."
                if stands
                else f"No pass has come to its end for {duration(since_s)}: what comes after the error is never trained on."
            )
            + f" {explanation.cause}",
            advice=f"Log the error and let it end the run, or bound the number of tries. {explanation.advice}",
        ),
        evidence=[
            Evidence(label="failures in a row", value=int(rows.size), unit="count"),
            Evidence(label="it has taken", value=since_s, unit="s"),
        ],
        rank=rank.rank,
        host=rank.host,
        worker=explanation.worker,
        pid=explanation.pid,
        sample_indices=list(explanation.sample_indices),
        lost_s=since_s if stands else None,
    )


def _died(window: RunWindow, rank: RankWindow) -> Explanation:
    worker = dead_worker(rank)
    pid = worker.pid if worker is not None else None
    died = killed_worker(rank, window.hosts.get(rank.host), pid, "")
    return Explanation(
        "S37",
        0.9,
        "",
        died.cause,
        died.advice,
        worker=died.worker,
        pid=died.pid,
        sample_indices=died.sample_indices,
    )


def _raised() -> Explanation:
    return Explanation(
        "S22",
        0.8,
        "",
        "What is raised reaches the script alone: nothing else knows its text.",
        "It is the dataset's as a rule, or that of the collate function.",
    )
