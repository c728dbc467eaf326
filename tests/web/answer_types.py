"""Writes ``web/js/types.js`` from ``loaderwatch.core.answers``: ``make types``."""

from __future__ import annotations

import re
import sys
import types
import typing
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Literal, get_args, get_origin

import msgspec

from loaderwatch.core import answers, message

FILE: Final = Path(__file__).resolve().parents[2] / "web" / "js" / "types.js"
PLAIN: Final = {
    str: "string",
    int: "number",
    float: "number",
    bool: "boolean",
    type(None): "null",
}
HEAD: Final = """\
/**
 * The answers of the HTTP API as types. Generated from loaderwatch/core/answers/ by `make types`.
 *
"""
PARAM: Final = get_args(typing.get_type_hints(answers.Text)["params"])[1]
"""A value in a message. It may be a text, which has such values itself, so it needs a name of its own."""
WIDTH: Final = 110
LINE: Final = " * "


def script() -> str:
    """Return the text of ``types.js``: a typedef for each literal type and each struct, in their order."""
    lines = []
    for name, value in vars(answers).items():
        if get_origin(value) is Literal:
            lines += _wrapped(name, [f'"{word}"' for word in get_args(value)], "|", "")
        elif name == "Param":
            lines += _wrapped(name, _parts(PARAM), "|", "")
        elif (
            isinstance(value, type)
            and issubclass(value, msgspec.Struct)
            and value.__module__.startswith((f"{answers.__name__}.", message.__name__))
        ):
            hints = typing.get_type_hints(value)
            fields = [f"{field}: {_type(hints[field])}" for field in value.__struct_fields__]
            lines += _wrapped(name, fields, ", ", "{}")
    return HEAD + "\n".join(lines) + "\n */\nexport {};\n"


def _wrapped(name: str, parts: list[str], between: str, braces: str) -> list[str]:
    """Return the typedef in lines of at most WIDTH characters."""
    lines, line = [], f"{LINE}@typedef {{{braces[:1]}"
    for number, part in enumerate(parts):
        last = number == len(parts) - 1
        piece = part + (f"{braces[1:]}}} {name}" if last else between)
        fits = len(f"{LINE}  {piece}".rstrip()) <= WIDTH
        for bit in [piece] if fits else re.split(r"(?<=\|)", piece):
            if len((line + bit).rstrip()) > WIDTH:
                lines.append(line.rstrip())
                line = f"{LINE}  "
            line += bit
    return [*lines, line]


def _type(hint: Any) -> str:
    if hint in PLAIN:
        return PLAIN[hint]
    if hint == PARAM:
        return "Param"
    origin = get_origin(hint)
    if origin is dict:
        return f"Object<string, {_type(get_args(hint)[1])}>"
    if origin in (list, Sequence):
        inner = _type(get_args(hint)[0])
        return f"({inner})[]" if "|" in inner and not inner.endswith("]") else f"{inner}[]"
    if origin is Literal:
        alias = next((name for name, value in vars(answers).items() if value == hint), None)
        return alias or "|".join(f'"{word}"' for word in get_args(hint))
    if origin in (types.UnionType, typing.Union):
        return "|".join(_parts(hint))
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return hint.__name__
    raise TypeError(f"no JavaScript type is known for {hint!r}; add it to {__file__}")


def _parts(union: Any) -> list[str]:
    return list(dict.fromkeys(_type(part) for part in get_args(union)))


if __name__ == "__main__":
    FILE.write_text(script(), encoding="utf-8")
    sys.stdout.write(f"{FILE}\n")
