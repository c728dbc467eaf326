"""Starts our helper processes without taking CPUs from the training's first batches: they mostly import.

Linux with autogroups shares CPUs first between sessions, then between the threads of a session. So a helper's
session gets a low priority for its start, which its own user may take back. The importing thread is nice.
"""

from __future__ import annotations

import importlib
import os
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from loaderwatch.core.system import PROC

NICE: Final = 10
"""Niceness of starting helpers: they get a tenth of a core beside one busy thread, 1.5 % beside seven.

With 19 or SCHED_IDLE, a start beside seven busy threads takes minutes, with nothing drained or reported.
"""
AUTOGROUP: Final = "autogroup"
"""The file in a process's folder of /proc with the niceness of its session."""
AGAIN_S: Final = 0.1
"""Seconds between two tries: per 0.1 s, the kernel changes one session's niceness, for all users together."""
MOST_TRIES: Final = 50
FULL_RATIO: Final = 0.5
"""The machine is full if threads waited for a CPU in at least this share of the last ten seconds, 0 to 1."""
FULL_LOAD: Final = 2.0
"""The same if the kernel has no such share: running and waiting threads per core, mean of the last minute."""


def lower_priority() -> None:
    """Make the calling thread and the threads that it starts nice; except on Linux, the whole process."""
    with suppress(OSError, AttributeError):  # Windows has no such call
        os.nice(NICE)


def lower_session(pid: int) -> None:
    """Make the session of a just started process nice, if the kernel has autogroups."""
    with suppress(OSError):
        (PROC / str(pid) / AUTOGROUP).write_text(str(NICE))


def restore_session() -> None:
    """Undo ``lower_session`` for this process's session. A niceness that somebody else chose stays."""
    own = PROC / "self" / AUTOGROUP
    for _ in range(MOST_TRIES):
        try:
            if not own.read_text().endswith(f" nice {NICE}\n"):
                return
            own.write_text("0")
        except BlockingIOError:
            time.sleep(AGAIN_S)
        except OSError:
            return


def import_gently(*names: str, within_s: float) -> None:
    """Import modules in a nice thread; return when loaded, or after ``within_s`` and the current module.

    On Linux, each thread has its own priority. A process cannot take its niceness back, so the main thread
    stays as it is. Afterwards, the session has its usual priority again. The caller imports its modules
    again: that loads the rest, and raises the errors that were suppressed here.
    """
    if sys.platform != "linux":
        return
    over = threading.Event()

    def load() -> None:
        lower_priority()
        for name in names:
            if over.is_set():
                return
            with suppress(Exception):
                importlib.import_module(name)

    thread = threading.Thread(target=load, name="imports", daemon=True)
    thread.start()
    thread.join(within_s)
    over.set()
    thread.join()
    restore_session()


def machine_is_full(proc_root: Path = PROC) -> bool:
    """Whether threads on this machine wait for CPUs much of the time."""
    try:
        some = (proc_root / "pressure" / "cpu").read_text().split()
        return float(next(word for word in some if word.startswith("avg10="))[6:]) / 100 >= FULL_RATIO
    except (OSError, StopIteration, ValueError):
        return hasattr(os, "getloadavg") and os.getloadavg()[0] >= FULL_LOAD * (os.cpu_count() or 1)
