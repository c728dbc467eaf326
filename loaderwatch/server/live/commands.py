"""What the streamers of a run are to do: stacks to take, lines to write. Each is handed out with a receipt."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from loaderwatch.core.wire import Notice, StackRequest

MAX_NOTICES: Final = 100
"""Lines kept for a host that does not come back; the oldest fall out, and the page still shows what they told of."""


@dataclass(frozen=True, slots=True)
class _HandedOut:
    seq: int
    stacks: list[StackRequest]
    notices: list[Notice]


class Errands:
    """Thread-safe: detectors leave errands while receipts are written.

    A streamer sends its next envelopes only when it has the receipt for those before. So an envelope that comes again, first
    of its request, tells that its receipt was lost on the way, and what it carried is handed out again.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stacks: set[int] = set()
        self._notices: dict[str, deque[Notice]] = {}  # by host
        self._handed_out: dict[str, _HandedOut] = {}  # by stream, with its newest receipt

    def want_stacks(self, ranks: Iterable[int]) -> None:
        """Ask for fresh stacks of these ranks."""
        with self._lock:
            self._stacks.update(ranks)

    def leave(self, host: str, notice: Notice) -> None:
        """Leave a line for a rank of this host."""
        with self._lock:
            self._notices.setdefault(host, deque(maxlen=MAX_NOTICES)).append(notice)

    def hand_out(
        self, host: str, stream: str, seq: int, host_of: Callable[[int], str | None]
    ) -> tuple[list[StackRequest], list[Notice]]:
        """What the streamer that sent this envelope is to do. ``host_of`` says where a rank runs, None if nobody knows."""
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
