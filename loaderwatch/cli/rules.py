"""``loaderwatch rules``: every cause that a finding can name, with its thresholds and what it explains."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Final, TypedDict

from loaderwatch.cli.parser import CommandParser
from loaderwatch.core.errors import ConfigError
from loaderwatch.detect.families import FAMILIES, all_rules
from loaderwatch.detect.incidents.explained_findings import EXPLANATIONS, Explains
from loaderwatch.detect.rule import Family, Rule
from loaderwatch.detect.threshold_table import Threshold, thresholds_of

_HEAD: Final = ("RULE", "SCENARIOS", "STACKS")


class Explained(TypedDict):
    """Findings that a rule explains: their family, their scenarios ("" for all) and under which conditions."""

    family: str
    scenarios: str
    where: list[str]


def prepare_parser(parser: CommandParser) -> None:
    """Add the command's arguments to its parser."""
    parser.add_argument("rules", nargs="*", metavar="RULE")
    parser.add_argument("--json", action="store_true")


def run(args: argparse.Namespace) -> int:
    """Print the rules; return the exit code.

    Raises:
        ConfigError: there is no such rule, family or scenario.
    """
    chosen = _chosen(args.rules)
    if args.json:
        print(json.dumps([_as_json(family, rule) for family, rule in chosen], indent=2))
    else:
        print("\n".join(_lines(chosen, detailed=bool(args.rules))))
    return 0


def _chosen(names: Sequence[str]) -> list[tuple[Family, Rule]]:
    rules = list(all_rules())
    for name in names:
        if not any(name in _names(*each) for each in rules):
            families = ", ".join(family.code for family in FAMILIES)
            raise ConfigError(f"{name}: no rule, family or scenario; families are {families}")
    return [each for each in rules if not names or not _names(*each).isdisjoint(names)]


def _names(family: Family, rule: Rule) -> set[str]:
    return {family.code, rule.id, *rule.aliases.split()}


def explained_by(family: Family, rule: Rule) -> list[Explains]:
    """Return the rows of what findings of a rule explain."""
    return [
        row
        for row in EXPLANATIONS
        if row.cause == family.code
        and (not row.causes or not set(row.causes.split()).isdisjoint(rule.aliases.split()))
    ]


def conditions(row: Explains) -> list[str]:
    """Return the conditions of a row by their names: "same rank"."""
    return [getattr(condition, "__name__", "").replace("_", " ") for condition in row.where]


def _as_json(family: Family, rule: Rule) -> dict[str, object]:
    return {
        "id": rule.id,
        "family": family.code,
        "scenarios": rule.aliases.split(),
        "scope": family.scope,
        "function": f"{rule.find.__module__}.{rule.find.__qualname__}",
        "stacks": rule.stacks,
        "thresholds": [asdict(each) for each in thresholds_of(rule.find)],
        "explains": [
            Explained(family=row.effect, scenarios=row.effects, where=conditions(row))
            for row in explained_by(family, rule)
        ],
    }


def _lines(chosen: Sequence[tuple[Family, Rule]], *, detailed: bool) -> list[str]:
    widths = [max(len(_HEAD[0]), *(len(rule.id) for _, rule in chosen)), 16, 26]
    lines: list[str] = []
    for family in FAMILIES:
        rules = [rule for each, rule in chosen if each is family]
        if not rules:
            continue
        lines += ["", f"{family.code} ({family.scope})", _row(_HEAD, widths)]
        for rule in rules:
            cells = (rule.id, rule.aliases or "-", rule.stacks or "-")
            lines.append(_row(cells, widths))
            if detailed:
                lines += [f"    {_text(each)}" for each in thresholds_of(rule.find)]
                lines += [f"    explains {_explanation(row)}" for row in explained_by(family, rule)]
    return lines[1:]


def _row(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(f"{cell:{width}}" for cell, width in zip(cells, [*widths, 0], strict=False)).rstrip()


def _text(each: Threshold) -> str:
    return f"{each.name} = {each.value} {each.unit}: {each.source}"


def _explanation(row: Explains) -> str:
    return " ".join([row.effect, row.effects, *(f"[{name}]" for name in conditions(row))])
