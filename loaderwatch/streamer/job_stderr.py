"""The training job's stderr. The streamer writes to it from outside, so training never waits for a line."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import queue
import stat
import threading
from pathlib import Path
from typing import Final

from loaderwatch.core.printable import one_line
from loaderwatch.core.system import PROC

log = logging.getLogger(__name__)

MAX_NOTICE: Final = 2000
MOST_WAITING: Final = 100
"""Lines that may wait for a blocked stderr."""


class JobStderr:
    """The inherited stderr of the process that started this one, for systems without /proc.

    A thread writes, because writing may block. The job shares the descriptor, so it must stay blocking.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._closing = False
        self._lines: queue.Queue[bytes] = queue.Queue(MOST_WAITING)
        self._writer: threading.Thread | None = None
        with contextlib.suppress(OSError):
            os.set_inheritable(fd, False)  # a server that we start must not inherit it

    def write(self, text: str) -> bool:
        """Queue a line; return False if this stderr is closed or too many lines wait."""
        line = one_line(text[:MAX_NOTICE])
        if not self._closing:
            if self._writer is None:
                self._writer = threading.Thread(target=self._write, name="job stderr", daemon=True)
                self._writer.start()
            try:
                self._lines.put_nowait((line + "\n").encode("utf-8", "replace"))
            except queue.Full:
                pass
            else:
                return True
        log.info("the job's stderr takes nothing; not written: %s", line)
        return False

    def stand_by(self) -> None:
        """Close a pipe or socket before standing by, so that its reader sees the end of the job."""
        try:
            mode = os.fstat(self._fd).st_mode
        except OSError:
            mode = 0
        if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode):
            self.close()

    def close(self) -> None:
        """Close the descriptor once the job has ended, so that its stderr's reader does not wait for us."""
        if self._closing:
            return
        self._closing = True
        if self._writer is None:
            self._let_go()
        else:
            with contextlib.suppress(queue.Full):
                self._lines.put_nowait(b"")  # wakes the thread, which waits for a line

    def _write(self) -> None:
        while not (self._closing and self._lines.empty()):
            line = self._lines.get()
            try:
                os.write(self._fd, line)
            except OSError as error:
                log.info("the job's stderr takes nothing (%s); not written: %r", error, line)
        self._let_go()

    def _let_go(self) -> None:
        with contextlib.suppress(OSError):
            os.close(self._fd)


def write_stderr(pid: int, text: str, proc_root: Path = PROC) -> bool:
    """Write a line to a process's stderr; return False if that would block or fails.

    The text may come from the network, so it becomes one line without control characters. The file is opened
    and closed for each line: a pipe that we kept open would never end for its reader.
    """
    line = one_line(text[:MAX_NOTICE])
    if not is_open_for_writing(pid, proc_root):
        log.info("process %d cannot write to its descriptor 2; not written: %s", pid, line)
        return False
    flags = os.O_WRONLY | os.O_APPEND
    for name in ("O_NONBLOCK", "O_NOCTTY", "O_CLOEXEC"):
        flags |= getattr(os, name, 0)
    try:
        fd = os.open(f"{proc_root}/{pid}/fd/2", flags)
    except OSError as error:
        # ENXIO means a socket, which cannot be opened this way.
        level = logging.INFO if error.errno in (errno.ENXIO, errno.ENOENT) else logging.WARNING
        log.log(level, "stderr of process %d cannot be opened (%s); not written: %s", pid, error, line)
        return False
    try:
        os.write(fd, (line + "\n").encode("utf-8", "replace"))
    except OSError as error:
        log.info("stderr of process %d takes nothing (%s); not written: %s", pid, error, line)
        return False
    finally:
        os.close(fd)
    return True


def is_open_for_writing(pid: int, proc_root: Path = PROC) -> bool:
    """Whether a process's descriptor 2 is open for writing and not a data file.

    Opening the file again would not show this. Where stderr was closed, descriptor 2 may be a pipe's reading
    end or a data file. A plain file is the job's stderr if it appends, which the agent ensures.
    """
    process = proc_root / str(pid)
    try:
        lines = (process / "fdinfo" / "2").read_text().splitlines()
        plain = (process / "fd" / "2").is_file()
    except OSError:
        return False
    flags = next((int(line.split()[1], 8) for line in lines if line.startswith("flags:")), os.O_RDONLY)
    return flags & os.O_ACCMODE != os.O_RDONLY and (not plain or bool(flags & os.O_APPEND))
