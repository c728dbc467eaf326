"""One cause, one alert, for real: what warns before and what it comes to are one, over the whole run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.integration.test_scenarios_resources import MOUNTS
from tests.scenarios.cases import CASES
from tests.scenarios.play import play_one, serve

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

# from the warning until its event has come, and a while to see whether anything else is reported
AFTER_S = 12.0
BY_ID = {case.id: case for case in CASES}


@pytest.mark.parametrize(
    ("name", "before", "code", "told"),
    [
        ("s36_slow_first", "S20", "hung", ["input-bound", "hung"]),
        ("s39_full", "S39", "crashed", ["running-out"]),  # who is dead reads no line
        ("s40_exhausted", "S40", "crashed", ["running-out"]),
    ],
)
def test_one_alert_from_the_warning_to_the_end(
    tmp_path: Path, name: str, before: str, code: str, told: list[str]
) -> None:
    case = BY_ID[name]
    if "unshare" in case.before and not MOUNTS:
        pytest.skip("a small /dev/shm cannot be mounted here")
    with serve(tmp_path) as access:
        outcome = play_one(case, access, tmp_path / case.id, settle_s=AFTER_S)
    assert len(outcome.findings) == 1, outcome.report()
    (alert,) = outcome.findings
    assert (alert["code"], alert["severity"]) == (code, "critical"), outcome.report()
    (folded,) = [folded for folded in alert["folded"] if folded["scenario"] == before]
    assert folded["warned_s"] > 0
    assert folded["evidence"]
    assert re.findall(r"^loaderwatch: \[([a-z-]+)\]", outcome.output, re.MULTILINE) == told, outcome.report()
