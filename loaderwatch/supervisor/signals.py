"""Signals that arrive at the supervisor: they are blocked, and taken one by one with their origin."""

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
