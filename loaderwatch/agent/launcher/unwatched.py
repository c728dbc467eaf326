"""Prints the last line of an unwatched script under ``loaderwatch run``: no DataLoader and no optimizer ran.

If the script started a watched process (a spawned rank), its mark in shared memory suppresses the line.
"""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from loaderwatch.agent.guard import has_stderr, in_own_language, shield
from loaderwatch.core import environment_variables as variables

_found = False
_stderr: tuple[int, int] | None = None  # device and inode of stderr when the script began


def hand_on(name: str) -> None:
    """Note that this process is about to become the script of this name."""
    os.environ[variables.SCRIPT.name] = f"{os.getpid()}:{name}"


def await_end() -> None:
    """Write the line at the script's end if nothing was found until then. Other processes do nothing."""
    global _stderr
    if _is_script():
        _stderr = _stderr_file()
        atexit.register(shield(_end))


def found() -> None:
    """Note that this process has something to watch."""
    global _found
    if _found:
        return
    _found = True
    if variables.SCRIPT.read() and not _is_script():
        shield(_leave_mark)()


def _is_script() -> bool:
    """Whether this process is the script itself, not a process that the script started or forked."""
    return _script()[0] == str(os.getpid())


def _script() -> tuple[str, str]:
    pid, _, name = variables.SCRIPT.read().partition(":")
    return pid, name


def _end() -> None:
    """Arrange for the line. This runs after the script's own ``atexit`` functions."""
    failed = getattr(sys, "last_value", None) is not None
    if not _is_script() or _found or failed or not has_stderr() or _stderr_file() != _stderr:
        return
    mark = _mark()
    if mark is None:
        return
    if mark.exists():
        mark.unlink(missing_ok=True)
        return
    text = in_own_language("nothing-to-watch", script=_script()[1])
    _speaker()(f"loaderwatch: {text}\n".encode(errors="replace"))


def _stderr_file() -> tuple[int, int] | None:
    """Return device and inode of descriptor 2: a script may close it, and its next file gets the number."""
    try:
        status = os.fstat(2)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _speaker() -> Callable[[bytes], object]:
    """Return the function that writes the line. With glibc it writes only for exit code 0, else for any."""
    try:
        from loaderwatch.agent.hot._hot import say_after_success
    except ImportError:
        return lambda text: os.write(2, text)
    return say_after_success


def _leave_mark() -> None:
    from loaderwatch.core.files import opener, own_folder

    mark = _mark()
    if mark is not None:
        with suppress(OSError):
            os.close(opener(str(own_folder(mark.parent) / mark.name), os.O_WRONLY | os.O_CREAT))


def _mark() -> Path | None:
    """Return the mark's path; None if loaderwatch is disabled and no line is due."""
    # Imported here, because every Python process of a script imports this module and few reach this line.
    from loaderwatch.core.config import load_settings
    from loaderwatch.core.errors import ConfigError

    try:
        settings = load_settings()
    except ConfigError:
        return None
    pid = _script()[0]
    return settings.rings_dir / f"watched-{pid}" if pid.isdecimal() and not settings.disabled else None
