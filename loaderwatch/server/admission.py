"""How much a sender may store: whoever has the agent token, or a job gone wild, must not fill the disk in a minute."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from loaderwatch.core.wire import Envelope
from loaderwatch.server.limits import Allowance, TooMany

STREAM_BURST: Final = 128 * 2**20  # bytes: what a host gathers while the server is away for hours
STREAM_PER_S: Final = 4 * 2**20
LEAST_COST: Final = 16 * 1024  # of any envelope: 256 a second, where a streamer sends two
NEW_RUNS: Final = 1000
NEW_RUNS_PER_S: Final = 0.2


class Admission:
    """Limits by stream, and on runs that were never heard of before."""

    def __init__(self, is_known: Callable[[str], bool]) -> None:
        self._is_known = is_known
        self._streams = Allowance(STREAM_BURST, STREAM_PER_S)
        self._runs = Allowance(NEW_RUNS, NEW_RUNS_PER_S)

    def __call__(self, envelope: Envelope, size: int) -> None:
        """Count it.

        Raises:
            TooMany: not now.
        """
        new = not self._is_known(envelope.run_id)
        if new:
            _check(self._runs, "", 1, f"{NEW_RUNS} new runs came at once")
        cost = max(size, LEAST_COST)
        _check(
            self._streams,
            envelope.stream,
            cost,
            f"stream {envelope.stream} sends more than a host can have to say",
        )
        if new:
            self._runs.take("")
        self._streams.take(envelope.stream, cost)


def _check(allowance: Allowance, key: str, cost: float, what: str) -> None:
    wait_s = allowance.wait_s(key, cost)
    if wait_s > 0:
        raise TooMany(what, max(1.0, wait_s))
