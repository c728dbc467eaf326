"""The script's own source: which files and stack frames belong to the script, and what its text contains."""

from __future__ import annotations

import ast
import functools
import itertools
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Final

from loaderwatch.core.facts import Call

PASSING: Final = ("tqdm", "rich", "alive_progress", "fastprogress")
"""Packages that only forward an iteration: the script around them counts as the code that iterates."""
MOST_BYTES: Final = 2_000_000  # of one file
MOST_CALLS: Final = 64
_ELSEWHERE: Final = (
    "<",  # no file
    str(Path(__file__).parents[1]),  # loaderwatch
    *(sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib")),
)


def is_ours(frame: FrameType) -> bool:
    """Whether a frame belongs to loaderwatch, torch or the code that runs the script."""
    module = str(frame.f_globals.get("__name__", ""))
    return module.startswith(("loaderwatch.", "torch.", "runpy")) or frame.f_code.co_filename.startswith(
        "<frozen"
    )


def frames_outside(thread: int | None = None) -> Iterator[FrameType]:
    """The stack frames of the script and of libraries, innermost first; ``thread`` None: of this thread."""
    frame = sys._getframe(1) if thread is None else sys._current_frames().get(thread)
    while frame is not None:
        if not is_ours(frame):
            yield frame
        frame = frame.f_back


@functools.lru_cache(1024)
def is_script(file: str) -> bool:
    """Whether a file is the user's own code: neither installed nor part of Python."""
    parts = Path(file).parts
    return (
        not {"site-packages", "dist-packages"} & set(parts)
        and not file.startswith(_ELSEWHERE)
        and file.endswith(".py")
    )


def calls_outside(thread: int | None = None, *, columns: bool = False) -> list[Call]:
    """The calls on a thread's stack from the script's outermost call on, outermost first.

    There are at most ``MOST_CALLS``. ``columns`` adds the column of each call where Python knows it.

    The code that runs the script (a notebook's kernel, a job's worker, pytest) has loops of its own that do
    not train. If no frame belongs to a script, a framework's own command runs and all of its calls count.
    """
    frames = [
        frame for frame in frames_outside(thread) if not frame.f_code.co_filename.startswith(_ELSEWHERE)
    ]
    frames.reverse()
    begin = next((at for at, frame in enumerate(frames) if is_script(frame.f_code.co_filename)), 0)
    return [
        Call(
            file=frame.f_code.co_filename,
            function=frame.f_code.co_name,
            line=frame.f_lineno,
            column=_column(frame) if columns else None,
        )
        for frame in frames[begin : begin + MOST_CALLS]
    ]


def _column(frame: FrameType) -> int | None:
    """Return the column at which a frame's current call begins; None before Python 3.11."""
    positions = getattr(frame.f_code, "co_positions", None)
    if positions is None:
        return None
    position = next(itertools.islice(positions(), frame.f_lasti // 2, None), None)
    return None if position is None or position[0] != frame.f_lineno else position[2]


def line_outside() -> str | None:
    """Return file and line of the script's innermost frame; of a library's if no script is on the stack."""
    frames = list(frames_outside())
    frame = next(
        (script for script in frames if is_script(script.f_code.co_filename)), frames[0] if frames else None
    )
    return None if frame is None else f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"


def iterates_itself() -> bool:
    """Whether the script's own code iterates now, not a framework's."""
    for frame in frames_outside():
        if is_script(frame.f_code.co_filename):
            return True
        if str(frame.f_globals.get("__name__", "")).split(".")[0] not in PASSING:
            return False
    return False


def source_names(script: str, word: str) -> bool:
    """Whether the script or one of its own loaded modules contains a word."""
    files = {script, *(str(getattr(module, "__file__", None) or "") for module in list(sys.modules.values()))}
    return any(word in _text(file) for file in files if is_script(file))


def has_main_guard(script: str) -> bool | None:
    """Whether the script has ``if __name__ == "__main__":``; None when it cannot be read."""
    try:
        tree = ast.parse(Path(script).read_text("utf-8"))
    except (OSError, SyntaxError, ValueError):
        return None
    tests = (ast.unparse(node.test) for node in tree.body if isinstance(node, ast.If))
    return any("__name__" in test and "__main__" in test for test in tests)


def _text(file: str) -> str:
    try:
        with Path(file).open(encoding="utf-8", errors="replace") as opened:
            return opened.read(MOST_BYTES)
    except OSError:
        return ""
