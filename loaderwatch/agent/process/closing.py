"""The last lines of a run on the job's stderr: its steps, the time that it lost and to what, and what to change first.

The server's newest word on this lies in a file beside the ring, where the streamer puts it every other second: the process
waits for nobody as it ends.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

from loaderwatch.agent.guard import say
from loaderwatch.core.printable import one_line
from loaderwatch.core.wire import CLOSING_NAME, Closing, decode_json

LEAST_S: Final = 30.0
"""A shorter run without an alert ends without a word: it was a trial."""
STALE_S: Final = 30.0
"""What the server said longer ago than this is of another time: it went away, or the streamer did."""


def say_closing(folder: Path, name: str, steps: int, took_s: float) -> None:
    """Print what is said at the end of a run; nothing if no server has said anything, or the run was short and without alerts.

    Raises:
        OSError, msgspec.MsgspecError: the file cannot be read.
    """
    path = folder / CLOSING_NAME
    if not path.exists() or time.time() - path.stat().st_mtime > min(STALE_S, took_s):
        return  # nobody said anything, or of an earlier time, or of an earlier process of this name
    closing = decode_json(path.read_bytes(), Closing)
    if took_s < LEAST_S and not closing.found:
        return
    what = "1 step" if steps == 1 else f"{steps:,} steps"
    lines = [
        f"{one_line(name)} ended after {what} in {_time(took_s)}, {one_line(closing.lost)}",
        *(f"  {one_line(line)}" for line in closing.lines),
    ]
    for line in lines[:-1]:
        say(line)
    say(f"{lines[-1]} — {one_line(closing.link)}")


def _time(seconds: float) -> str:
    """Return "42 s", "3 min 20 s" or "2 h 5 min"."""
    whole = round(seconds)
    if whole < 120:
        return f"{whole} s"
    return (
        f"{whole // 60} min {whole % 60} s" if whole < 7200 else f"{whole // 3600} h {whole % 3600 // 60} min"
    )
