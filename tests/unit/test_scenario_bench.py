"""The benchmark's own bookkeeping: every script is played, and counts equal the findings."""

from __future__ import annotations

import unittest
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import diagnosis
from benchmarks.crowding import Crowding
from benchmarks.diagnosis import Row, _row, chosen, failures, numbers, table
from loaderwatch.core.wire import encode
from tests.fakes.runs import SECOND, T0, envelope, steps
from tests.scenarios.cases import CASES, NOT_HERE, Case
from tests.scenarios.judge import judge, waited_s
from tests.scenarios.play import Outcome

TESTS = Path(__file__).resolve().parents[1]


def _finding(scenario: str, **more: Any) -> dict[str, Any]:
    plain = {
        "severity": "warning",
        "code": "input-bound",
        "rank": 0,
        "worker": None,
        "sample_indices": [],
        "began_at": 5.0,
    }
    return {"scenario": scenario, "title": "It waits.", "cause": "Because.", "advice": "Do.", **plain, **more}


def test_every_script_is_a_case_and_every_case_is_played() -> None:
    scripts = {
        path.stem
        for pattern in ("s[0-9]*.py", "n[0-9]*.py", "healthy*.py")
        for path in (TESTS / "scenarios").glob(pattern)
    }
    assert scripts <= {case.script for case in CASES}, "add the script to tests/scenarios/cases.py"
    assert len({case.id for case in CASES}) == len(CASES)
    for case in CASES:
        assert (TESTS / "scenarios" / f"{case.script}.py").exists(), case.id
        assert (TESTS / "integration" / f"test_scenarios_{case.group}.py").exists(), (
            f"{case.id}: no test plays it"
        )


def test_cases_are_chosen_by_scenario_group_and_id() -> None:
    assert {case.script for case in chosen(["S41"])} == {
        "s41_actor_dead",
        "s41_lost_message",
        "s41_prefetch_thread",
        "s54_dead",
        "s54_generator_dead",
        "s54_polled_dead",
        "s54_simple_queue_dead",
        "s54_swallowed",
    }
    assert all(case.group == "healthy" for case in chosen(["healthy"]) if case.id != "healthy")
    with pytest.raises(SystemExit, match="S99"):
        chosen(["S20", "S99"])


def test_a_verdict_is_right_only_without_others() -> None:
    case = Case("s20_slow_sample", ("S20",), worker=(0, 1), samples=(333,), says=("waits",))
    right = _finding("S20", worker=1, sample_indices=[333])
    assert judge(case, [right]).exact
    assert judge(case, [right, _finding("S21", severity="info")]).exact
    both = judge(case, [_finding("S21"), right])
    assert (both.got, both.right, both.culprit) == (("S20", "S21"), False, True)
    twice = judge(case, [right, _finding("S20", worker=1, sample_indices=[333], state="resolved")])
    assert (twice.got, twice.alerts, twice.right) == (("S20",), 2, False), "one cause, one alert"
    other_sample = judge(case, [_finding("S20", worker=1, sample_indices=[7])])
    assert (other_sample.right, other_sample.exact) == (True, False)
    assert other_sample.wrong == ("samples [7], not [333]",)
    assert not judge(case, []).right
    assert judge(Case("healthy"), []).exact
    assert not judge(Case("healthy"), [_finding("S07")]).right


