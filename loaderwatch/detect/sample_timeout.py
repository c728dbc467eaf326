"""Samples that took longer than ``attach(sample_timeout=)`` allows: code ``sample-timeout``.

Training went on without these samples, so no other rule reports them. They stay on the page during the run.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

import numpy as np
from numpy.typing import NDArray

from loaderwatch.core.answers import Param, Text
from loaderwatch.core.records import UNKNOWN, Outcome
from loaderwatch.core.threshold import threshold
from loaderwatch.detect.codes import SAMPLE_TIMEOUT as CODE
from loaderwatch.detect.crash.death_traces import loader_of
from loaderwatch.detect.evidence import RunEvidence
from loaderwatch.detect.finding import Finding, observed
from loaderwatch.detect.window import RankWindow, RunWindow, distinct

MANY_LATE_SAMPLES: Final = threshold(
    10, "samples", "chosen: more than a broken file or two; somebody must look"
)
MOST_LATE_SAMPLES_NAMED: Final = threshold(5, "samples", "chosen: bounds the samples that a finding names")


def detect(run: RunEvidence) -> list[Finding]:
    """Return one finding for each loader of a rank with samples that took too long."""
    findings: list[Finding] = []
    window = run.window
    for rank in window.ranks.values():
        rows = rank.table("sample_timeouts")
        reported = rows["outcome"] == Outcome.SKIPPED
        if rank.process.state != "crashed":  # the finding of a crash reports the others
            reported |= True
        findings += [
            _finding(window, rank, number, reported & (rows["loader"] == number))
            for number in distinct(rows["loader"][reported])
        ]
    return findings


def _finding(window: RunWindow, rank: RankWindow, number: int, own: NDArray[np.bool_]) -> Finding:
    rows = rank.table("sample_timeouts")
    times = int(own.sum())
    skipped = int((rows["outcome"][own] == Outcome.SKIPPED).sum())
    loader = loader_of(rank, number)
    limit_s = float(rows["limit_ns"][own][-1]) / 1e9
    late_indices = [int(index) for index in rows["index"][own] if index != UNKNOWN]
    times_by_index = Counter(late_indices)
    workers = sorted(set(rows["worker"][own].tolist()) - {-1})
    return Finding(
        key=f"{CODE}:rank{rank.rank}:loader{number}",
        loader=number,
        code=CODE,
        scenario="",
        severity="warning" if times >= MANY_LATE_SAMPLES else "info",
        confidence=1.0,
        began_ns=int(rows["request_ns"][own][0]),
        rule="sample-timeout",
        params={
            "rank": rank.rank if len(window.ranks) > 1 else None,
            "loader": None if loader is None else loader.name,
            "outcome": "left-out" if skipped == times else "gave-up",
            "samples": times,
            "skipped": skipped,
            "limit_s": limit_s,
            "timeout": f"{limit_s:g}",
            "which": _named(times_by_index) if times_by_index else None,
            "reading": "loop" if not workers else "one" if len(workers) == 1 else "several",
            "readers": workers,
        },
        evidence=[
            observed("samples-that-took-too-long", times, "count"),
            observed("left-out-of-their-batches", skipped, "count"),
            observed("sample-timeout", limit_s, "s"),
        ],
        rank=rank.rank,
        host=rank.host,
        worker=workers[0] if len(workers) == 1 else None,
        pid=rank.process.pid,
        sample_indices=list(times_by_index)[:MOST_LATE_SAMPLES_NAMED],
    )


def _named(often: Counter[int]) -> Param:
    """Return the indices of the late samples, the most frequent first."""
    named = [
        Text("sample-seen", {"sample": index, "times": times}) if times > 1 else index
        for index, times in often.most_common()
    ]
    if len(named) < MOST_LATE_SAMPLES_NAMED:
        return named
    first, *others = named
    if len(named) > MOST_LATE_SAMPLES_NAMED:
        others = [
            *others[: MOST_LATE_SAMPLES_NAMED - 2],
            Text("and-more", {"number": len(named) - MOST_LATE_SAMPLES_NAMED + 1}),
        ]
    return Text("longer-list", {"first": first, "others": others})
