"""Writes the tables of rules in ``docs/detectors.md`` from the families of rules.

Run it with ``python -m tests.docs.rules``, or ``make docs``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from loaderwatch.cli.rules import conditions
from loaderwatch.detect.detectors import FAMILIES
from loaderwatch.detect.incidents.explained_findings import EXPLANATIONS
from loaderwatch.detect.rule import Family

FILE: Final = Path(__file__).resolve().parents[2] / "docs" / "detectors.md"
BLOCK: Final = re.compile(r"<!-- generated: ([a-z-]+) -->\n.*?<!-- end -->\n", re.DOTALL)


def text(document: str) -> str:
    """Return the document with its generated tables as they should be."""
    return BLOCK.sub(lambda block: _block(block[1]), document)


def _block(name: str) -> str:
    family = next((each for each in FAMILIES if each.code == name), None)
    table = _explanations() if family is None else _rules(family)
    return f"<!-- generated: {name} -->\n{table}<!-- end -->\n"


def _rules(family: Family) -> str:
    rows = ((f"`{rule.id}`", rule.aliases, rule.stacks or "") for rule in family.rules)
    return table(("rule", "scenario", "stacks"), rows)


def _explanations() -> str:
    rows = (
        (_who(row.cause, row.causes), _who(row.effect, row.effects), ", ".join(conditions(row)))
        for row in EXPLANATIONS
    )
    return table(("the alert", "explains", "where"), rows)


def _who(family: str, scenarios: str) -> str:
    return f"`{family}` {scenarios}".rstrip()


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """Return a table in Markdown."""
    lines = [head, ("---",) * len(head), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


if __name__ == "__main__":
    FILE.write_text(text(FILE.read_text(encoding="utf-8")), encoding="utf-8")
