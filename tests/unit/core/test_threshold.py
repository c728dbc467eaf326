"""A threshold is the plain number that it is defined with, and says where it comes from in a sentence."""

from __future__ import annotations

import ast
from pathlib import Path

from loaderwatch.core.threshold import threshold

DETECT = Path(__file__).resolve().parents[3] / "loaderwatch" / "detect"
MOST_WORDS = 30


def test_a_threshold_is_its_number() -> None:
    assert threshold(3, "steps", "chosen") == 3
    assert isinstance(threshold(2.5, "s", "chosen"), float)


def test_each_has_a_short_unit_and_a_source_of_one_sentence() -> None:
    wrong = []
    for path in sorted(DETECT.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "threshold":
                unit, source = map(ast.literal_eval, node.args[1:])
                if not (
                    0 < len(unit.split()) <= 3 and 0 < len(source.split()) <= MOST_WORDS
                ) or source.endswith("."):
                    wrong.append(f"{path.name}:{node.lineno}: {unit!r}, {source!r}")
    assert wrong == []
