"""The last lines of a run on the job's stderr: its steps, lost time, causes, and what to change first.

Every other second, the streamer writes the server's newest summary beside the ring, so the end need not wait.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

from loaderwatch.agent.guard import in_own_language, say
from loaderwatch.core.message import Param, Text
from loaderwatch.core.wire import CLOSED_NAME, CLOSING_NAME, QUIET_S, Closing, decode_json

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
