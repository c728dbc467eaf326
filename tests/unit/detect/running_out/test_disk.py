"""S56: the disk of the checkpoints, before it is full."""

from __future__ import annotations

import dataclasses
import math

import msgspec
import pytest

from loaderwatch.detect.detectors import detect
from loaderwatch.detect.evidence import RunEvidence
from loaderwatch.detect.window import RunWindow
from tests.unit.detect.build import keeps_up, of_scenario, run

GB = 1e9
HOUR = 3600.0
NONE = math.nan


def filling(free: float, per_s: float, save: float, seen_s: float, path: str | None = "/data") -> RunWindow:
    """A healthy run whose job fills a disk of a terabyte."""
    window = run(
        keeps_up(),
        host={
            "filling_disk_total_bytes": 1000 * GB,
            "filling_disk_free_bytes": free,
            "filling_disk_bytes_per_s": per_s,
            "filling_disk_save_bytes": save,
            "filling_disk_seen_s": seen_s,
        },
    )
    hosts = {
        name: dataclasses.replace(host, info=msgspec.structs.replace(host.info, filling_disk=path))
        for name, host in window.hosts.items()
    }
    return dataclasses.replace(window, hosts=hosts)


@pytest.mark.parametrize(
    ("free", "save", "every_s", "seen_s", "severity", "says"),
    [
        (50.0, 2.0, HOUR, 40 * HOUR, None, ""),  # 25 hours
        (46.5, 2.0, HOUR, 40 * HOUR, "info",
         "full in about 23 h 0 min: 46 GB are left, enough for 23 more saves of 2.0 GB"),
        (46.5, 2.0, HOUR, 5 * HOUR, None, ""),  # seen for less than a quarter of that
        (7.0, 2.0, HOUR, 40 * HOUR, "warning", "enough for 3 more saves"),
        (7.0, 2.0, HOUR, 2 * HOUR, "info", "enough for 3 more saves"),  # perhaps no save is deleted yet
        (20.5, 1.0, 300.0, 3 * HOUR, "warning", "full in about 100 min 0 s"),
        (1.5, 2.0, HOUR, 40 * HOUR, "critical",
         "The next save does not fit on the disk at /data: the save needs 2.0 GB, only 1.5 GB are left."),
        (6.0, NONE, 0.01, 60.0, "warning",
         "The disk at /data is full in about 60 s: 6.0 GB are left, and the job writes 100 MB/s."),
        (6.1, NONE, 0.01, 60.0, "info", "full in about"),
    ],
)  # fmt: skip
def test_it_says_how_long_the_disk_lasts(
    free: float, save: float, every_s: float, seen_s: float, severity: str | None, says: str
) -> None:
    per_s = (save if math.isfinite(save) else 1e-3) * GB / every_s
    finding = of_scenario(detect(RunEvidence(filling(free * GB, per_s, save * GB, seen_s))), "S56")
    assert (finding.severity if finding else None) == severity
    if finding is not None:
        assert says in finding.title
        assert "save_total_limit" in finding.advice


def test_what_is_not_known_is_not_told() -> None:
    assert of_scenario(detect(RunEvidence(filling(1.0, 1.0, 1.0, 1.0, path=None))), "S56") is None
    assert of_scenario(detect(RunEvidence(filling(NONE, NONE, NONE, NONE))), "S56") is None
