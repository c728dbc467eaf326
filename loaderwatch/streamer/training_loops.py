"""Which loops a script is in: where a process stands still, they tell whether it would have gone on training, or looks for something."""

from __future__ import annotations

import ast
import functools
import logging
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from loaderwatch.core.facts import Call
from loaderwatch.core.system import TIMER_FUNCTIONS, waits_in

log = logging.getLogger(__name__)

MOST_BYTES: Final = 2_000_000
"""Of a source file; a longer one is data, and reading it would take seconds."""
MOST_LINES: Final = 12
"""Of a ``while`` loop that looks for something again and again; one that trains is longer."""
_MAIN_FRAME: Final = re.compile(r"Current thread[^\n]*\n\s*File \"([^\"]+)\", line (\d+) in ")
Lines = tuple[int, int]


def in_loops(calls: Sequence[Call], cwd: str) -> list[Call]:
    """Return the calls that lie in a loop of their function, each with the lines of the outermost one.

    Args:
        calls: as the agent described them.
        cwd: the process' working directory, to which the name of a file may be relative.
    """
    found = []
    for call in calls:
        around = [lines for lines in _loops(str(Path(cwd, call.file))) if lines[0] <= call.line <= lines[1]]
        if around:
            found.append(Call(file=call.file, function=call.function, line=call.line, loop=min(around)))
    return found


def polls(text: str, pid: int, wchan: str | None) -> bool:
    """Whether a stack, as faulthandler wrote it, has its main thread asleep in a short ``while`` loop of the innermost function.

    Args:
        text: the stack.
        pid: of its process, in whose working directory names of files may be.
        wchan: the kernel function in which that was asked.
    """
    found = _MAIN_FRAME.search(text) if waits_in(TIMER_FUNCTIONS, wchan) else None
    if found is None:
        return False
    line = int(found[2])
    return any(
        first <= line <= last for first, last in _short_whiles(str(Path(f"/proc/{pid}/cwd", found[1])))
    )


@functools.lru_cache(64)
def _loops(file: str) -> tuple[Lines, ...]:
    """Return first and last line of each loop's body and head in a source file; none where it cannot be read."""
    return tuple(map(_lines, _found_in(file, ast.For | ast.AsyncFor | ast.While)))


@functools.lru_cache(64)
def _short_whiles(file: str) -> tuple[Lines, ...]:
    """Return the same of the ``while`` loops that are short, with no other loop and no function in them."""
    loops = (
        loop
        for loop in _found_in(file, ast.While)
        if not any(isinstance(node, _NO_PART) for part in loop.body for node in ast.walk(part))
    )
    return tuple(lines for lines in map(_lines, loops) if lines[1] - lines[0] < MOST_LINES)


_NO_PART: Final = (ast.For, ast.AsyncFor, ast.While, ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_Loop = ast.For | ast.AsyncFor | ast.While


def _lines(loop: _Loop) -> Lines:
    return loop.lineno, loop.body[-1].end_lineno or loop.lineno


def _found_in(file: str, kinds: Any) -> list[Any]:
    """Return the loops of some kinds in a source file; none where it cannot be read."""
    try:
        path = Path(file)
        if path.stat().st_size > MOST_BYTES:
            return []
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError) as error:
        log.info("%s tells of no loops: %s", file, error)
        return []
    return [node for node in ast.walk(tree) if isinstance(node, kinds)]
