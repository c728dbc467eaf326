"""Commands for the streamers of a run (stacks to take, lines to write), which go out with receipts."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from loaderwatch.core.wire import Notice, StackRequest

MAX_NOTICES: Final = 100
"""How many lines are kept for a host that does not come back; the oldest are dropped, and the page still shows the alerts."""

AGAIN_S: Final = 10.0
"""How soon stacks of a rank are asked for again that is looked at because it stands still."""


@dataclass(frozen=True, slots=True)
class _HandedOut:
    seq: int
    stacks: list[StackRequest]
    notices: list[Notice]


class HostCommands:
    """The commands of one run. It is thread-safe: detectors add commands while receipts are written.

    A streamer sends its next envelopes only when it has the receipt for those before. So when the first envelope of a
    request comes again, its receipt was lost, and the commands of that receipt are handed out again.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stacks: set[int] = set()
        self._notices: dict[str, deque[Notice]] = {}  # by host
        self._handed_out: dict[str, _HandedOut] = {}  # by stream, with its newest receipt
        self._asked_at: dict[int, float] = {}  # monotonic, by rank

    def want_stacks(self, ranks: Iterable[int]) -> None:
        """Ask for fresh stacks of these ranks."""
        with self._lock:
            self._stacks.update(ranks)

    def want_stacks_again(self, ranks: Iterable[int]) -> None:
        """Ask for fresh stacks of those of these ranks that this did not ask for within ``AGAIN_S``."""
        now = time.monotonic()
        due = [rank for rank in ranks if now - self._asked_at.get(rank, -AGAIN_S) >= AGAIN_S]
        self._asked_at.update(dict.fromkeys(due, now))
        self.want_stacks(due)

    def leave(self, host: str, notice: Notice) -> None:
        """Add a line for a rank of this host."""
        with self._lock:
            self._notices.setdefault(host, deque(maxlen=MAX_NOTICES)).append(notice)

    def hand_out(
        self, host: str, stream: str, seq: int, host_of: Callable[[int], str | None]
    ) -> tuple[list[StackRequest], list[Notice]]:
        """Return the commands for the streamer that sent this envelope. ``host_of`` gives a rank's host, None if unknown."""
        with self._lock:
            mine = [rank for rank in self._stacks if host_of(rank) in (host, None)]
            self._stacks.difference_update(mine)
            stacks = [StackRequest(rank=rank) for rank in mine]
            notices = list(self._notices.pop(host, ()))
            last = self._handed_out.get(stream)
            if last is not None and last.seq == seq:
                stacks, notices = last.stacks + stacks, last.notices + notices
            if stacks or notices:
                self._handed_out[stream] = _HandedOut(seq, stacks, notices)
            elif last is not None:
                del self._handed_out[stream]
            return stacks, notices
