"""The last lines of a run on the job's stderr: its steps, the time that it lost and to what, and what to change first.

The server's newest word on this lies in a file beside the ring, where the streamer puts it every other second: the process
waits for nobody as it ends.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

from loaderwatch.agent.guard import say
from loaderwatch.core.wire import CLOSED_NAME, CLOSING_NAME, QUIET_S, Closing, decode_json

LEAST_S: Final = 30.0
"""A shorter run without an alert ends without a word: it was a trial."""
STALE_S: Final = 30.0
"""What the server said longer ago than this is of another time: it went away, or the streamer did."""


def say_closing(folder: Path, name: str, steps: int, took_s: float, ended: str | None = None) -> None:
    """Print what is said at the end of a run; nothing if no server has said anything, or the run was short and without alerts.

    ``ended`` is how a process ended that did not finish; that is the last line then, and no advice comes with it.
    The streamer prints nothing for a while after this.

    Raises:
        OSError, msgspec.MsgspecError: a file cannot be read or written.
    """
    closing = _closing(folder, took_s)
    if ended is None and (closing is None or (took_s < LEAST_S and not closing.found)):
        return
    lines = []
    if closing is not None and (ended is None or closing.lines):
        what = "1 step" if steps == 1 else f"{steps:,} steps"
        lines.append(f"{name} ended after {what} in {_time(took_s)}, {closing.lost}")
        lines += [f"  {line}" for line in closing.lines]
    if ended is not None:
        lines.append(f"{name} {ended}")
    elif closing is not None and closing.advice:
        lines.append(f"  change first: {closing.advice}")
    if closing is not None:
        lines[-1] += f" — {closing.link}"
    if _close(folder):
        for line in lines:
            say(line)


def _closing(folder: Path, took_s: float) -> Closing | None:
    """Return what the server said last; None if it said nothing, or that was of an earlier time or process of this name."""
    path = folder / CLOSING_NAME
    if not path.exists() or time.time() - path.stat().st_mtime > min(STALE_S, took_s):
        return None
    return decode_json(path.read_bytes(), Closing)


def _close(folder: Path) -> bool:
    """Leave the mark that the last line is printed; return False where another rank has just printed it.

    The rank that crashes first says why. The others fail or end because of it.
    """
    mark = folder / CLOSED_NAME
    try:
        mark.touch(mode=0o600, exist_ok=False)
    except FileExistsError:
        return time.time() - mark.stat().st_mtime >= QUIET_S
    return True


def _time(seconds: float) -> str:
    """Return "42 s", "3 min 20 s" or "2 h 5 min"."""
    whole = round(seconds)
    if whole < 120:
        return f"{whole} s"
    return (
        f"{whole // 60} min {whole % 60} s" if whole < 7200 else f"{whole // 3600} h {whole % 3600 // 60} min"
    )
