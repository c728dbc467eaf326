"""The last lines of a run on the job's stderr: its steps, lost time, causes, and what to change first.

Every other second, the streamer writes the server's newest summary beside the ring, so the end need not wait.
"""

from __future__ import annotations

import queue
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from traceback import walk_tb
from types import CodeType
from typing import Final

from loaderwatch.agent.guard import in_own_language, say
from loaderwatch.agent.source import is_script
from loaderwatch.core.ending import killed_worker, stopped_by
from loaderwatch.core.message import Param, Text
from loaderwatch.core.wire import CLOSED_NAME, CLOSING_NAME, QUIET_S, Closing, decode_json

_ITERATORS: Final = "torch.utils.data.dataloader"

_CUT_OFF: Final = (EOFError, ConnectionError, queue.Empty)
"""Errors when the loop takes a batch of a dead worker: the memory of a batch is fetched from the worker.

PyTorch raises its own error from them ("exited unexpectedly"), except if the worker was still dying.
"""


def why_failed(error: BaseException) -> str:
    """Describe the uncaught error that a process ends with.

    "Connection reset by peer" does not say that a worker was killed while it handed over a batch. "Exited
    unexpectedly" does not name the signal. Both get the dead worker and its signal, in PyTorch's words.
    """
    text = f"uncaught {describe_error(error)}"
    if not isinstance(error, _CUT_OFF) and not isinstance(error.__cause__, _CUT_OFF):
        return text
    return next((f"{text}, as {killed}" for killed in _killed_workers(error)), text)


def _killed_workers(error: BaseException) -> Iterator[str]:
    for frame, _ in walk_tb(error.__traceback__):
        if frame.f_globals.get("__name__") != _ITERATORS:
            continue
        for worker in getattr(frame.f_locals.get("self"), "_workers", ()):
            if (worker.exitcode or 0) < 0:
                yield killed_worker(worker.pid, -worker.exitcode)


def how_ended(
    error: BaseException,
    step: int,
    rank: int | None = None,
    sample: Text | None = None,
    *,
    of_sample: bool = True,
) -> Text:
    """Return how and where a process ended: "crashed in step 127: ValueError: no (train.py:40 in main)".

    ``step`` is the number of steps so far. ``rank`` names the process where there are several.
    ``sample`` says which sample raised the error, where one did: "worker 0 failed while reading sample 7: …".
    If ``of_sample`` is false, the sample raised an earlier error that led to this one, and both are named.
    """
    at: dict[str, Param] = {"step": step, "rank": rank}
    last_words = (
        f"exit code {error.code}" if isinstance(error, SystemExit) else f"uncaught {describe_error(error)}"
    )
    signal_name = stopped_by(last_words, None)
    if signal_name is not None:
        return Text("process-stopped", {"signal": signal_name, **at})
    if isinstance(error, SystemExit):
        return Text("process-exited", {"code": str(error.code), **at})
    if sample is None:
        return Text("process-crashed", {"error": describe_error(error), **_place(error), **at})
    if of_sample:
        return Text("process-crashed-at-sample", {"sample": sample, "error": None, **at})
    then = {"error": _describe_one(error), **_place(error)}
    return Text("process-crashed-at-sample", {"sample": sample, **then, **at})


def _place(error: BaseException) -> dict[str, Param]:
    """Return the script's line of an error, and the library function that raised it, if one did.

    Both are the parameters of the message ``place-of-error``.
    """
    frames = [(frame.f_code, line) for frame, line in walk_tb(error.__traceback__)]
    if not frames:
        return {"place": None, "raised_in": None}
    script = next((place for place in reversed(frames) if is_script(place[0].co_filename)), None)
    raised, _ = frames[-1]
    is_foreign = script is not None and script is not frames[-1]
    return {
        "place": _line_of(*(script or frames[-1])),
        "raised_in": getattr(raised, "co_qualname", raised.co_name) if is_foreign else None,
    }


def _line_of(code: CodeType, line: int) -> str:
    return f"{Path(code.co_filename).name}:{line} in {code.co_name}"


def describe_error(error: BaseException) -> str:
    """Describe an error in one line, with its cause: the cause of a DataLoader's error often says more.

    A worker's error contains its whole traceback; its first and its last line are used.
    """
    own = _describe_one(error)
    return own if error.__cause__ is None else f"{own}, from {_describe_one(error.__cause__)}"[:500]


def _describe_one(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if len(lines) > 1:
        lines = [lines[0], lines[-1]]
    return ": ".join([type(error).__name__, " ".join(lines)] if lines else [type(error).__name__])[:500]


def keep_interrupted(error: BaseException) -> None:
    """Let Python end by SIGINT, as it does after an interrupt that left the script.

    CPython forgets this when code is compiled from a text afterwards (``run_eval_code_obj`` in pythonrun.c).
    Libraries of our messages do that when they are imported. So code from a text is interrupted once more.
    """
    outermost = error.__traceback__.tb_frame if error.__traceback__ is not None else None
    names = None if outermost is None else (outermost.f_globals.get("__name__"), outermost.f_code.co_name)
    of_script = names in (("__main__", "<module>"), ("runpy", "_run_module_as_main"))
    if isinstance(error, KeyboardInterrupt) and of_script:  # not a notebook's cell
        with suppress(KeyboardInterrupt):
            exec("raise KeyboardInterrupt")


LEAST_S: Final = 30.0
"""Minimum length of a run for closing lines, unless it had an alert: a shorter run was a trial."""
STALE_S: Final = 30.0
"""Maximum age of the server's summary. An older one means that the server or the streamer is gone."""


def say_closing(folder: Path, name: str, steps: int, took_s: float, ended: str | Text | None = None) -> None:
    """Print a run's closing lines; nothing without a server's summary, or after a short run without alerts.

    ``ended`` describes the end of a process that did not finish. It is then the last line, without advice.
    The streamer prints nothing for a while after this.

    Raises:
        OSError, msgspec.MsgspecError: a file cannot be read or written.
    """
    closing = _closing(folder, took_s)
    if ended is None and (closing is None or (took_s < LEAST_S and not closing.found)):
        return
    if not _close(folder):
        return
    lines = []
    if closing is not None and (ended is None or closing.lines):
        measured: dict[str, Param] = {"steps": steps, "took_s": took_s, "lost": closing.lost}
        lines.append(in_own_language("run-ended-after", name=name, **measured))
        lines += [f"  {line}" for line in closing.lines]
    if ended is not None:
        lines.append(in_own_language("run-ended-early", name=name, how=ended))
    elif closing is not None and closing.advice:
        lines.append(f"  {in_own_language('change-first', advice=closing.advice)}")
    if closing is not None:
        lines[-1] += f" — {closing.link}"
    for line in lines:
        say(line)


def _closing(folder: Path, took_s: float) -> Closing | None:
    """Return the server's last summary; None without one, or if it is stale or older than this process."""
    path = folder / CLOSING_NAME
    if not path.exists() or time.time() - path.stat().st_mtime > min(STALE_S, took_s):
        return None
    return decode_json(path.read_bytes(), Closing)


def _close(folder: Path) -> bool:
    """Mark the last line as printed; return False where another rank has just printed it.

    The rank that crashes first says why. The others fail or end because of it.
    """
    mark = folder / CLOSED_NAME
    try:
        mark.touch(mode=0o600, exist_ok=False)
    except FileExistsError:
        return time.time() - mark.stat().st_mtime >= QUIET_S
    return True
