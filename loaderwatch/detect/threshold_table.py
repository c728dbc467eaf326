"""The thresholds of a rule, with unit and source, read from the source code of the detectors."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType


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
    for path in sorted(Path(__file__).parent.rglob("*.py")):
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
    """Return the thresholds that a function uses, directly or through other functions of its module."""
    names: dict[str, None] = {}
    seen: set[object] = set()
    waiting: list[object] = [inspect.unwrap(function)]
    while waiting:
        called = waiting.pop()
        if called in seen or not isinstance(called, FunctionType):
            continue
        seen.add(called)
        known = vars(sys.modules[called.__module__])
        for name in _names(called.__code__):
            names[name] = None
            other = known.get(name)
            if getattr(other, "__module__", None) == called.__module__:
                waiting.append(other)
    every = all_thresholds()
    return [every[name] for name in every if name in names]


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _defined(tree: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.AnnAssign) and node.value is not None:
            yield ast.unparse(node.target), node.value
