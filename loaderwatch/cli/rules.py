"""``loaderwatch rules``: every cause that a finding can name, with its thresholds and what it explains."""

from __future__ import annotations

import argparse
import ast
import inspect
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Final, TypedDict

from loaderwatch import detect
from loaderwatch.cli.parser import CommandParser
from loaderwatch.core.errors import ConfigError
from loaderwatch.detect.detectors import FAMILIES, all_rules
from loaderwatch.detect.incidents.explained_findings import EXPLANATIONS, Explains
from loaderwatch.detect.rule import Family, Rule


@dataclass(frozen=True)
class Threshold:
    """One number that a rule compares a measurement with."""

    name: str
    value: str  # as written in the code: "30.0", "2 * 60"
    unit: str
    source: str


@cache
def all_thresholds() -> Mapping[str, Threshold]:
    """Return the thresholds of all detectors by name; a name has the same value everywhere."""
    thresholds: dict[str, Threshold] = {}
    for path in sorted(Path(detect.__file__).parent.rglob("*.py")):
        for name, given in _defined(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(given, ast.Name) and given.id in thresholds:  # a field of ``Limits``
                thresholds[name] = replace(thresholds[given.id], name=name)
            elif isinstance(given, ast.Call) and ast.unparse(given.func) == "threshold":
                value, unit, source = given.args
                thresholds[name] = Threshold(
                    name, ast.unparse(value), ast.literal_eval(unit), ast.literal_eval(source)
                )
    return thresholds


def thresholds_of(function: Callable[..., object]) -> list[Threshold]:
    """Return the thresholds that a function uses, directly or through other functions of the detectors."""
    names: dict[str, None] = {}
    seen: set[object] = set()
    waiting: list[object] = [inspect.unwrap(function)]
    while waiting:
        called = waiting.pop()
        if called in seen or not isinstance(called, FunctionType):
            continue
        seen.add(called)
        known = [each for each in vars(sys.modules[called.__module__]).values() if _is_ours(each)]
        for name in _names_in(called.__code__):
            names[name] = None
            waiting += [member for each in known for member in _members(each, name)]
    every = all_thresholds()
    return [every[name] for name in every if name in names]


def _is_ours(known: object) -> bool:
    module = known.__name__ if isinstance(known, ModuleType) else getattr(known, "__module__", None)
    return isinstance(module, str) and module.startswith(detect.__name__)


def _members(known: object, name: str) -> Iterator[object]:
    """Yield the functions of this name: ``known`` itself, or a member of a known module or class."""
    if isinstance(known, FunctionType) and known.__name__ == name:
        yield known
    elif isinstance(known, ModuleType | type):
        member = vars(known).get(name)
        yield getattr(member, "func", None) or getattr(member, "fget", None) or member


def _names_in(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names_in(constant)


def _defined(tree: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.AnnAssign) and node.value is not None:
            yield ast.unparse(node.target), node.value


_HEAD: Final = ("RULE", "SCENARIOS", "STACKS")


class Explained(TypedDict):
    """Findings that a rule explains: their family, their scenarios ("" for all) and the conditions."""

    family: str
    scenarios: str
    where: list[str]


def prepare_parser(parser: CommandParser) -> None:
    """Add the command's arguments to its parser."""
    parser.add_argument("rules", nargs="*", metavar="RULE")
    parser.add_argument("--thresholds", action="store_true")
    parser.add_argument("--json", action="store_true")


def run(args: argparse.Namespace) -> int:
    """Print the rules; return the exit code.

    Raises:
        ConfigError: there is no such rule, family or scenario.
    """
    if args.thresholds and not args.rules:
        print(_all_thresholds(as_json=args.json))
        return 0
    chosen = _chosen(args.rules)
    if args.json:
        print(json.dumps([_as_json(family, rule) for family, rule in chosen], indent=2))
    else:
        print("\n".join(_lines(chosen, detailed=bool(args.rules))))
    return 0


def _all_thresholds(*, as_json: bool) -> str:
    every = all_thresholds().values()
    return json.dumps([asdict(each) for each in every], indent=2) if as_json else "\n".join(map(_text, every))


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
