"""Samples that took longer than ``attach(sample_timeout=)`` allows: code ``sample-timeout``.

Training went on without them, so nothing else tells: they stay on the page for as long as the run.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

import numpy as np
from numpy.typing import NDArray

from loaderwatch.core.answers import Evidence
from loaderwatch.core.records import UNKNOWN, Outcome
from loaderwatch.detect.crash.evidence import loader_of
from loaderwatch.detect.finding import Finding, Texts
from loaderwatch.detect.limits import Limits
from loaderwatch.detect.text import count, duration, listing
from loaderwatch.detect.window import RankWindow, RunWindow, distinct

CODE = "sample-timeout"
MANY: Final = 10
"""So many samples that were left out are more than a broken file or two: somebody has to look."""
MOST_NAMED: Final = 5


def detect(window: RunWindow, limits: Limits) -> list[Finding]:
    """One finding for each loader of a rank that reads some samples for too long."""
    found: list[Finding] = []
    for rank in window.ranks.values():
        rows = rank.table("sample_timeouts")
        told = rows["outcome"] == Outcome.SKIPPED
        if rank.process.state != "crashed":  # a crash tells of the others
            told |= True
        found += [
            _finding(window, rank, number, told & (rows["loader"] == number))
            for number in distinct(rows["loader"][told])
        ]
    return found


def _finding(window: RunWindow, rank: RankWindow, number: int, own: NDArray[np.bool_]) -> Finding:
    rows = rank.table("sample_timeouts")
    times = int(own.sum())
    skipped = int((rows["outcome"][own] == Outcome.SKIPPED).sum())
    left_out = skipped == times
    loader = loader_of(rank, number)
    name = "a loader" if loader is None else loader.name
    limit_s = float(rows["limit_ns"][own][-1]) / 1e9
    indices = [int(index) for index in rows["index"][own] if index != UNKNOWN]
    often = Counter(indices)
    named = [f"{index} ({seen} times)" if seen > 1 else str(index) for index, seen in often.most_common()]
    which = f": {listing(named, MOST_NAMED)}" if named else ""
    who = f"Rank {rank.rank}: " if len(window.ranks) > 1 else ""
    what = f"left out {count(skipped, 'sample')}" if left_out else f"gave up {count(times, 'sample')}"
    workers = sorted(set(rows["worker"][own].tolist()) - {-1})
    read_by = (
        f" by {'worker' if len(workers) == 1 else 'workers'} {listing([str(w) for w in workers])}"
        if workers
        else ""
    )
    return Finding(
        key=f"{CODE}:rank{rank.rank}:loader{number}",
        code=CODE,
        scenario="",
        severity="warning" if times >= MANY else "info",
        confidence=1.0,
        began_ns=int(rows["request_ns"][own][0]),
        texts=Texts(
            title=f"{who}{name} {what} that took longer than {duration(limit_s)}{which}.",
            cause=f"attach(sample_timeout={limit_s:g}) interrupted them; they were read{read_by}."
            + (
                " Their batches came without them, so the model has not seen them."
                if left_out
                else f" {count(skipped, 'sample was', 'samples were')} left out, the others raised SampleTimeout."
            ),
            advice="The job's log names the line at which each stood. Read such a sample alone, and repair or remove it; if it only"
            " needs longer, raise sample_timeout.",
        ),
        evidence=[
            Evidence(label="samples that took too long", value=times, unit="count"),
            Evidence(label="left out of their batches", value=skipped, unit="count"),
            Evidence(label="sample_timeout", value=limit_s, unit="s"),
        ],
        rank=rank.rank,
        host=rank.host,
        worker=workers[0] if len(workers) == 1 else None,
        pid=rank.process.pid,
        sample_indices=list(often)[:MOST_NAMED],
    )
