"""The table at the demo's end."""

from __future__ import annotations

import json
from pathlib import Path

from loaderwatch.core.answers import Finding, Severity
from loaderwatch.demo.acts import ACTS, Played, outcomes, read_played, table


def finding(scenario: str, began_at: float, severity: Severity = "warning") -> Finding:
    return Finding(
        id="run:1", key="k", code="hung", scenario=scenario, severity=severity, state="resolved",
        confidence=0.9,
        rank=0, host=None, worker=None, pid=None, sample_indices=[], began_at=began_at, ended_at=None,
        title=f"{scenario} happened", cause="", advice="", evidence=[], lost_s=None, gain_ceiling_ratio=None,
        stacks=[],
    )  # fmt: skip


PLAYED = [Played(act, 100.0 + 20 * number, 120.0 + 20 * number) for number, act in enumerate(ACTS)]


def test_each_act_gets_the_findings_that_began_in_it() -> None:
    found = [("S36", 208), ("S02", 121), ("S20", 145), ("S28", 160), ("S26", 190)]
    results = outcomes(PLAYED, [finding(*each) for each in found])
    assert [result.found for result in results] == [(), ("S02",), ("S20",), ("S28",), ("S26",), ("S36",)]
    assert all(result.is_right for result in results)


def test_a_finding_may_begin_with_the_step_before_its_act() -> None:
    results = outcomes(PLAYED, [finding("S02", 119.5)])
    assert (results[0].found, results[1].found) == ((), ("S02",))


def test_a_finding_in_the_healthy_act_is_wrong() -> None:
    assert not outcomes(PLAYED, [finding("S07", 105)])[0].is_right


def test_information_is_not_an_alert() -> None:
    assert outcomes(PLAYED, [finding("S01", 105, severity="info")])[0].is_right


def test_another_cause_than_the_expected_one_is_wrong() -> None:
    assert not outcomes(PLAYED, [finding("S08", 125)])[1].is_right


def test_the_table_has_a_row_for_each_act_and_the_sentence_found() -> None:
    text = table(outcomes(PLAYED[:2], [finding("S08", 125)]))
    assert text.splitlines()[1:] == [
        f"{'A healthy stretch':<38} nothing   nothing      ok",
        f"{'Too few workers':<38} S02       S08          NOT",
        "    S08 happened",
    ]


def test_only_acts_played_to_their_end_are_reported(tmp_path: Path) -> None:
    report = tmp_path / "played.jsonl"
    assert read_played(report) == []
    report.write_text(json.dumps({"act": "hang", "began_at": 1.0, "ended_at": 2.0}) + "\n")
    assert [(played.act.key, played.began_at, played.ended_at) for played in read_played(report)] == [
        ("hang", 1.0, 2.0)
    ]
