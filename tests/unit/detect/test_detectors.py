"""The tables of rules: whole, and the same as catalogues, docs and what findings carry."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest

import loaderwatch.detect
from loaderwatch.cli.rules import all_thresholds, thresholds_of
from loaderwatch.detect.detectors import FAMILIES, all_rules
from loaderwatch.detect.incidents.explained_findings import EXPLANATIONS
from loaderwatch.detect.incidents.tracker import HYSTERESIS
from loaderwatch.texts import LANGUAGES, catalogue
from tests.docs import rules as documented

ROWS = {rule.id: rule for _, rule in all_rules()}
SCENARIOS = re.compile(r"(S\d\d( S\d\d)*)?")


def test_a_rule_has_one_row() -> None:
    ids = [rule.id for _, rule in all_rules()]
    assert sorted(set(ids)) == sorted(ids)
    assert all(SCENARIOS.fullmatch(rule.aliases) for _, rule in all_rules())


@pytest.mark.parametrize("language", LANGUAGES)
def test_each_rule_has_a_message(language: str) -> None:
    assert [rule.id for _, rule in all_rules() if rule.id not in catalogue(language)] == []


def test_a_detector_is_in_one_family() -> None:
    detectors = [detector for family in FAMILIES for detector in family.detectors]
    assert len(set(detectors)) == len(detectors)


def test_tables_about_families_name_families() -> None:
    codes = {family.code for family in FAMILIES}
    named = {code for row in EXPLANATIONS for code in (row.cause, row.effect)}
    assert named <= codes
    assert HYSTERESIS.keys() <= codes


@pytest.mark.parametrize("row", EXPLANATIONS, ids=lambda row: f"{row.cause}-{row.effect}")
def test_an_explanation_is_of_scenarios_of_its_families(row: object) -> None:
    assert isinstance(row, type(EXPLANATIONS[0]))
    of_family = {
        family.code: {alias for rule in family.rules for alias in rule.aliases.split()} for family in FAMILIES
    }
    assert set(row.causes.split()) <= of_family[row.cause]
    assert set(row.effects.split()) <= of_family[row.effect]


def written() -> Iterator[tuple[str, str]]:
    """Yield the rule and the scenario of each call in the detectors that writes out both."""
    for path in sorted(Path(loaderwatch.detect.__file__).parent.rglob("*.py")):
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(call, ast.Call) or getattr(call.func, "id", "") == "Rule":
                continue
            values = [
                *call.args[:2],
                *(each.value for each in call.keywords if each.arg in ("rule", "scenario")),
            ]
            texts = [each.value for each in values if isinstance(each, ast.Constant)]
            rules = [text for text in texts if isinstance(text, str) and text in ROWS]
            scenarios = [text for text in texts if isinstance(text, str) and re.fullmatch(r"S\d\d", text)]
            yield from product(rules, scenarios)


def test_a_rule_writes_the_scenario_of_its_row() -> None:
    pairs = set(written())
    assert len(pairs) > 60
    assert [pair for pair in pairs if pair[1] not in ROWS[pair[0]].aliases.split()] == []


def test_thresholds_have_a_unit_and_a_source() -> None:
    assert all(each.unit and each.source for each in all_thresholds().values())
    stalled = next(rule for _, rule in all_rules() if rule.id == "optimizer-slowed-down")
    named = {each.name for each in thresholds_of(stalled.find)}
    assert {"SLOWED_FACTOR", "MODEL_GREW_RATIO", "input_warning_ratio"} <= named, (
        "own, called and shared ones"
    )


def test_the_docs_have_every_rule() -> None:
    document = documented.FILE.read_text(encoding="utf-8")
    assert documented.text(document) == document, "run `make docs`"
    assert set(documented.BLOCK.findall(document)) == {"explanations", *(f.code for f in FAMILIES)}
