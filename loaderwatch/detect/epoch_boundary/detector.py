"""Epoch boundaries: the cost of starting, resetting and ending an epoch's iterator.

Code ``epoch-boundary``: S15 sampler, S28 workers restarted, S30 read-ahead drained at a reset, S31 teardown,
S32 iterator rebuilt for every step, S33 slow first batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from loaderwatch.core.answers import Param, Severity, Text
from loaderwatch.core.facts import LoaderInfo
from loaderwatch.core.threshold import threshold
from loaderwatch.detect.codes import EPOCH_BOUNDARY as CODE
from loaderwatch.detect.epoch_boundary.causes import (
    dropped_early,
    explain,
    explain_rebuilt,
    parts_of,
    rebuilt,
)
from loaderwatch.detect.evidence import RankEvidence, RunEvidence
from loaderwatch.detect.finding import Explanation, Finding, observed, who
from loaderwatch.detect.measures.boundaries import Boundary
from loaderwatch.detect.measures.gain import gain_ratio
from loaderwatch.detect.measures.statistics import median
from loaderwatch.detect.shared_thresholds import CRITICAL_RATIO, NEWEST_EPOCHS, WARNING_RATIO, Limits
from loaderwatch.detect.window import RankWindow, RunWindow, seconds

BOUNDARY_FLOOR_S: Final = threshold(0.2, "s", "chosen: an epoch boundary that costs less is not reported")
REBUILD_FLOOR_S: Final = threshold(0.005, "s", "chosen: as BOUNDARY_FLOOR_S, if every step rebuilds")
FEW_EPOCHS: Final = threshold(
    2, "boundaries", "chosen: one may be slow by accident; two are needed unless one costs ONE_COSTS_S"
)
ONE_COSTS_S: Final = threshold(10.0, "s", "chosen: a single boundary that costs so much is worth an alert")


@dataclass(frozen=True)
class Toll:
    """The cost of one loader's epoch boundaries to one rank."""

    rank: RankEvidence
    loader: LoaderInfo
    paid: list[Boundary]  # the boundaries that count
    cause: Explanation
    share: float  # of the time from the boundary before the first one until now, 0 to 1
    cost_s: float  # mean of one boundary, seconds
    epoch_s: float  # seconds from the first batch of one epoch to the first batch of the next
    lost_s: float  # in all boundaries that count, seconds
    severity: Severity

    @property
    def epoch_share(self) -> float:
        """Return the share of an epoch that a boundary takes, 0 to 1, as the gain is a share of an epoch too.

        ``share`` also covers the first epoch, whose start no advice can save.
        """
        return min(1.0, self.cost_s / self.epoch_s) if self.epoch_s > 0 else self.share


def detect(run: RunEvidence) -> list[Finding]:
    """Find each loader whose epoch boundaries cost too much: one finding per loader, for all its ranks."""
    tolls: dict[int, list[Toll]] = {}
    for rank in run.live_ranks:
        for loader in rank.process.loaders:
            toll = _toll(rank, loader)
            if toll is not None:
                tolls.setdefault(loader.loader, []).append(toll)
    return [_finding(run.window, group) for _, group in sorted(tolls.items())]


def _toll(rank: RankEvidence, loader: LoaderInfo) -> Toll | None:
    if loader.role != "train":
        return None
    if not _worth_a_look(rank.rows, loader):
        return None
    found_boundaries = rank.boundaries(loader)
    if len(found_boundaries) < 2:
        return None
    quick = rebuilt(loader, found_boundaries)
    if quick:
        return _judge(rank, loader, quick, explain_rebuilt(loader, quick), found_boundaries, REBUILD_FLOOR_S)
    limit_s = rank.wait_limit_s(loader.loader)
    regular = [b for b in found_boundaries if not _hung(b, found_boundaries, limit_s, rank.limits)]
    paid = [b for b in regular if b.epoch > 0][-20:]
    if not paid or all(dropped_early(loader, b) for b in paid):
        return None  # too few to tell S32 from a script that only looks at one batch
    alone = len(paid) < FEW_EPOCHS
    if alone and paid[0].cost_s < ONE_COSTS_S:
        return None
    cause = explain(loader, paid, _usual_fetch_s(rank.rows, loader))
    if cause.scenario == "S15":  # the first epoch pays for the sampler as well
        paid = regular[-20:]
    return _judge(rank, loader, paid, cause, found_boundaries, BOUNDARY_FLOOR_S)


def _hung(boundary: Boundary, found: Sequence[Boundary], limit_s: float, limits: Limits) -> bool:
    """Whether the first batch came so late that it was reported as a hang, and much later than usual.

    Such a boundary says nothing about the others.
    """
    usual_s = median(np.array([other.cost_s for other in found if other is not boundary]))
    return boundary.first_wait_s >= max(limit_s, limits.hang_factor * usual_s)


