"""Which loops a training script is in: where a process stands still, they tell whether it would have gone on training."""

from __future__ import annotations

import ast
import functools
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from loaderwatch.core.facts import Call

log = logging.getLogger(__name__)

MOST_BYTES: Final = 2_000_000
"""Of a source file; a longer one is data, and reading it would take seconds."""
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


@functools.lru_cache(64)
def _loops(file: str) -> tuple[Lines, ...]:
    """Return first and last line of each loop's body and head in a source file; none where it cannot be read."""
    try:
        path = Path(file)
        if path.stat().st_size > MOST_BYTES:
            return ()
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError) as error:
        log.info("%s tells of no loops: %s", file, error)
        return ()
    loops = [node for node in ast.walk(tree) if isinstance(node, ast.For | ast.AsyncFor | ast.While)]
    return tuple((loop.lineno, loop.body[-1].end_lineno or loop.lineno) for loop in loops)
