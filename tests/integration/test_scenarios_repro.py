"""The repro of "training stalls every few steps": its settings played and compared, C given to doctor."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import repro
from loaderwatch.server.recordings import recording
from tests.scenarios.cases import Case, in_group
from tests.scenarios.judge import judge
from tests.scenarios.play import play

CASES = in_group(repro.GROUP)
FOLDER = Path(__file__).resolve().parents[1] / "scenarios" / "recordings"


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("case", [case for case in CASES if not case.audit], ids=lambda case: case.id)
def test_the_bottleneck_is_named(case: Case, tmp_path: Path) -> None:
    """One at a time: each needs both CPUs."""
    outcome = play([case], tmp_path)[case.id]
    judgement = judge(outcome.case, outcome.findings)
    assert judgement.exact, (judgement.wrong, outcome.report())


@pytest.mark.slow
@pytest.mark.parametrize("case", [case for case in CASES if case.audit], ids=lambda case: case.id)
def test_what_cannot_run_is_told_before(case: Case) -> None:
    asked = repro.audit(case)
    assert asked.right, asked
    assert "num_workers > 0" in asked.said


def test_what_differs_between_the_settings() -> None:
    runs = {}
    for case in repro.SETTINGS:
        found = repro.facts(recording.load(FOLDER / f"{case}{recording.SUFFIX}").envelopes)
        assert found is not None, case
        runs[case] = found
    a, b, d, one = (runs[case] for case in repro.SETTINGS)
    assert (a.workers, b.workers, d.workers, one.workers) == (0, 4, 8, 8)
    assert all(run.wait_ratio > 0.5 for run in runs.values())
    for run in (a, b, one):
        assert 0.02 < run.reading_cpu_s < 0.04, run
    assert d.threads > 2 * b.threads
    assert d.cpu_s > 2 * one.cpu_s
    assert one.samples_per_s > d.samples_per_s
    said = repro.differences(runs)
    for letter in ("\nA  ", "\nB  ", "\nD  ", "D's advice"):
        assert letter in said
    assert "nan" not in said


def test_settings_that_were_not_played_are_left_out() -> None:
    found = repro.facts(recording.load(FOLDER / f"repro_d{recording.SUFFIX}").envelopes)
    assert found is not None
    said = repro.differences({"repro_d": found})
    assert "\nD  " in said
    assert "\nB  " not in said
    assert repro.facts([]) is None
