"""Room for alerts in the job's stderr."""

from __future__ import annotations

import os
import stat
import sys

try:
    import fcntl
except ImportError:  # Windows: the streamer writes to our own descriptor there
    fcntl = None  # type: ignore[assignment]


def has_stderr() -> bool:
    """Whether descriptor 2 was open when Python started; if not, the next file that was opened got that number."""
    return sys.__stderr__ is not None


def share_stderr(fd: int = 2) -> None:
    """Make a stderr that is a plain file (``2> log``) append, so that the streamer's lines and the job's do not collide.

    The streamer opens the file anew to write an alert. Without append mode the job would go on writing at its own
    position, over that line. Every write of the job goes to the end of the file as before.
    """
    if fcntl is None:
        return
    try:
        if stat.S_ISREG(os.fstat(fd).st_mode):
            flags = fcntl.fcntl(fd, fcntl.F_GETFL)
            if not flags & os.O_APPEND:
                fcntl.fcntl(fd, fcntl.F_SETFL, flags | os.O_APPEND)
    except OSError:
        return  # stderr is closed: there is nobody to tell
