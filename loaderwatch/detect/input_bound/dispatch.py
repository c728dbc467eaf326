"""S18: one rank reads for all ranks and sends each its batches; the others do not read themselves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import msgspec
import numpy as np

from loaderwatch.core.threshold import threshold
from loaderwatch.detect.evidence import RankEvidence, RunEvidence
from loaderwatch.detect.finding import Finding, observed, who
from loaderwatch.detect.input_bound.stalls import Stall
from loaderwatch.detect.measures.gain import gain_ratio
from loaderwatch.detect.measures.statistics import mean, ratio
from loaderwatch.detect.window import RankWindow, RunWindow

DISPATCHER = "Dispatcher"  # Accelerate's DataLoaderDispatcher
COUPLED_RATIO: Final = threshold(
    0.35, "ratio", "chosen: the iteration times of ranks that wait for each other differ by less"
)
READER_LOOK_BACK_NS: Final = threshold(
    20_000_000_000, "ns", "chosen: a rank without workers and fetches for so long does not read"
)


def as_dispatch(run: RunEvidence, findings: Sequence[Finding], stalls: Sequence[Stall]) -> list[Finding]:
    """Return the findings; if one rank reads for all, the findings of steady waits become one of S18."""
    steady = [stall for stall in stalls if not stall.spiky]
    reader = lone_reader(run, steady)
    if reader is None:
        return list(findings)
    receivers = [stall for stall in steady if stall.pace.rank.rank != reader.rank]
    worst = max(receivers, key=lambda stall: stall.lost_s)
    base = next(
        finding
        for finding in findings
        if finding.aspect == "steady" and finding.loader == worst.pace.loader.loader
    )
    return [_finding(run.window, base, reader.rows, worst, receivers)] + [
        finding for finding in findings if finding.aspect != "steady"
    ]


def lone_reader(run: RunEvidence, stalls: Sequence[Stall]) -> RankEvidence | None:
    """Return the only rank that reads while the others wait and read nothing; None without such a rank."""
    live = run.live_ranks
    if len(live) < 2 or len(live) + len(run.window.summed) < max(rank.process.world_size for rank in live):
        return None
    reading = [rank for rank in live if _reads(rank.rows)]
    named = [rank for rank in live if any(DISPATCHER in loader.class_name for loader in rank.process.loaders)]
    if len(reading) == 1:
        reader = reading[0]
    elif not reading and len(named) == len(live):
        reader = min(live, key=lambda rank: rank.rank)  # Accelerate's dispatcher reads on the first rank
    else:
        return None
    waiting = [stall for stall in stalls if stall.pace.rank.rank != reader.rank]
    if not waiting or any(stall.pace.workers for stall in waiting):
        return None
    # While others do one iteration, the reader reads one large batch to split, or up to one per rank.
    waiting_s = mean(np.array([stall.pace.iteration_s for stall in waiting]))
    own = [
        pace.since(reader.made_ns - READER_LOOK_BACK_NS) for pace in reader.paces if pace.workers is not None
    ]
    batches = [ratio(waiting_s, pace.iteration_s) for pace in own if pace.wait_s.size]
    if any(not 1 - COUPLED_RATIO <= count <= (1 + COUPLED_RATIO) * len(live) for count in batches):
        return None
    return reader


def _reads(rank: RankWindow) -> bool:
    fetches = rank.table("fetches")
    if bool((fetches["request_ns"] >= rank.made_ns - READER_LOOK_BACK_NS).any()):
        return True
    processes = rank.table("processes")
    return bool(
        ((processes["worker"] >= 0) & (processes["t_ns"] >= rank.made_ns - READER_LOOK_BACK_NS)).any()
    )


def _finding(
    window: RunWindow, base: Finding, reader: RankWindow, worst: Stall, receivers: Sequence[Stall]
) -> Finding:
    world = len(window.ranks) + len(window.summed)
    pace = worst.pace
    wait_s, step_s = mean(pace.wait_s), pace.mean_step_s
    loader = next((info for info in reader.process.loaders if info.num_workers), None)
    workers = loader.num_workers if loader else None
    after_s = max(step_s, pace.iteration_s / world)
    fetches = reader.table("fetches")
    own = fetches["request_ns"] >= reader.made_ns - READER_LOOK_BACK_NS
    fetch_s = float(np.median(fetches["fetch_ns"][own])) / 1e9 if own.any() else math.nan
    evidence = [
        observed("ranks-that-read", 1, "count"),
        observed("ranks", world, "count"),
        *([observed("fetch-time-on-the-reading-rank", fetch_s, "s")] if fetch_s >= 0 else []),
    ]
    return msgspec.structs.replace(
        base,
        scenario="S18",
        severity=worst.severity,
        confidence=0.93,
        rule="one-rank-reads-for-all",
        params={
            **who(sorted({stall.pace.rank.rank for stall in receivers}), world),
            "receivers": len(receivers),
            "share_ratio": worst.share,
            "elapsed_s": worst.pace.elapsed_s,
            "reader": reader.rank,
            "wait_s": wait_s,
            "step_s": step_s,
            "workers": workers or None,
        },
        frame=None,
        also=[],
        rank=reader.rank,
        host=reader.host,
        worker=None,
        pid=None,
        sample_indices=[],
        gain_ceiling_ratio=gain_ratio(pace.iteration_s, after_s),
        evidence=[*base.evidence, *evidence],
    )
