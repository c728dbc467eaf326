"""What a process ended with, in one line: its error and where that came up, and the worker whose death the error does not name."""

from __future__ import annotations

import queue
import signal
from collections.abc import Iterator
from pathlib import Path
from traceback import walk_tb
from types import CodeType
from typing import Final

from loaderwatch.agent.source import is_script
from loaderwatch.core.ending import stopped_by

_ITERATORS: Final = "torch.utils.data.dataloader"

_CUT_OFF: Final = (EOFError, ConnectionError, queue.Empty)
"""What taking a batch raises when its worker is dead: the memory of a batch is fetched from the worker.

PyTorch raises its own error from it ("exited unexpectedly"), unless the worker was only just dying when it looked.
"""


def why_failed(error: BaseException) -> str:
    """Describe the uncaught error that a process ends with.

    "Connection reset by peer" does not say that a worker was killed while it handed over a batch, nor does "exited
    unexpectedly" say by what: both get the dead worker and its signal, in the words that PyTorch has for them.
    """
    text = f"uncaught {describe_error(error)}"
    if not isinstance(error, _CUT_OFF) and not isinstance(error.__cause__, _CUT_OFF):
        return text
    return next((f"{text}, as {told}" for told in _killed_workers(error)), text)


def _killed_workers(error: BaseException) -> Iterator[str]:
    for frame, _ in walk_tb(error.__traceback__):
        if frame.f_globals.get("__name__") != _ITERATORS:
            continue
        for worker in getattr(frame.f_locals.get("self"), "_workers", ()):
            if (worker.exitcode or 0) < 0:
                by = signal.strsignal(-worker.exitcode)
                yield f"DataLoader worker (pid {worker.pid}) is killed by signal: {by}"


def how_ended(
    error: BaseException, step: int, who: str = "", sample: str = "", *, of_sample: bool = True
) -> str:
    """Say in one line what a process ended by, and where: "crashed in step 127: ValueError: no (train.py:40 in main)".

    ``step`` is how many steps it has made. ``who`` names the process where there are several: " on rank 1".
    ``sample`` says which sample raised the error, where one did: "worker 0 failed while reading sample 7: …".
    Where ``of_sample`` is false, the sample raised an error that this one came from, and both are told.
    """
    where = f"{who} in step {step:,}" if step else f"{who} before its first step"
    last_words = (
        f"exit code {error.code}" if isinstance(error, SystemExit) else f"uncaught {describe_error(error)}"
    )
    by = stopped_by(last_words, None)
    if by is not None:
        return f"stopped by {by}{where}"
    if isinstance(error, SystemExit):
        return f"ended with {last_words}{where}"
    if not sample:
        return f"crashed{where}: {describe_error(error)}{_place(error)}"
    return f"crashed{where}: {sample}" + (
        "" if of_sample else f"; then {_describe_one(error)}{_place(error)}"
    )


def _place(error: BaseException) -> str:
    """Return the script's line at which an error came up, and the library's function that raised it, if one did."""
    frames = [(frame.f_code, line) for frame, line in walk_tb(error.__traceback__)]
    if not frames:
        return ""
    script = next((one for one in reversed(frames) if is_script(one[0].co_filename)), None)
    raised, _ = frames[-1]
    if script is None:
        return f" ({_line_of(*frames[-1])})"
    library = "" if script is frames[-1] else f", raised in {getattr(raised, 'co_qualname', raised.co_name)}"
    return f" ({_line_of(*script)}{library})"


def _line_of(code: CodeType, line: int) -> str:
    return f"{Path(code.co_filename).name}:{line} in {code.co_name}"


def describe_error(error: BaseException) -> str:
    """Describe an error in one line, with the error that it was raised from: DataLoader's often says more than its own.

    A worker's error holds its whole traceback; its first and its last line are used.
    """
    own = _describe_one(error)
    return own if error.__cause__ is None else f"{own}, from {_describe_one(error.__cause__)}"[:500]


def _describe_one(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if len(lines) > 1:
        lines = [lines[0], lines[-1]]
    return ": ".join([type(error).__name__, " ".join(lines)] if lines else [type(error).__name__])[:500]
