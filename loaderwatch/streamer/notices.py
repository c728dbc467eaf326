"""Lines on the training job's own stderr, written from outside, so that training never waits for them."""

from __future__ import annotations

import errno
import logging
import os
from pathlib import Path
from typing import Final

from loaderwatch.core.printable import one_line
from loaderwatch.streamer.samplers.procfs import PROC

log = logging.getLogger(__name__)

MAX_NOTICE: Final = 2000


def write_stderr(pid: int, text: str, proc_root: Path = PROC) -> bool:
    """Write a line to a process's stderr; False if that cannot be done without waiting.

    The text may come from the network: it stays on one line, without what moves a terminal's cursor.

    The file is opened anew for the write and closed at once: a pipe that we held would never end for its reader.
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
        # ENXIO: a socket, which cannot be opened this way.
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
    """Whether descriptor 2 of a process is one that it can write to itself.

    Opening it anew does not ask that: where stderr was closed, 2 may be the reading end of a pipe or a data file, and
    our line would go into it.
    """
    try:
        lines = (proc_root / str(pid) / "fdinfo" / "2").read_text().splitlines()
    except OSError:
        return False
    modes = [int(line.split()[1], 8) & os.O_ACCMODE for line in lines if line.startswith("flags:")]
    return bool(modes) and modes[0] != os.O_RDONLY
