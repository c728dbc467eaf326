"""Replayed recordings of scenarios: today's detectors must still name the built-in stall and nothing else.

``python -m benchmarks.diagnosis --record tests/scenarios/recordings [ID ...]`` records them again.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from loaderwatch.detect.detectors import all_rules
from loaderwatch.server.recordings import recording
from tests.scenarios.cases import CASES
from tests.scenarios.judge import judge
from tests.scenarios.words import GOLDEN, RECORDINGS, golden, judged, words_of

FOLDER = RECORDINGS[0].parent
MOST_BYTES = 300_000
BY_ID = {case.id: case for case in CASES}
ROWS = {rule.id: (family.code, rule) for family, rule in all_rules()}
KEPT = {spoken: golden(spoken) for spoken in GOLDEN}


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_a_recorded_run_is_still_named(path: Path) -> None:
    case = BY_ID.get(path.stem)
    assert case is not None, f"{path.name} belongs to no case; remove it"
    _, (findings, _) = judged(path)
    judgement = judge(case, msgspec.to_builtins(findings))
    assert judgement.right, f"expected {case.scenarios or 'nothing'}, got {judgement.got}"
    assert judgement.culprit is not False, judgement.wrong
    for finding in findings:
        code, rule = ROWS[finding.rule]
        assert finding.code == code
        assert finding.scenario in rule.aliases.split() or not rule.aliases
    for spoken, kept in KEPT.items():
        assert words_of(path, spoken) == kept[path.stem], (
            "are the words meant to be new? python -m tests.scenarios.words"
        )


def test_no_words_are_kept_of_a_recording_that_is_gone() -> None:
    names = {path.stem for path in RECORDINGS}
    assert all(set(kept) == names for kept in KEPT.values())


@pytest.mark.parametrize(
    ("name", "scenario", "before"),
    [("s36_slow_first", "S36", "S20"), ("s39_full", "S39", "S39"), ("s40_exhausted", "S40", "S40")],
)
def test_a_warning_that_came_true_is_one_alert(name: str, scenario: str, before: str) -> None:
    _, (findings, _) = judged(FOLDER / f"{name}{recording.SUFFIX}")
    (alert,) = [finding for finding in findings if finding.severity != "info"]
    (folded,) = alert.folded
    assert (alert.scenario, folded.scenario) == (scenario, before)
    assert folded.warned_s is not None
    assert folded.warned_s > 0
    assert alert.code != folded.code


def test_recordings_are_small() -> None:
    sizes = {path.name: path.stat().st_size for path in RECORDINGS}
    assert sizes, f"there are no recordings in {FOLDER}"
    assert max(sizes.values()) <= MOST_BYTES
    assert sum(sizes.values()) <= 10_000_000


def test_recordings_name_no_machine() -> None:
    for path in RECORDINGS:
        for envelope in recording.load(path).decoded():
            assert envelope.host.name == "host-1"
            assert envelope.host.boot_id is None
