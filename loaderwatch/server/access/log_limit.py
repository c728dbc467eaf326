"""A limit of log lines about connections, since anyone who reaches the port can cause them, without token."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable
from typing import Final

from loaderwatch.server.access.rate_limits import Allowance

BURST: Final = 10
PER_S: Final = 1 / 60
LIMITED: Final = (
    "uvicorn.error",
    "loaderwatch.server.access.connection",
    "loaderwatch.server.access.request_gate",
    "loaderwatch.server.ingest",
)
"""Loggers of malformed requests, slow clients, faults that requests reveal, and envelopes to be resent."""


class LogLimit(logging.Filter):
    """Passes ``BURST`` lines of each kind, then one a minute, which says how many were left out before it.

    A kind is a message without arguments plus its exception's type, so a caller cannot create new kinds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._allowance = Allowance(BURST, PER_S, clock)
        self._left_out: Counter[str] = Counter()

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the line is written."""
        fault = record.exc_info[0] if record.exc_info else None
        kind = f"{record.name} {record.msg} {fault.__name__ if fault else ''}"
        if self._allowance.wait_s(kind) > 0:
            self._left_out[kind] += 1
            return False
        self._allowance.take(kind)
        left_out = self._left_out.pop(kind, 0)
        if left_out:
            record.msg = f"{record.msg} (and {left_out} more such lines since the last one)"
        return True


def limit_log_lines() -> None:
    """Put a limit before the loggers of connections."""
    for name in LIMITED:
        logging.getLogger(name).addFilter(LogLimit())
