"""Starts our helper processes without taking CPUs from the training's first batches: most of a start is importing.

Linux shares CPUs between sessions first, where it has autogroups, and between the threads of a session then. So a helper's session gets a
low priority for its start, which its own user may take back, and the thread that imports is nice.
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
"""How nice helpers are as they start: beside one busy thread they get a tenth of its core, beside seven of them 1.5 %. With 19 or
SCHED_IDLE a start beside seven would take minutes, and nothing would be drained or told meanwhile."""
AUTOGROUP: Final = "autogroup"
"""The file in a process's folder of /proc that holds the niceness of its session."""
AGAIN_S: Final = 0.1
"""Seconds between two tries: the kernel changes one session's niceness in a tenth of a second, for all users together."""
MOST_TRIES: Final = 50
FULL_RATIO: Final = 0.5
"""The machine is full from this share of the last ten seconds on in which some thread waited for a CPU, 0 to 1."""
FULL_LOAD: Final = 2.0
"""The same where the kernel does not count that: threads that run or wait for each core, a mean of the last minute."""


def lower_priority() -> None:
    """Make the calling thread nice, and those that it starts; on other systems than Linux the whole process."""
    with suppress(OSError, AttributeError):  # Windows has no such call
        os.nice(NICE)


def lower_session(pid: int) -> None:
    """Make the session of a process that has just been started nice, where the kernel has autogroups."""
    with suppress(OSError):
        (PROC / str(pid) / AUTOGROUP).write_text(str(NICE))


def restore_session() -> None:
    """Take back what ``lower_session`` did to this process's session. A niceness that somebody else chose stays."""
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
    """Import modules in a thread that is nice, and return when they are there, or after ``within_s`` and the module in hand.

    On Linux each thread has a priority of its own. A process cannot take its niceness back, so the main thread never has it. The
    session has its usual priority again after this. The caller imports what it needs once more: that takes what is left, and raises what went wrong here.
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
    """Whether threads wait for CPUs on this machine for much of the time."""
    try:
        some = (proc_root / "pressure" / "cpu").read_text().split()
        return float(next(word for word in some if word.startswith("avg10="))[6:]) / 100 >= FULL_RATIO
    except (OSError, StopIteration, ValueError):
        return hasattr(os, "getloadavg") and os.getloadavg()[0] >= FULL_LOAD * (os.cpu_count() or 1)
