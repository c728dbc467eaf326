"""Reads a script's source around the line where a process is: the loops there, and what the statement is for.

A loop says whether a process that stands still was training or polling. In a training loop, a statement feeds
the model if what it assigns reaches a later call of the model, directly or through other statements.
"""

from __future__ import annotations

import ast
import functools
import logging
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import msgspec

from loaderwatch.core.facts import Call
from loaderwatch.core.system import TIMER_FUNCTIONS, waits_in

log = logging.getLogger(__name__)

MOST_BYTES: Final = 2_000_000
"""The largest source file that is parsed. A larger file is data, and parsing it would take seconds."""
MOST_LINES: Final = 12
"""The longest ``while`` loop that counts as polling. A training loop is longer."""
_MAIN_FRAME: Final = re.compile(r"Current thread[^\n]*\n\s*File \"([^\"]+)\", line (\d+) in ")
_MAIN_THREAD: Final = re.compile(r"^Current thread[^\n]*\n(?:  [^\n]*\n?)*", re.MULTILINE)
_FRAME: Final = re.compile(r'^  File "([^"]+)", line (\d+) in (.+)$', re.MULTILINE)
_SCOPES: Final = ast.FunctionDef | ast.AsyncFunctionDef | ast.Module
_NAMESPACES: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_STATEMENTS: Final = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Expr, ast.For, ast.AsyncFor, ast.Return)
_FILLS: Final = ("copy_", "append", "appendleft", "extend", "put")
"""Methods that put data into the object that they are called on."""
Lines = tuple[int, int]
_Body = Literal["skips", "nothing"] | None
_LOOPS: Final = ast.For | ast.AsyncFor | ast.While
_AnyLoop = ast.For | ast.AsyncFor | ast.While
_YIELDS: Final = (ast.Yield, ast.YieldFrom)


def in_loops(calls: Sequence[Call], cwd: str) -> list[Call]:
    """Return the calls that lie in a loop of their function, each with the lines of the outermost one.

    Only the loop that takes the batches gets a ``body``. It is the first loop around the loader. A loop
    further out counts epochs, unless a generator (a progress bar) yields its batches to that loop or a
    function returns its iterator to it.

    Args:
        calls: the calls from the agent, outermost first.
        cwd: the process's working directory; file names may be relative to it.
    """
    calls_in_loops: list[Call] = []
    # searched: the batch loop is still to come. is_passed: a function without a loop lies in between.
    searched, is_passed = True, False
    for call in reversed(calls):
        loops = _loops(str(Path(cwd, call.file)))
        around = {lines: loop for lines, loop in loops.items() if lines[0] <= call.line <= lines[1]}
        if not around:
            is_passed = True
            continue
        lines = max(around)
        loop = around[lines]
        if call.line > loop.head:
            # An iterator made in a loop's body may be exhausted elsewhere, or next() calls a generator there.
            nested = not calls_in_loops and any(_lies_in(other, lines) for other in loops)
            searched = searched and not is_passed and not nested
        body = loop.body if searched else None
        searched, is_passed = searched and body is None and loop.yields, False
        calls_in_loops.append(msgspec.structs.replace(call, loop=min(around), body=body))
    return calls_in_loops[::-1]


def polls(text: str, pid: int, wchan: str | None) -> bool:
    """Whether the stack's main thread sleeps in a short ``while`` loop of the innermost function.

    Args:
        text: the stack as faulthandler wrote it.
        pid: the process of the stack; file names may be relative to its working directory.
        wchan: the kernel function in which the process was when the stack was taken.
    """
    frame = _MAIN_FRAME.search(text) if waits_in(TIMER_FUNCTIONS, wchan) else None
    if frame is None:
        return False
    line = int(frame[2])
    return any(
        first <= line <= last for first, last in _short_whiles(str(Path(f"/proc/{pid}/cwd", frame[1])))
    )


def feeds_model(text: str, pid: int, model_calls: Sequence[Call]) -> bool:
    """Whether the stack's main thread is at a statement that makes an input of the model.

    Args:
        text: the stack as faulthandler wrote it.
        pid: the process of the stack; file names may be relative to its working directory.
        model_calls: the places that call the model to train, from the agent.
    """
    thread = _MAIN_THREAD.search(text) if model_calls else None
    if thread is None:
        return False
    inner = ""
    for file, line, function in _FRAME.findall(thread[0]):
        called = {
            (call.line, call.column) for call in model_calls if (call.file, call.function) == (file, function)
        }
        if called:
            statements = _statements_of(str(Path(f"/proc/{pid}/cwd", file)), frozenset(called))
            here = [s for s in statements if s.lines[0] <= int(line) <= s.lines[1]]
            # Of several statements on one line, take the one that calls the stack's next function.
            return any(s.feeds for s in [s for s in here if inner in s.calls] or here)
        inner = function
    return False


class _Statement(NamedTuple):
    """A statement of a function in which the model is called."""

    lines: Lines
    feeds: bool  # it makes an input of the model
    calls: frozenset[str]  # names of the functions and methods that it calls


@functools.lru_cache(64)
def _statements_of(file: str, called: frozenset[tuple[int, int | None]]) -> tuple[_Statement, ...]:
    """Return the statements of the function that calls the model there; empty if the file is unreadable."""
    first = min(line for line, _ in called)
    scopes = [node for node in _found_in(file, _SCOPES) if _covers(node, first)]
    nodes = [node for node in _statements(scopes[-1]) if isinstance(node, _STATEMENTS)] if scopes else []
    calling = [node for node in nodes if any(_holds(node, *place) for place in called)]
    needed = {name for node in calling for name in _read(node)}
    feeding: list[Any] = []
    while True:
        others = (node for node in nodes if node not in calling and node not in feeding)
        more = [node for node in others if _is_any_of(_assigned(node), needed)]
        if not more:
            return tuple(
                _Statement((node.lineno, _end(node)), node in feeding, frozenset(_called(node)))
                for node in nodes
            )
        feeding += more
        needed.update(name for node in more for name in _read(node))


