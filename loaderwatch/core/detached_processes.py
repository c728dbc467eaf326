"""Starts detached processes, which outlive this one and share no open files; output goes to a log file."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from loaderwatch.core.files import check_own, opener, private_folder
from loaderwatch.core.low_priority_start import AUTOGROUP, NICE, lower_session
from loaderwatch.core.system import DETACHED, HAS_FORK, HAS_OWNERS, OWN_GROUP

_LOWERED: Final = f"{{ echo {NICE} >/proc/self/{AUTOGROUP}; }} 2>/dev/null"
"""What ``lower_session`` does, in a shell command."""


def spawn_detached(
    arguments: Sequence[str], log_path: Path, environ: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """Start ``python arguments…`` in its own session, without a console, at low priority.

    Raises:
        OSError: the log cannot be written or the process cannot be started.
    """
    with _logging(log_path) as settings:
        process = subprocess.Popen(
            [sys.executable, *arguments],
            stdin=subprocess.DEVNULL,
            env=dict(os.environ if environ is None else environ),
            start_new_session=True,
            umask=0o077 if HAS_OWNERS else -1,
            creationflags=DETACHED | OWN_GROUP,
            **settings,
        )
    lower_session(process.pid)
    return process


def spawn_orphan(
    arguments: Sequence[str],
    log_path: Path,
    environ: Mapping[str, str],
    handed_on: tuple[str, int] | None = None,
) -> None:
    """Start ``python arguments…`` not as our child, so the user's code gets no zombie and no extra child.

    Args:
        handed_on: an option of the command, and a descriptor that the process inherits and gets as its value.

    Raises:
        OSError: the log cannot be written or the process cannot be started.
    """
    with _logging(log_path) as settings:
        command = [sys.executable, *arguments]
        (_start_by_shell if HAS_FORK else _start_alone)(command, handed_on, env=dict(environ), **settings)


def _start_by_shell(command: list[str], handed_on: tuple[str, int] | None, **settings: Any) -> None:
    """Start the process from a shell that ends at once, so the process becomes init's child."""
    descriptors = []
    if handed_on is not None:
        option, descriptor = handed_on
        command, descriptors = [*command, option, str(descriptor)], [descriptor]
    shell = subprocess.Popen(
        ["/bin/sh", "-c", f'{_LOWERED}; umask 077; "$@" &', "sh", *command],
        stdin=subprocess.DEVNULL,
        pass_fds=descriptors,
        start_new_session=True,
        **settings,
    )
    shell.wait()


def _start_alone(command: list[str], handed_on: tuple[str, int] | None, **settings: Any) -> None:
    """Start the process on Windows, where only standard files are inherited: ``handed_on`` becomes its stdin.

    The process keeps our console only if it writes there. Windows has no zombies and no wait for any child.
    """
    stdin, at_console = subprocess.DEVNULL, False
    if handed_on is not None:
        option, stdin = handed_on
        command, at_console = [*command, option, "0"], os.isatty(stdin)
    process = subprocess.Popen(
        command, stdin=stdin, creationflags=OWN_GROUP if at_console else OWN_GROUP | DETACHED, **settings
    )
    process.returncode = 0  # else Python warns of a process that is still running


@contextmanager
def _logging(log_path: Path) -> Iterator[dict[str, Any]]:
    """Return the options for starting a process whose output goes to a log."""
    check_own(private_folder(log_path.parent))  # the working directory: Python runs modules that lie in it
    with open(log_path, "ab", opener=opener) as log:
        # python -m searches the working directory first, so it must not be the user's.
        yield {"stdout": log, "stderr": log, "cwd": str(log_path.parent)}
