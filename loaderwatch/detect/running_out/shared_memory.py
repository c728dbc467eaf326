"""/dev/shm, before it is full: S39, code ``running-out``.

Workers hand over batches in shared memory. A container has 64 MB of it unless configured otherwise
(pytorch#5040). The most that a configuration needs is known after one batch of each loader. If more is used,
something keeps batches, and the time until it is full can be computed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from loaderwatch.core.answers import Text
from loaderwatch.core.facts import LoaderInfo
from loaderwatch.core.threshold import threshold
from loaderwatch.detect.codes import RUNNING_OUT as CODE
from loaderwatch.detect.evidence import RunEvidence
from loaderwatch.detect.finding import Finding, observed
from loaderwatch.detect.measures.statistics import FEW_FOR_DRIFT, Floats, Growth, drift
from loaderwatch.detect.running_out.resource_growth import (
    CRITICAL_ETA_S,
    WARNING_ETA_S,
    Ints,
    clear_growth,
    is_likely,
    stretches,
)
from loaderwatch.detect.window import HostWindow, RankWindow

TIGHT_RATIO: Final = threshold(0.8, "ratio", "chosen: of the size of /dev/shm; a larger need is a remark")
LEAST_SHM_BYTES: Final = threshold(1 << 20, "bytes", "chosen: a smaller need or growth fills no /dev/shm")
ENOUGH_SHM_FACTOR: Final = threshold(
    1.25, "factor", "chosen: the advised size over what the loaders need, so that they use 80 % of it"
)
HOST_READING_NS: Final = threshold(
    1_000_000_000, "ns", "a host is read once a second, so even the shortest stretch of steps has a reading"
)
LEAST_SHM_S: Final = threshold(
    FEW_FOR_DRIFT * HOST_READING_NS / 1e9,
    "s",
    "chosen: a few long stretches must span as much time as the fewest short ones that count",
)


@dataclass(frozen=True)
class _Need:
    """The most shared memory that one loader of one rank uses."""

    rank: int
    loader: LoaderInfo
    batch_bytes: float
    batches: int

    @property
    def bytes(self) -> float:
        """Return the bytes of all batches together."""
        return self.batches * self.batch_bytes


def detect(run: RunEvidence) -> list[Finding]:
    """Find each host whose loaders may fill /dev/shm, or nearly: one finding per host."""
    findings = []
    for host, ranks in run.live_hosts:
        finding = _filling(host, ranks) or _finding(host, ranks)
        if finding is not None:
            findings.append(finding)
    return findings


def _finding(host: HostWindow, ranks: list[RankWindow]) -> Finding | None:
    total, used = host.newest("shm_total_bytes"), host.newest("shm_used_bytes")
    if not total > 0:
        return None
    needs = _needs(ranks)
    needed = sum(need.bytes for need in needs)
    if needed < max(LEAST_SHM_BYTES, TIGHT_RATIO * total):
        return None
    most = max(needs, key=lambda need: need.bytes)
    loader = most.loader
    fits = needed <= total
    # The prefetch_factor with which the loaders fit, if all of them are lowered equally.
    prefetched = loader.prefetch_factor or 2
    factor = max(1, math.floor(prefetched * TIGHT_RATIO * total / needed))
    return Finding(
        key=f"{CODE}:shm:{host.info.name}",
        code=CODE,
        scenario="S39",
        severity="info" if fits else "warning",
        confidence=0.75 if fits else 0.9,
        began_ns=host.made_ns,
        rule="shared-memory-too-small",
        params={
            "fits": fits,
            "needed_bytes": needed,
            "total_bytes": total,
            "needs": [
                Text(
                    "loader-needs",
                    {
                        "loader": need.loader.name,
                        "batches": need.batches,
                        "batch_bytes": need.batch_bytes,
                        "rank": need.rank if len(ranks) > 1 else None,
                    },
                )
                for need in sorted(needs, key=lambda need: -need.bytes)
            ],
            "used_ratio": used / total if used >= 0 else None,
            "enough_bytes": ENOUGH_SHM_FACTOR * needed,
            "prefetch_factor": factor if factor < prefetched else None,
            "prefetch_factor_now": prefetched,
            "num_workers": loader.num_workers,
            "loader": loader.name,
        },
        evidence=[
            observed("dev-shm-needed-at-most", needed, "bytes"),
            observed("dev-shm", total, "bytes"),
            *([observed("dev-shm-used", used, "bytes")] if used >= 0 else []),
            observed("largest-batch", most.batch_bytes, "bytes"),
            observed("batches-read-ahead-at-most", sum(n.batches for n in needs), "count"),
            observed("loaders", Text("evidence-loader-count", {"loaders": len(needs)}), "text"),
        ],
        rank=most.rank if len(ranks) == 1 else None,
        host=host.info.name,
    )


def _filling(host: HostWindow, ranks: list[RankWindow]) -> Finding | None:
    """Return the finding if /dev/shm fills with more than its loaders read ahead; None otherwise."""
    total, used = host.newest("shm_total_bytes"), host.newest("shm_used_bytes")
    training = [parts for rank in ranks if (parts := stretches(rank, HOST_READING_NS)) is not None]
    if not training or not total > 0:
        return None
    longest = max(training, key=lambda parts: parts.bounds_ns.size)
    trained = longest.rise(host.hosts["t_ns"], host.hosts["shm_used_bytes"], _steady, FEW_FOR_DRIFT)
    if trained is None or trained.growth.grown < LEAST_SHM_BYTES:
        return None
    rise = trained.growth
    needed = sum(need.bytes for need in _needs(ranks))
    if rise.grown < needed:
        return None
    eta_s = rise.eta_s(total - used)
    if eta_s > WARNING_ETA_S:
        return None
    is_sure = is_likely(rise.grown, total - used)
    return Finding(
        key=f"{CODE}:shm:{host.info.name}",
        code=CODE,
        scenario="S39",
        severity="info" if not is_sure else "critical" if eta_s <= CRITICAL_ETA_S else "warning",
        confidence=0.85 if is_sure else 0.6,
        began_ns=int(host.made_ns - rise.span_s * 1e9),
        rule="shared-memory-fills-up",
        params={
            "eta_s": eta_s,
            "left_bytes": total - used,
            "total_bytes": total,
            "growth_bytes": rise.per_s,
            "needed_bytes": needed,
            **trained.basis,
            "first_bytes": rise.first,
            "last_bytes": rise.last,
        },
        evidence=[
            observed("dev-shm-used", used, "bytes"),
            observed("dev-shm", total, "bytes"),
            observed("more-per-second", rise.per_s, "bytes"),
            observed("until-it-is-full", eta_s, "s"),
            observed("dev-shm-needed-at-most", needed, "bytes"),
        ],
        host=host.info.name,
    )


def _steady(t_ns: Ints, used: Floats) -> Growth | None:
    """Return the growth of many noisy readings, or of the few stretches that long steps leave."""
    return drift(t_ns, used) if used.size >= FEW_FOR_DRIFT else clear_growth(LEAST_SHM_S)(t_ns, used)


def _needs(ranks: list[RankWindow]) -> list[_Need]:
    return [need for rank in ranks for loader in rank.process.loaders if (need := _need(rank, loader))]


def _need(rank: RankWindow, loader: LoaderInfo) -> _Need | None:
    if not loader.num_workers:
        return None
    rows = rank.table("fetches")
    sizes = rows["bytes"][(rows["loader"] == loader.loader) & (rows["bytes"] > 0)]
    if not sizes.size:
        return None
    ahead = loader.num_workers * (loader.prefetch_factor or 2)
    if loader.batches is not None:
        ahead = min(ahead, max(1, loader.batches))
    largest = float(np.quantile(sizes, 0.95, method="higher"))
    return _Need(rank.rank, loader, largest, ahead + 1)