def _worth_a_look(rank: RankWindow, loader: LoaderInfo) -> bool:
    """Whether the newest epoch starts and ends took a notable share of the time since then; a cheap test."""
    begins, ends = rank.table("epoch_begins"), rank.table("epoch_ends")
    rows = np.flatnonzero(begins["loader"] == loader.loader)[-NEWEST_EPOCHS:]
    if rows.size < 2:
        return False
    since_ns = int(begins["request_ns"][rows[0]])
    ended = (ends["loader"] == loader.loader) & (ends["request_ns"] >= since_ns)
    spent = [begins["iter_ns"][rows], begins["first_wait_ns"][rows], ends["teardown_ns"][ended]]
    cost_ns = sum(float(values[values > 0].sum()) for values in spent)
    return cost_ns >= 0.5 * WARNING_RATIO * max(1, rank.made_ns - since_ns)


def _judge(
    rank: RankEvidence,
    loader: LoaderInfo,
    paid: list[Boundary],
    cause: Explanation,
    found: list[Boundary],
    floor_s: float,
) -> Toll | None:
    lost_s = sum(b.cost_s for b in paid)
    cost_s = lost_s / len(paid)
    earlier_ns = [b.request_ns for b in found if b.request_ns < paid[0].request_ns]
    began_ns = max(earlier_ns) if earlier_ns else paid[0].request_ns
    elapsed_s = (rank.made_ns - began_ns) / 1e9
    # Between two first batches lies a whole epoch with the boundary at its end.
    first_batches_ns = [b.ended_ns for b in found if b.request_ns >= began_ns]
    epoch_s = (first_batches_ns[-1] - first_batches_ns[0]) / 1e9 / max(1, len(first_batches_ns) - 1)
    over = (rank.made_ns - found[-1].request_ns) / 1e9 > 10.0 + 2.5 * epoch_s + found[-1].cost_s
    share = lost_s / max(elapsed_s, lost_s, 1e-9)
    if over or cost_s < floor_s or share < WARNING_RATIO:
        return None
    return Toll(
        rank=rank,
        loader=loader,
        paid=paid,
        cause=cause,
        share=share,
        cost_s=cost_s,
        epoch_s=epoch_s,
        lost_s=lost_s,
        severity="critical" if share >= CRITICAL_RATIO else "warning",
    )


def _usual_fetch_s(rank: RankWindow, loader: LoaderInfo) -> float:
    fetches = rank.table("fetches")
    return median(seconds(fetches["fetch_ns"][fetches["loader"] == loader.loader]))


def _finding(window: RunWindow, tolls: Sequence[Toll]) -> Finding:
    worst = max(tolls, key=lambda toll: toll.lost_s)
    world = max(len(window.ranks), worst.rank.process.world_size)
    ranks = window.standing_for(sorted(toll.rank.rank for toll in tolls))
    parts, cause = parts_of(worst.paid), worst.cause
    saved_s = min(cause.saved_s, worst.cost_s)  # time that the device hid was not lost and cannot be saved
    per_iterator = cause.scenario == "S32"
    frame = Text(
        "time-lost-at-epoch-boundaries",
        {
            **who(ranks, world),
            "share_ratio": worst.epoch_share,
            "place": "making-iterators" if per_iterator else "at-boundaries",
            "loader": worst.loader.name if worst.rank.takes_from_several else None,
            "because": cause.said("because"),
        },
    )
    cost: dict[str, Param] = {
        "lost_s": worst.lost_s,
        "each_s": worst.cost_s,
        "per": "iterator" if per_iterator else "epoch",
    }
    return Finding(
        key=f"{CODE}:{worst.loader.loader}",
        loader=worst.loader.loader,
        code=CODE,
        scenario=cause.scenario,
        severity=worst.severity,
        confidence=cause.confidence,
        began_ns=worst.paid[0].request_ns,
        rule=cause.rule,
        params=cause.params,
        frame=frame,
        also=[*cause.also, Text("epoch-boundaries-have-cost", cost)],
        evidence=[
            observed("share-of-the-time", worst.epoch_share, "ratio"),
            observed("boundaries-seen", len(worst.paid), "count"),
            observed("cost-of-one", worst.cost_s, "s"),
            observed("from-one-to-the-next", worst.epoch_s, "s"),
            observed("sampler", parts.sampler_s, "s"),
            observed("starting-or-resetting-workers", parts.start_s, "s"),
            observed("first-batch", parts.first_s, "s"),
            observed("teardown", parts.teardown_s, "s"),
            observed("batches-thrown-away", max(b.drained for b in worst.paid), "count"),
        ],
        rank=worst.rank.rank if len(ranks) < world or world == 1 else None,
        host=worst.rank.host,
        lost_s=worst.lost_s,
        gain_ceiling_ratio=gain_ratio(worst.epoch_s, worst.epoch_s - saved_s),
    )
