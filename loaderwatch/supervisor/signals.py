"""Signals that arrive at the supervisor: blocked, and taken one by one with who sent them."""

from __future__ import annotations

import signal
import time
from typing import Final

FORWARDED: Final = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
)
"""Signals by which people and schedulers stop a job, or tell it something."""
_OF_THE_SHELL: Final = (signal.SIGTSTP, signal.SIGCONT)
_STEP_S: Final = 0.05
_SI_KERNEL: Final = 0x80
"""``si_code`` of a signal that a terminal's key has caused; ``kill`` leaves 0 there."""


class Signals:
    """The signals that arrive here. What is ignored as we begin (``nohup``) stays so, for us and for the job."""

    def __init__(self) -> None:
        self._taken = {n for n in FORWARDED if signal.getsignal(n) is not signal.SIG_IGN}
        self.inherited_mask = signal.pthread_sigmask(signal.SIG_BLOCK, self._taken)

    def take_job_control(self) -> None:
        """Take Ctrl-Z and ``fg`` as well, for a job in a process group of its own, which the shell does not know."""
        self._taken |= set(_OF_THE_SHELL)
        signal.pthread_sigmask(signal.SIG_BLOCK, _OF_THE_SHELL)

    def wait(self, timeout_s: float) -> tuple[int, bool] | None:
        """Return the next signal and whether a terminal's key caused it; None when none came in time.

        The kernel is asked, not waited in: CPython's ``sigtimedwait`` returns what was on its stack when it is stopped and
        continued (Ctrl-Z, ``fg``) while it waits.
        """
        until = time.monotonic() + timeout_s
        while True:
            found = signal.sigtimedwait(self._taken, 0)
            if found is not None:
                return found.si_signo, found.si_code == _SI_KERNEL
            left_s = until - time.monotonic()
            if left_s <= 0:
                return None
            time.sleep(min(left_s, _STEP_S))
