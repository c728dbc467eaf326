"""S43: all ranks wait for one rank, because that rank waits for data."""

from __future__ import annotations

import math
from typing import Final

import msgspec
import numpy as np

from loaderwatch.core.answers import Text
from loaderwatch.core.threshold import threshold
from loaderwatch.detect.evidence import RunEvidence
from loaderwatch.detect.finding import Finding, observed
from loaderwatch.detect.input_bound.stalls import Stall
from loaderwatch.detect.measures.coupling import Coupling
from loaderwatch.detect.measures.gain import gain_ratio
from loaderwatch.detect.measures.statistics import mean, median

AS_SLOW_RATIO: Final = threshold(
    0.9, "ratio", "chosen: of the awaited rank's time per batch; a rank whose workers need so much is as slow"
)


def waited_for(culprit: Stall, run: RunEvidence) -> Coupling | None:
    """Return who waits for whom if the others wait for the culprit's rank and its data; else None."""
    coupling = run.coupling
    return (
        coupling
        if coupling and coupling.waited_for == (culprit.pace.rank.rank,) and coupling.cause == "data"
        else None
    )


def as_straggler(finding: Finding, culprit: Stall, run: RunEvidence, found: Coupling) -> Finding:
    """Return the finding rewritten as S43: the other ranks wait for the culprit's rank."""
    rank = culprit.pace.rank.rank
    own = found.share(rank)
    others = [found.share(other) for other in found.waiting]
    iteration_s = median(np.array([share.iteration_s for share in found.shares]))
    behind = max(_too_slow(run, found, culprit.pace.loader.loader), default=None)
    supply_s, next_rank = behind or (0.0, rank)
    gain = finding.gain_ceiling_ratio
    if behind and gain is not None:
        gain = min(gain, gain_ratio(iteration_s, supply_s) or 0.0)
    next_one = [Text("next-straggler", {"next_rank": next_rank, "supply_s": supply_s})] if behind else []
    place = found.where if found.where in ("forward", "backward", "optimizer") else None
    cause = culprit.explanation
    return msgspec.structs.replace(
        finding,
        scenario="S43",
        confidence=max(finding.confidence, 0.85) if finding.confidence >= 0.7 else finding.confidence,
        rule="straggler-waits-for-data",
        params={
            "rank": rank,
            "host": culprit.pace.rank.host,
            "wait_s": own.data_s,
            "loader": culprit.source,
            "waiting": len(others),
            "other_rank": others[0].rank,
            "others_wait_s": found.wait_s,
            "measured": found.source == "measured",
            "place": place or "unknown",
            "iteration_s": iteration_s,
            "share_ratio": own.data_s / own.iteration_s,
            "next_rank": next_rank if behind else None,
            "because": cause.said("because"),
            "why": cause.said("cause"),
            "do": cause.said("advice"),
        },
        frame=None,
        also=[*cause.also, *next_one],
        gain_ceiling_ratio=gain,
        evidence=[
            *finding.evidence,
            observed("iteration-of-every-rank", iteration_s, "s"),
            observed("rank-waits-for-data-per-iteration", own.data_s, "s", rank=rank),
            observed("others-wait-for-rank-per-iteration", found.wait_s, "s", rank=rank),
            observed("others-wait-for-data-per-iteration", max(share.data_s for share in others), "s"),
        ],
    )


def as_slow(culprit: Stall, run: RunEvidence, found: Coupling) -> list[int]:
    """Return the ranks whose workers are as slow as the culprit's, although their waits do not show it.

    Speeding up only the culprit's rank would gain nothing.
    """
    now = culprit.pace
    supply_s = mean(now.fetches.fetch_s) / now.workers if now.workers else math.nan
    slow = _too_slow(run, found, now.loader.loader)
    return [rank for their_s, rank in slow if their_s >= AS_SLOW_RATIO * supply_s]


def _too_slow(run: RunEvidence, coupling: Coupling, loader: int) -> list[tuple[float, int]]:
    """Return (seconds per batch, rank) for each waiting rank whose workers could not keep up either.

    Their waits do not show it: while a rank waits for another, its workers read ahead.
    """
    slow = []
    for share in (coupling.share(rank) for rank in coupling.waiting):
        for now in run.ranks[share.rank].recent_paces:
            if now.loader.loader != loader or not now.workers:
                continue
            fetch_s = mean(now.fetches.fetch_s)
            if fetch_s / now.workers > 1.1 * share.own_s:
                slow.append((fetch_s / now.workers, share.rank))
    return slow
