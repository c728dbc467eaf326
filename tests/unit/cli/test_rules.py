"""``loaderwatch rules``."""

from __future__ import annotations

import json

import pytest

from loaderwatch.cli import main
from loaderwatch.cli.rules import thresholds_of
from loaderwatch.detect.detectors import all_rules


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["rules", *arguments]) == 0
    return capsys.readouterr().out


def test_every_rule_has_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    first_words = {line.split()[0] for line in printed(capsys).splitlines() if line}
    assert {rule.id for _, rule in all_rules()} <= first_words


def test_a_rule_with_its_thresholds_and_what_it_explains(capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(capsys, "garbage-collector-in-steps").splitlines()
    assert lines[0] == "slow-step (rank)"
    assert lines[2].split()[:2] == ["garbage-collector-in-steps", "S25"]
    assert any(line.startswith("    COLLECTOR_PART = 0.5 ratio: chosen: ") for line in lines)
    assert "    explains slow-step S48 [cause alerts] [same rank]" in lines


@pytest.mark.parametrize(
    ("name", "families"), [("S14", {"input-bound", "slow-step"}), ("headroom", {"headroom"})]
)
def test_a_family_and_a_scenario_name_their_rules(
    name: str, families: set[str], capsys: pytest.CaptureFixture[str]
) -> None:
    rules = json.loads(printed(capsys, "--json", name))
    assert {rule["family"] for rule in rules} == families
    assert all(name in (rule["family"], *rule["scenarios"]) for rule in rules)


def test_json_has_thresholds_with_unit_and_source(capsys: pytest.CaptureFixture[str]) -> None:
    (rule,) = json.loads(printed(capsys, "--json", "optimizer-slowed-down"))
    assert (rule["scenarios"], rule["scope"], rule["stacks"]) == (["S26"], "rank", "longer step")
    threshold = next(each for each in rule["thresholds"] if each["name"] == "SLOWED_FACTOR")
    assert (threshold["value"], threshold["unit"]) == ("2.0", "factor")
    assert threshold["source"].startswith("chosen: ")
    assert {"family": "slow-step", "scenarios": "S48", "where": ["cause alerts", "same rank"]} in rule[
        "explains"
    ]


def test_every_threshold_is_listed_and_most_of_them_with_a_rule(capsys: pytest.CaptureFixture[str]) -> None:
    listed = {each["name"] for each in json.loads(printed(capsys, "--thresholds", "--json"))}
    of_rules = {each["name"] for rule in json.loads(printed(capsys, "--json")) for each in rule["thresholds"]}
    assert of_rules < listed
    assert len(of_rules) > 0.8 * len(listed)
    assert {"SURE_FOR_S", "PROVEN_PART", "input_warning_ratio"} <= listed
    assert "SURE_FOR_S = 15.0 s: chosen: " in printed(capsys, "--thresholds")


def test_thresholds_are_found_through_other_modules_and_properties() -> None:
    rules = {rule.id: rule.find for _, rule in all_rules()}
    names = {each.name for each in thresholds_of(rules["too-few-workers"])}
    assert "LATENCY_CPU_RATIO" in names, "a shared one"
    assert "RUNNABLE_RATIO" in names, "behind a property of the symptoms"


def test_an_unknown_name_is_an_error_that_lists_families(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules", "too-few-wokers"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("loaderwatch: too-few-wokers: no rule, family or scenario; families are hung, ")
