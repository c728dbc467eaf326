"""The job as a child process: start it, pass signals on, wait for it, and end it with all its children."""

from __future__ import annotations

import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final, NoReturn

import psutil

from loaderwatch.supervisor.say import say

FORWARDED: Final = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
)
"""Signals by which people and schedulers stop or notify a job."""
_OF_THE_SHELL: Final = (signal.SIGTSTP, signal.SIGCONT)
_STEP_S: Final = 0.05
_SI_KERNEL: Final = 0x80
"""``si_code`` of a signal from a terminal's key; ``kill`` leaves 0."""


class Signals:
    """The signals that arrive here. Those ignored at the start (``nohup``) stay ignored, also for the job."""

    def __init__(self) -> None:
        self._taken = {n for n in FORWARDED if signal.getsignal(n) is not signal.SIG_IGN}
        self.inherited_mask = signal.pthread_sigmask(signal.SIG_BLOCK, self._taken)

    def take_job_control(self) -> None:
        """Take Ctrl-Z and ``fg`` as well, for a job in its own process group, unknown to the shell."""
        self._taken |= set(_OF_THE_SHELL)
        signal.pthread_sigmask(signal.SIG_BLOCK, _OF_THE_SHELL)

    def wait(self, timeout_s: float) -> tuple[int, bool] | None:
        """Return the next signal, and whether a terminal's key caused it; None if none came in time.

        The kernel is polled. If the process is stopped and continued (Ctrl-Z, ``fg``) during a wait in
        ``sigtimedwait``, CPython returns random data from its stack.
        """
        until = time.monotonic() + timeout_s
        while True:
            info = signal.sigtimedwait(self._taken, 0)
            if info is not None:
                return info.si_signo, info.si_code == _SI_KERNEL
            left_s = until - time.monotonic()
            if left_s <= 0:
                return None
            time.sleep(min(left_s, _STEP_S))


COULD_NOT_START: Final = 126
"""The exit code of a job that could not be executed, as in a shell."""


class Job:
    """One start of the job's command.

    In a terminal's foreground it stays in our process group. So Ctrl-C and Ctrl-Z reach the job, us and the
    shell script around us as without us. Elsewhere it has its own group.
    """

    def __init__(self, become: Callable[[], object], inherited_mask: Iterable[int]) -> None:
        """Start the job: ``become`` replaces the child by it, with these signals blocked."""
        self.shares_group = is_in_foreground()
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if not self.pid:
            self._be(become, inherited_mask)
        if not self.shares_group:
            with suppress(OSError):  # the child has done this itself, and may be gone
                os.setpgid(self.pid, self.pid)
        self.returncode: int | None = None

    def _be(self, become: Callable[[], object], inherited_mask: Iterable[int]) -> NoReturn:
        try:
            if not self.shares_group:
                os.setpgid(0, 0)
            signal.pthread_sigmask(signal.SIG_SETMASK, inherited_mask)
            become()
        except BaseException as error:  # noqa: BLE001 - in no case may this copy of us go on
            say("job-not-started", error=str(error))
        finally:
            os._exit(COULD_NOT_START)

    def poll(self) -> int | None:
        """Return the ended job's exit code as in ``subprocess`` (3, or -9 for SIGKILL), else None."""
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def send(self, number: int) -> None:
        """Signal the job's first process, like ``kill``."""
        if self.returncode is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def send_group(self, number: int) -> None:
        """Signal the job's process group if it has its own."""
        if not self.shares_group and self.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(self.pid, number)

    def tree(self) -> list[psutil.Process]:
        """Return the job's first process and all its descendants, whatever their group or session."""
        try:
            first = psutil.Process(self.pid)
            return [first, *first.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []


def living(processes: Iterable[psutil.Process]) -> list[psutil.Process]:
    """Return the processes that still run, and their descendants; reused pids do not count."""
    running: dict[int, psutil.Process] = {}
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            if process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
                running.update((p.pid, p) for p in (process, *process.children(recursive=True)))
    return list(running.values())


def is_in_foreground() -> bool:
    """Whether this process is in a terminal's foreground, so that the terminal's keys signal it."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)


def die_of(number: int) -> None:
    """End this process by a signal, without our own core file; return if the signal ends no process."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    with suppress(OSError, ValueError):  # SIGKILL has no handler
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [number])
    os.kill(os.getpid(), number)
