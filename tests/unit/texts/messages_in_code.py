"""The messages that the code names, with the parameters given in the same call."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

import loaderwatch

PACKAGE: Final = Path(loaderwatch.__file__).parent
NAMING: Final = {"Text", "in_own_language"}
"""Functions whose first argument is the id of a message."""
_PUT_TOGETHER: Final = re.compile(r"[a-z]{3,}\\-\.\+|\.\+(\\-[a-z]+)+")
SUPERVISOR: Final = "supervisor"
"""The part in which ``say`` takes an id as well."""


@dataclass(frozen=True)
class Named:
    """A message that one call names. ``given`` are its parameters; ``all_given``: there are no others."""

    message: str
    part: str | None
    given: frozenset[str]
    all_given: bool
    where: str


@lru_cache
def named() -> tuple[Named, ...]:
    """Return the messages that calls in the code name."""
    return tuple(
        each
        for path, tree in _modules()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and (each := _named(path, node)) is not None
    )


@lru_cache
def words() -> frozenset[str]:
    """Return every string in the code, among which are the ids that tables of rules hold."""
    return frozenset(
        node.value for node in _nodes() if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


@lru_cache
def made_up() -> re.Pattern[str]:
    """Return what the ids look like that the code puts together, such as ``f"evidence-{name}"``."""
    formats = {
        "".join(
            re.escape(str(each.value)) if isinstance(each, ast.Constant) else ".+" for each in node.values
        )
        for node in _nodes()
        if isinstance(node, ast.JoinedStr)
    }
    return re.compile("|".join(sorted(each for each in formats if _PUT_TOGETHER.fullmatch(each))))


@lru_cache
def _modules() -> tuple[tuple[Path, ast.Module], ...]:
    paths = sorted(PACKAGE.rglob("*.py"))
    return tuple((path, ast.parse(path.read_text(encoding="utf-8"))) for path in paths)


def _nodes() -> Iterator[ast.AST]:
    for _, tree in _modules():
        yield from ast.walk(tree)


def _named(path: Path, call: ast.Call) -> Named | None:
    function = call.func.id if isinstance(call.func, ast.Name) else None
    says = function == "say" and path.parent.name == SUPERVISOR
    if not (function in NAMING or says) or not call.args or not isinstance(call.args[0], ast.Constant):
        return None
    where = f"{path.relative_to(PACKAGE)}:{call.lineno}"
    if function == "Text":
        params, part = [*call.args[1:2]], [*call.args[2:3]]
        given = set(_keys(params[0])) if params else set()
        all_given = None not in given and (not params or isinstance(params[0], ast.Dict))
        named_part = part[0].value if part and isinstance(part[0], ast.Constant) else None
        known_part = not part or isinstance(part[0], ast.Constant)
    else:
        given, named_part, known_part = {each.arg for each in call.keywords}, None, True
        all_given = None not in given
    names = frozenset(name for name in given if name is not None)
    part_name = named_part if isinstance(named_part, str) else None
    return Named(str(call.args[0].value), part_name, names, all_given and known_part, where)


def _keys(params: ast.expr) -> Iterator[str | None]:
    """Yield the keys of a dict; None for what another dict brings in, or is not known here."""
    if not isinstance(params, ast.Dict):
        yield None
        return
    for key in params.keys:
        yield key.value if isinstance(key, ast.Constant) and isinstance(key.value, str) else None