def _holds(node: Any, line: int, column: int | None) -> bool:
    """Whether a statement, or the head of a loop, contains a place in the source."""
    if not node.lineno <= line <= _end(node):
        return False
    if column is None:
        return True
    after = (line, column) >= (node.lineno, node.col_offset)
    return after and (line, column) < (node.end_lineno, node.end_col_offset)


def _called(node: Any) -> Iterator[str]:
    """Yield the names of the functions and methods that a statement calls."""
    for call in ast.walk(node):
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name | ast.Attribute):
            yield call.func.id if isinstance(call.func, ast.Name) else call.func.attr


def _covers(scope: Any, line: int) -> bool:
    return isinstance(scope, ast.Module) or scope.lineno <= line <= scope.end_lineno


def _statements(scope: Any) -> Iterator[Any]:
    """Yield the statements of a function or module, without those of nested functions."""
    for node in ast.iter_child_nodes(scope):
        if isinstance(node, ast.stmt | ast.ExceptHandler | ast.match_case) and not isinstance(
            node, _NAMESPACES
        ):
            yield node
            yield from _statements(node)


def _end(node: Any) -> int:
    """Return the last line of a statement; for a loop, the last line of its head."""
    last = node.iter if isinstance(node, ast.For | ast.AsyncFor) else node
    return last.end_lineno or int(node.lineno)


def _read(node: Any) -> set[str]:
    """Return the dotted names that a statement reads; for a loop, those that its head reads."""
    part = node.iter if isinstance(node, ast.For | ast.AsyncFor) else node
    names = {_dotted(n) for n in ast.walk(part) if isinstance(getattr(n, "ctx", None), ast.Load)}
    return names - {""}


def _assigned(node: Any) -> set[str]:
    """Return the dotted names that a statement assigns or fills: ``x.copy_(…)``, ``buffer.append(…)``."""
    if isinstance(node, ast.Expr):
        call: Any = node.value.value if isinstance(node.value, ast.Await) else node.value
        fills = (
            isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr in _FILLS
        )
        return {_dotted(call.func.value)} - {""} if fills else set()
    if isinstance(node, ast.Return):
        return set()
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    stored = {
        _dotted(n.value if isinstance(n, ast.Subscript) else n)
        for target in targets
        for n in ast.walk(target)
        if isinstance(getattr(n, "ctx", None), ast.Store)
    }
    return stored - {""}


def _dotted(node: Any) -> str:
    """Return a name with its attributes, as "self.batch"; "" for other expressions."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        base = _dotted(node.value)
        return f"{base}.{node.attr}" if base else ""
    return ""


def _is_any_of(assigned: set[str], needed: set[str]) -> bool:
    """Whether one of the assigned names, or an attribute of it, is needed."""
    return any(need == name or need.startswith(f"{name}.") for name in assigned for need in needed)


class _Loop(NamedTuple):
    """A loop of a source file."""

    head: int  # the last line of its head
    body: _Body
    yields: bool  # it belongs to a generator and yields within its rounds


@functools.lru_cache(64)
def _loops(file: str) -> dict[Lines, _Loop]:
    """Return a source file's loops by their first and last line; empty if the file is unreadable."""
    return {
        _lines(node): _Loop(
            _head(node), _body(node), any(isinstance(inner, _YIELDS) for inner in ast.walk(node))
        )
        for node in _found_in(file, _LOOPS)
    }


def _head(loop: _AnyLoop) -> int:
    part = loop.test if isinstance(loop, ast.While) else loop.iter
    return part.end_lineno or loop.lineno


def _lies_in(lines: Lines, outer: Lines) -> bool:
    """Whether a loop lies in the body of another one."""
    return outer[0] < lines[0] and lines[1] <= outer[1]


def _body(loop: _AnyLoop) -> _Body:
    """Return what a loop does with some or all of its rounds, judged by its own statements."""
    first, only = loop.body[0], len(loop.body) == 1
    if only and (
        isinstance(first, ast.Pass) or (isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant))
    ):
        return "nothing"
    takes_next = (
        isinstance(first, ast.Expr)
        and isinstance(first.value, ast.Call)
        and ast.unparse(first.value.func) == "next"
    )
    guards = any(isinstance(part, ast.If) and isinstance(part.body[-1], ast.Continue) for part in loop.body)
    return "skips" if guards or (only and takes_next) else None


@functools.lru_cache(64)
def _short_whiles(file: str) -> tuple[Lines, ...]:
    """Return the lines of a file's short ``while`` loops that contain no other loop and no function."""
    loops = (
        loop
        for loop in _found_in(file, ast.While)
        if not any(isinstance(node, _NO_PART) for part in loop.body for node in ast.walk(part))
    )
    return tuple(lines for lines in map(_lines, loops) if lines[1] - lines[0] < MOST_LINES)


_NO_PART: Final = (ast.For, ast.AsyncFor, ast.While, ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def _lines(loop: _AnyLoop) -> Lines:
    return loop.lineno, loop.body[-1].end_lineno or loop.lineno


def _found_in(file: str, kinds: Any) -> list[Any]:
    """Return the nodes of these kinds in a source file; empty if the file is unreadable."""
    try:
        path = Path(file)
        if path.stat().st_size > MOST_BYTES:
            return []
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError) as error:
        log.info("%s tells of no loops: %s", file, error)
        return []
    return [node for node in ast.walk(tree) if isinstance(node, kinds)]
