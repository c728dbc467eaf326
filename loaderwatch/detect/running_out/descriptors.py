"""File descriptors, before they run out: S40, code ``running-out``.

With PyTorch's default sharing strategy, every tensor from a worker holds a descriptor while it lives. A loop
that keeps batches in a list reaches ``ulimit -n`` (pytorch#973), sometimes as a hang (pytorch#25691).
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from loaderwatch.core.answers import Severity
from loaderwatch.core.facts import SpanInfo
from loaderwatch.core.threshold import threshold
from loaderwatch.detect.codes import RUNNING_OUT as CODE
from loaderwatch.detect.evidence import RunEvidence
from loaderwatch.detect.finding import Finding, observed
from loaderwatch.detect.measures.statistics import Floats, Growth, growth, known
from loaderwatch.detect.running_out.resource_growth import Ints, stretches
from loaderwatch.detect.window import RankWindow
from loaderwatch.texts.formats import rate

DESCRIPTORS_ETA_S: Final = threshold(600.0, "s", "chosen: descriptors that run out later are not reported")
LEAST_COUNTED_S: Final = threshold(
    4.0, "s", "chosen: descriptors are counted every five seconds, so two counts span it"
)
LEAST_USED_RATIO: Final = threshold(
    0.25, "ratio", "chosen: of the limit; below it there is time to see whether the growth continues"
)
SURE_USED_RATIO: Final = threshold(
    0.5, "ratio", "chosen: of the limit; with less in use the forecast is a remark"
)
NEARLY_RATIO: Final = threshold(
    0.9, "ratio", "chosen: of the limit; above it a forecast is critical, and explains an EOFError crash"
)
COUNT_STRETCH_NS: Final = threshold(
    100_000_000, "ns", "chosen: the shortest stretch of steps; counts are rare, so one rarely holds two"
)
COUNTED_EVERY_NS: Final = threshold(
    5_000_000_000, "ns", "the streamer counts at every fifth look, so training is extended by it at both ends"
)
MOST_AHEAD_NS: Final = threshold(
    6_000_000_000, "ns", "counts come every five seconds, so the last one before a death is hardly older"
)
LEAST_DESCRIPTORS_PER_STEP: Final = threshold(
    0.1, "descriptors", "chosen: the message names no smaller growth a step"
)


def detect(run: RunEvidence) -> list[Finding]:
    """Find the rank that will run out of descriptors first: at most one finding."""
    findings = [
        finding
        for rank in run.live_ranks
        if _may_run_out(rank.rows)
        for worker in (None, *rank.rows.workers)
        if (finding := _finding(rank.rows, worker)) is not None
    ]
    return sorted(findings, key=lambda finding: finding.severity != "critical")[:1]


def _may_run_out(rank: RankWindow) -> bool:
    """Whether any process of a rank may be near its limit. Cheap, because most ranks are not."""
    rows = rank.table("processes")
    fds, limits = known(rows["fds"]), known(rows["fd_limit"])
    return bool(fds.size and limits.size) and float(fds.max()) >= LEAST_USED_RATIO * float(limits.min())


def _finding(rank: RankWindow, worker: SpanInfo | None) -> Finding | None:
    """Return the finding of a rank's worker, or of its training process (None)."""
    rows = rank.table("processes")
    own = rows["pid"] == (rank.process.pid if worker is None else worker.pid)
    limit = known(rows["fd_limit"][own])
    fds, t_ns = rows["fds"][own], rows["t_ns"][own]
    if not limit.size or not known(fds).size:
        return None
    most, now = float(limit[-1]), float(known(fds)[-1])
    if now < LEAST_USED_RATIO * most:
        return None
    training = stretches(rank, COUNT_STRETCH_NS, COUNTED_EVERY_NS)
    counted = _counted(fds)
    trained = training.rise(t_ns[counted], fds[counted], _steady) if training is not None else None
    if trained is None:
        return None
    rise = trained.growth
    eta_s = rise.eta_s(most - now)
    if eta_s > DESCRIPTORS_ETA_S:
        return None
    sure = now >= SURE_USED_RATIO * most
    severity: Severity = "info" if not sure else "critical" if now >= NEARLY_RATIO * most else "warning"
    per_step = rise.grown / trained.steps
    return Finding(
        key=f"{CODE}:descriptors:rank{rank.rank}",
        code=CODE,
        scenario="S40",
        severity=severity,
        confidence=0.85 if sure else 0.6,
        began_ns=int(t_ns[0]),
        rule="descriptors-run-out",
        params={
            "rank": rank.rank if rank.process.world_size > 1 else None,
            "worker": None if worker is None else worker.worker,
            "eta_s": eta_s,
            "open": now,
            "limit": most,
            "per_step": per_step if per_step >= LEAST_DESCRIPTORS_PER_STEP else None,
            **trained.basis,
            "first": rise.first,
            "last": rise.last,
        },
        evidence=[
            observed("open-descriptors", now, "count"),
            observed("limit", most, "count"),
            observed("more-per-second", rise.per_s, "per_s"),
            observed("until-the-limit", eta_s, "s"),
            observed("steps-per-second", rate(trained.steps / rise.span_s), "text"),
        ],
        rank=rank.rank,
        host=rank.host,
        worker=None if worker is None else worker.worker,
        pid=rank.process.pid if worker is None else worker.pid,
    )


def _steady(t_ns: Ints, fds: Floats) -> Growth | None:
    """Return steady growth of the counts; if they are few, each must be higher than the one before."""
    return growth(t_ns, fds, LEAST_COUNTED_S) or _two_point(t_ns, fds)


def _two_point(t_ns: Ints, fds: Floats) -> Growth | None:
    """Return the growth from the first count to the last; None unless each is higher than the one before.

    Close to the limit, two or three counts must be enough. They must span at least ``LEAST_COUNTED_S``.
    """
    if fds.size < 2 or not bool((np.diff(fds) > 0).all()):
        return None
    span_s = float(t_ns[-1] - t_ns[0]) / 1e9
    return (
        Growth(float(fds[-1] - fds[0]) / span_s, float(fds[0]), float(fds[-1]), span_s)
        if span_s >= LEAST_COUNTED_S
        else None
    )


def _counted(fds: Floats) -> NDArray[np.bool_]:
    """Return the mask of rows with a new count of descriptors; the rows in between repeat the last one."""
    result: NDArray[np.bool_] = np.isfinite(fds) & np.concatenate(([True], np.diff(fds) != 0))
    return result


def open_by(t_ns: NDArray[np.int64], fds: Floats, at_ns: int) -> float:
    """Return how many descriptors are open at a later time if growth continues; 0 without counts."""
    counted = np.flatnonzero(_counted(fds)) if fds.size else np.empty(0, dtype=np.int64)
    if not counted.size:
        return 0.0
    last = int(counted[-1])
    if counted.size < 2 or fds[last] <= fds[counted[-2]]:
        return float(fds[last])
    before = int(counted[-2])
    per_ns = (fds[last] - fds[before]) / max(1, int(t_ns[last] - t_ns[before]))
    return float(fds[last] + per_ns * min(MOST_AHEAD_NS, max(0, at_ns - int(t_ns[last]))))
