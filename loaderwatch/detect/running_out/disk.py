"""The disk of the checkpoints, before it is full: S56, code ``running-out``."""

from __future__ import annotations

import math
from typing import Final

from loaderwatch.core.answers import Severity
from loaderwatch.core.threshold import threshold
from loaderwatch.detect.codes import RUNNING_OUT as CODE
from loaderwatch.detect.evidence import RunEvidence
from loaderwatch.detect.finding import Finding, observed
from loaderwatch.detect.measures.statistics import known
from loaderwatch.detect.window import HostWindow, RankWindow

DISK_REMARK_ETA_S: Final = threshold(
    24 * 3600.0, "s", "chosen: a disk that fills within a day ends a night of training"
)
REMARK_TIMES_SEEN: Final = threshold(
    4.0, "factor", "chosen: times as far ahead as was seen; five saves that are kept also fill the disk"
)
DISK_WARNING_ETA_S: Final = threshold(
    2 * 3600.0, "s", "chosen: a disk that is full sooner needs a person now"
)
WARNING_SAVES: Final = threshold(
    3, "saves", "chosen: if so few still fit it is a warning, however rare they are"
)
DISK_ROWS: Final = threshold(
    5, "rows", "chosen: the newest readings of a host; the job may have deleted files since older ones"
)


def detect(run: RunEvidence) -> list[Finding]:
    """Find each host on which the job fills a file system within a day: one finding per host."""
    return [
        finding
        for host, ranks in run.live_hosts
        if any(_has_trained(rank) for rank in ranks) and (finding := _finding(host)) is not None
    ]


def _has_trained(rank: RankWindow) -> bool:
    """Whether a rank has begun to train: before that, it may download or convert its data, which ends."""
    return bool(rank.table("steps")["step"].size or rank.past("steps")["step"].size)


def _finding(host: HostWindow) -> Finding | None:
    total, free, per_s, save = (
        _latest(host, f"filling_disk_{name}")
        for name in ("total_bytes", "free_bytes", "bytes_per_s", "save_bytes")
    )
    path = host.info.filling_disk
    if path is None or not per_s > 0:
        return None
    fit = math.floor(free / save) if save > 0 else None
    eta_s = free / per_s if fit is None else fit * save / per_s
    seen_s = _latest(host, "filling_disk_seen_s")
    if eta_s > min(DISK_REMARK_ETA_S, REMARK_TIMES_SEEN * seen_s):
        return None
    severity: Severity = "info"
    if eta_s <= seen_s and (eta_s <= DISK_WARNING_ETA_S or (fit is not None and fit <= WARNING_SAVES)):
        severity = "warning" if fit is None or fit else "critical"
    evidence = [
        observed("left-on-the-disk", free, "bytes"),
        observed("size-of-the-disk", total, "bytes"),
        observed("filled-per-second", per_s, "bytes"),
        observed("until-it-is-full", eta_s, "s"),
        observed("seen-for", seen_s, "s"),
    ]
    if fit is not None:
        evidence += [
            observed("one-save", save, "bytes"),
            observed("saves-that-fit", fit, "count"),
        ]
    return Finding(
        key=f"{CODE}:disk:{host.info.name}",
        code=CODE,
        scenario="S56",
        severity=severity,
        confidence=0.8,
        began_ns=host.made_ns,
        rule="checkpoint-does-not-fit" if fit == 0 else "disk-fills-up",
        params={
            "path": path,
            "eta_s": eta_s,
            "left_bytes": free,
            "growth_bytes": per_s,
            "saves": fit,
            "save_bytes": save,
            "seen_s": seen_s,
        },
        evidence=evidence,
        host=host.info.name,
    )


def _latest(host: HostWindow, column: str) -> float:
    """Return the newest value; NaN if none is recent, because the job may have deleted files since."""
    values = known(host.hosts[column][-DISK_ROWS:])
    return float(values[-1]) if values.size else math.nan