def test_the_time_counts_from_the_end_of_the_second_long_wait() -> None:
    waits = np.array([3.0, 0.0, 0.0, 0.4, 0.0, 0.5, 0.0, 0.5])  # the very first one is a start
    begins = T0 + np.arange(8) * SECOND
    sent = [
        encode(envelope(1, tables={"steps": steps(0, begins, (waits * SECOND).astype(int), SECOND // 50)}))
    ]
    second_over = T0 / 1e9 + 3.4
    assert waited_s("S20", _finding("S20"), second_over + 2, sent, 6.0) == pytest.approx(2.0, abs=1e-6)
    assert waited_s("S36", _finding("S36", code="hung"), 12.0, sent, 6.0) == pytest.approx(1.0)
    assert waited_s("S37", _finding("S37", code="crashed"), 7.0, sent, 6.0) == pytest.approx(2.0)
    assert waited_s("S40", _finding("S40"), 12.0, sent, 6.0) is None
    assert waited_s("S20", _finding("S20"), 12.0, [], 6.0) is None
    assert waited_s("S26", _finding("S26", rule="steps-grow"), 12.0, sent, 6.0) is None


def test_a_script_that_cannot_show_its_stall_on_this_machine_is_skipped() -> None:
    case = next(case for case in CASES if case.id == "s26_denormals")
    outcome = Outcome(case, exit_code=NOT_HERE, output="one\nthis CPU computes as fast with denormals\n")
    with pytest.raises(unittest.SkipTest, match="this CPU"):
        outcome.found()
    row = _row(outcome, 6.0)
    assert (row.not_here, row.fault) == ("this CPU computes as fast with denormals", "")


def test_findings_that_count_looks_have_more_time() -> None:
    case = Case("s26_posted", ("S26",))
    found = judge(case, [_finding("S26")])
    rows = [Row(case, found, 12.0, 20.0, "", "", rule=rule) for rule in ("answers-awaited-in-steps", "slow")]
    assert [row.late for row in rows] == [False, True]


def test_precision_and_recall_count_what_people_were_told() -> None:
    def row(case: Case, *found: str) -> Row:
        return Row(case, judge(case, [_finding(each) for each in found]), 2.0, 20.0, "", "")

    rows = [
        row(Case("s02", ("S02",)), "S02"),
        row(Case("s08", ("S08",)), "S07"),
        row(Case("s36", ("S36",), name="s36_b"), "S36", "S21"),
        row(Case("healthy")),
        row(Case("n01"), "S43"),
    ]
    result = numbers(rows, ["S03"])
    assert result["precision"] == pytest.approx(2 / 5)
    assert result["recall"] == pytest.approx(2 / 3, abs=1e-3)
    assert (result["scenarios_exact"], result["scenarios_played"]) == (1, 3)
    assert (result["pages_without_fault"], result["runs_without_fault"]) == (1, 2)
    shown = table(rows, ["S03"])
    assert "S07 !" in shown
    assert "(no script)" in shown


def test_the_bench_fails_for_what_is_wrong_or_late_and_says_which() -> None:
    def row(case: Case, *found: str, waited: float | None = 1.0, crowded: float | None = 0.1) -> Row:
        judgement = judge(case, [_finding(each) for each in found])
        return Row(case, judgement, waited, 20.0, "", "", code="hung", crowded=crowded)

    assert failures([row(Case("s36", ("S36",)), "S36"), row(Case("healthy"), waited=None)]) == []
    assert failures([row(Case("s36", ("S36",)), "S22")]) == ["s36: expected S36, got S22"]
    assert failures([row(Case("s36", ("S36",)))]) == ["s36: expected S36, got nothing"]
    assert failures([row(Case("n01"), "S43")]) == ["n01: expected nothing, got S43"]
    assert failures([row(Case("s36", ("S36",)), "S36", waited=3.4)]) == ["s36: late: 3.4 s"]
    assert failures([row(Case("s36", ("S36",)), "S36", waited=3.4, crowded=None)]) == ["s36: late: 3.4 s"]
    assert failures([row(Case("s36", ("S36",)), "S36", waited=3.4, crowded=0.8)]) == [], "the machine's fault"


def test_a_late_row_is_played_again_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    played: list[tuple[list[str], int]] = []

    def play(cases: list[Case], folder: Path, jobs: int, *_: Any) -> list[Row]:
        played.append(([case.id for case in cases], jobs))
        late_s = 9.0 if len(played) == 2 else 2.0
        return [
            Row(
                case,
                judge(case, [_finding("S36")]),
                late_s if case.id == "s36" else 1.0,
                20.0,
                "",
                "",
                "hung",
            )
            for case in cases
        ]

    monkeypatch.setattr(diagnosis, "_play", play)
    cases = [
        Case("s36", ("S36",), "input"),
        Case("s36_b", ("S36",), "input"),
        Case("s36_c", ("S36",), "hung"),
    ]
    rows = diagnosis.play_all(cases, tmp_path, 2)
    assert played == [(["s36_c"], 8), (["s36", "s36_b"], 2), (["s36"], 1)]
    assert [row.case.id for row in rows] == ["s36", "s36_b", "s36_c"]
    assert [row.waited_s for row in rows] == [2.0, 1.0, 1.0]


def test_crowding_is_the_time_in_which_a_task_waited_for_a_cpu(tmp_path: Path) -> None:
    pressure = tmp_path / "cpu"
    pressure.write_text("some avg10=0.00 avg60=0.00 avg300=0.00 total=1000\nfull avg10=0.00 total=0\n")
    crowding = Crowding(pressure)
    assert crowding.ratio() == 0
    pressure.write_text("some avg10=0.00 avg60=0.00 avg300=0.00 total=900001000\n")
    assert crowding.ratio() == 1
    assert Crowding(tmp_path / "none").ratio() is None
