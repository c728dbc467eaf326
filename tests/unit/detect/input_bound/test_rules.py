"""The table of causes: it is whole, and says what the documentation says."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path

import pytest

from loaderwatch.detect.input_bound import rules
from loaderwatch.detect.input_bound.rules import RULES, Rule, explain
from loaderwatch.detect.input_bound.symptoms import Bottleneck, Symptoms
from loaderwatch.detect.measures.machine import cpus_of
from loaderwatch.detect.measures.pace import pace_of
from tests.unit.detect.build import RankBuilder, loader, run


def scenario(rule: Rule) -> str:
    """What a rule explains, by its source."""
    found = re.search(r'scenario="(S\d\d)"', inspect.getsource(rule))
    assert found is not None
    return found[1]


def test_each_bottleneck_has_its_rules() -> None:
    assert set(RULES) == set(Bottleneck)
    assert all(len(set(row)) == len(row) for row in RULES.values())


def test_the_last_rule_of_a_row_always_fits_and_no_other_does() -> None:
    for row in RULES.values():
        always = [rule.__annotations__["return"] == "Explanation" for rule in row]
        assert always == [False] * (len(row) - 1) + [True]


def test_every_rule_is_in_the_table() -> None:
    folder = Path(inspect.getfile(rules)).parent
    written = {
        f"{path.stem}.{node.name}"
        for path in folder.glob("*_causes.py")
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef)
        and [ast.unparse(arg.annotation) for arg in node.args.args if arg.annotation] == ["Symptoms"]
        and ast.unparse(node.returns or ast.Constant(None)).startswith("Explanation")
    }
    assert written == {
        f"{rule.__module__.rpartition('.')[2]}.{getattr(rule, '__name__', '')}"
        for row in RULES.values()
        for rule in row
    }


def test_the_scenario_beside_each_line_is_what_the_rule_says() -> None:
    lines = re.findall(r"^        \w+_causes\.\w+,  # (S\d\d)", inspect.getsource(rules), re.MULTILINE)
    assert lines == [scenario(rule) for row in RULES.values() for rule in row]


def test_the_documentation_gives_the_same_order(repo_root: Path) -> None:
    text = (repo_root / "docs" / "detectors.md").read_text()
    told = re.search(r"For workers that cannot keep up these are (.*?); what is left", text, re.DOTALL)
    assert told is not None
    order = [scenario(rule) for rule in RULES[Bottleneck.WORKERS]]
    assert re.findall(r"S\d\d", told[1]) == order[: order.index("S07")]


@pytest.mark.parametrize(
    ("workers", "ready", "wait_cpu", "bottleneck", "told"),
    [
        (None, 0, 0.0, Bottleneck.OTHER_ITERABLE, "S01"),
        (0, 0, 0.0, Bottleneck.TRAINING_THREAD, "S01"),
        (2, 3, 0.5, Bottleneck.UNPACKING, "S13"),
        (2, 3, 0.0, Bottleneck.HANDOVER, "S14"),
        (2, 0, 0.0, Bottleneck.WORKERS, "S02"),
    ],
)
def test_three_numbers_say_what_the_loop_waits_for(
    workers: int | None, ready: int, wait_cpu: float, bottleneck: Bottleneck, told: str
) -> None:
    rank = RankBuilder(loaders=[loader(num_workers=workers)])
    fetch_s = 0.02 if ready else 0.2
    for number in range(60):
        if workers:
            rank.fetch(number % workers, fetch_s, cpu=0.5)
        rank.step(0.08, 0.02, ready=ready, wait_cpu_ns=int(wait_cpu * 0.08e9))
    window = run(rank, cpus=64)
    watched = window.ranks[0]
    pace = pace_of(watched, watched.process.loaders[0])
    symptoms = Symptoms(window, pace, cpus_of(window, watched))
    assert symptoms.bottleneck is bottleneck
    assert explain(symptoms).scenario == told
