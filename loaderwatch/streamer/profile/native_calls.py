"""Names the native function that a line of Python has called, such as ``torch.cat``.

Functions in C, C++ or Rust have no Python frame. The instruction that calls one has a position in the source
(PEP 657). The text there is a call, and its head names the function: ``np.stack(parts)`` is "numpy.stack".
"""

from __future__ import annotations

import ast
import os
import re
import stat
from dataclasses import dataclass
from typing import Final

MOST_SOURCE: Final = 1 << 20
"""Bytes of the largest source file that is read."""
MOST_CALL: Final = 1 << 14
"""Bytes of the longest text of a call that is parsed."""
MOST_NAME: Final = 100
_FLAGS: Final = os.O_RDONLY | sum(
    getattr(os, name, 0) for name in ("O_NONBLOCK", "O_NOCTTY", "O_CLOEXEC", "O_BINARY")
)
"""A pipe or terminal neither blocks nor takes over. Windows has other flags."""
_IMPORT: Final = re.compile(
    r"^[ \t]*(?:from[ \t]+(?P<module>[\w.]+)[ \t]+)?import[ \t]+(?P<names>\([^)]*\)|[^\n#;]*)", re.MULTILINE
)
_COMMENT: Final = re.compile(r"#[^\n]*")
_NAMED: Final = re.compile(r"(?P<name>[\w.]+)(?:\s+as\s+(?P<alias>\w+))?")


@dataclass(frozen=True, slots=True)
class Location:
    """Where an instruction stands in its source: lines from 1 on, columns in bytes from 0 on.

    ``last_line`` and ``last_column`` are the end, exclusive. Columns are -1 if Python did not keep them.
    """

    line: int
    last_line: int
    column: int
    last_column: int


def native_call(pid: int, file: str, location: Location, since_s: float) -> str | None:
    """Return the name of the function that is called at a location; None if no call is found there.

    Args:
        pid: the process whose working directory a relative file is in.
        file: the source file as the code names it.
        location: of the instruction that runs.
        since_s: a file that has changed since this time (s UTC) does not count: the code may be older.
    """
    if location.column < 0 or file.startswith("<"):
        return None
    source = _source(os.path.join(f"/proc/{pid}/cwd", file), since_s)  # noqa: PTH118 - may be absolute
    text = None if source is None else _text_at(source, location)
    name = None if text is None else _callee(text)
    if source is None or name is None:
        return None
    root, *rest = name.split(".")
    name = ".".join([_imported(source).get(root, root), *rest])
    return name if len(name) <= MOST_NAME else None


def _source(path: str, since_s: float) -> str | None:
    """Return a source file's text with line ends of one byte; None if it cannot be read or is too new."""
    try:
        number = os.open(path, _FLAGS)
    except (OSError, ValueError):
        return None
    try:
        found = os.fstat(number)
        if not stat.S_ISREG(found.st_mode) or found.st_size > MOST_SOURCE or found.st_mtime >= since_s:
            return None
        return os.read(number, MOST_SOURCE).decode().replace("\r\n", "\n")
    except (OSError, UnicodeDecodeError):
        return None
    finally:
        os.close(number)


def _text_at(source: str, location: Location) -> str | None:
    lines = source.split("\n")[location.line - 1 : location.last_line]
    if len(lines) != location.last_line - location.line + 1:
        return None
    encoded = [line.encode() for line in lines]
    encoded[-1] = encoded[-1][: location.last_column]
    encoded[0] = encoded[0][location.column :]
    text = b"\n".join(encoded)
    return text.decode(errors="replace") if len(text) <= MOST_CALL else None


def _callee(text: str) -> str | None:
    """Return the dotted name that a call begins with; None if the text is no call of a name."""
    try:
        call = ast.parse(f"({text})", mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    if not isinstance(call, ast.Call):
        return None
    names: list[str] = []
    part = call.func
    while isinstance(part, ast.Attribute):
        names.append(part.attr)
        part = part.value
    if isinstance(part, ast.Name):
        names.append(part.id)
    return ".".join(reversed(names)) or None


def _imported(source: str) -> dict[str, str]:
    """Return what the names stand for that a file imports, by name."""
    known: dict[str, str] = {}
    for statement in _IMPORT.finditer(source):
        module = statement["module"]
        for named in _NAMED.finditer(_COMMENT.sub("", statement["names"]).strip("()")):
            if module is not None and not module.startswith("."):
                known[named["alias"] or named["name"]] = f"{module}.{named['name']}"
            elif module is None and named["alias"]:
                known[named["alias"]] = named["name"]
    return known
