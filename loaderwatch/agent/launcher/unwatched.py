"""The last line of an unwatched script: under ``loaderwatch run`` it says that there was no DataLoader and no optimizer.

A watched process that the script started, such as a spawned rank, leaves a mark in shared memory, so that the script does not
say this of itself.
"""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from loaderwatch.agent.guard import has_stderr, shield
from loaderwatch.core import environment_variables as variables

_found = False
_stderr: tuple[int, int] | None = None  # which file it was as the script began


def hand_on(name: str) -> None:
    """Say that this process is about to become a script of this name."""
    os.environ[variables.SCRIPT.name] = f"{os.getpid()}:{name}"


def await_end() -> None:
    """Write the line at the end of the script, if nothing was found until then. In other processes do nothing."""
    global _stderr
    if _is_script():
        _stderr = _stderr_file()
        atexit.register(shield(_end))


def found() -> None:
    """Note that there is something to watch in this process."""
    global _found
    if _found:
        return
    _found = True
    if variables.SCRIPT.read() and not _is_script():
        shield(_leave_mark)()


def _is_script() -> bool:
    """Whether this process is the script itself, not one that it started or forked."""
    return _script()[0] == str(os.getpid())


def _script() -> tuple[str, str]:
    pid, _, name = variables.SCRIPT.read().partition(":")
    return pid, name


def _end() -> None:
    """Arrange for the line. This runs after the functions that the script itself registered with ``atexit``."""
    failed = getattr(sys, "last_value", None) is not None
    if not _is_script() or _found or failed or not has_stderr() or _stderr_file() != _stderr:
        return
    mark = _mark()
    if mark is None:
        return
    if mark.exists():
        mark.unlink(missing_ok=True)
        return
    text = (
        f"loaderwatch: {_script()[1]} iterated no DataLoader and stepped no optimizer of PyTorch's, so nothing was measured; if it reads data some other way, wrap"
        " that iterable: loader = loaderwatch.attach(loader)\n"
    )
    _speaker()(text.encode(errors="replace"))


def _stderr_file() -> tuple[int, int] | None:
    """Return which file descriptor 2 is: a script may close it, and a file that it opens then gets the number."""
    try:
        found = os.fstat(2)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _speaker() -> Callable[[bytes], object]:
    """Return what writes the line for exit code 0 only: glibc knows the code by then; elsewhere the line comes with any."""
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
    """Return the mark's path; None where loaderwatch is disabled, so that nothing need be said."""
    # Imported here, because every Python that a script starts imports this module, and few get to this line.
    from loaderwatch.core.config import load_settings
    from loaderwatch.core.errors import ConfigError

    try:
        settings = load_settings()
    except ConfigError:
        return None
    pid = _script()[0]
    return settings.rings_dir / f"watched-{pid}" if pid.isdecimal() and not settings.disabled else None
