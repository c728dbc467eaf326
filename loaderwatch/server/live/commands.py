"""Commands for a run's streamers (stacks to take, lines to write), sent with receipts.

All senders share a token, so a receipt tells a stream only about its own processes. ``Claims`` knows them.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from loaderwatch.core.facts import ProcessInfo
from loaderwatch.core.wire import Envelope, Notice, StackRequest

MAX_NOTICES: Final = 100
"""Lines kept for a process whose streamer stays away; older ones are dropped. The page shows all alerts."""

MAX_PROCESSES: Final = 1000
"""Processes with waiting lines. With one alert per cause, only a sender of false processes reaches this."""

AGAIN_S: Final = 10.0
"""How soon stacks of a rank that stands still are requested again, in seconds."""

SILENT_S: Final = 60.0
"""After this many seconds without an envelope, another stream may take over a rank: its host has died. A
restart elsewhere takes about as long, and a streamer that was cut off for less time keeps its ranks."""


MAX_EARLIER: Final = 4
"""Earlier processes remembered per rank. Lines are at most seconds late, and no rank restarts more often."""


class Process(NamedTuple):
    """A training process as named in a receipt. Only its sender knows its start time to the nanosecond."""

    rank: int
    pid: int
    started_ns: int

    @classmethod
    def of(cls, info: ProcessInfo) -> Process:
        """Return the process that an envelope describes."""
        return cls(info.rank, info.pid, info.started_ns)


@dataclass(frozen=True, slots=True)
class _Claim:
    stream: str | None  # None: the process is known from the store, and its stream has not reported yet
    live: bool  # whether the newest process is live
    processes: tuple[Process, ...]  # sent by this stream, the newest first


class Claims:
    """Which stream sent the process of each rank.

    The first stream keeps the rank until its process has ended. If another stream sends a process of the rank
    before that, one of the two is false, and neither learns anything about this rank any more. A host may
    still describe an older, ended process after its rank was restarted on another host.
    """

    def __init__(self) -> None:
        self._claims: dict[int, _Claim] = {}  # by rank
        self._contested: set[int] = set()  # ranks
        self._heard_at: dict[str | None, float] = {}  # by stream, monotonic

    def seed(self, processes: Iterable[ProcessInfo]) -> None:
        """Start with the processes of a run that the store knows."""
        self._heard_at[None] = time.monotonic()
        for info in processes:
            self._claims[info.rank] = _Claim(None, info.state == "live", (Process.of(info),))

    def take(self, envelope: Envelope) -> None:
        """Note which processes a stream sends."""
        stream = envelope.stream
        self._heard_at[stream] = time.monotonic()
        for info in envelope.processes:
            process, live = Process.of(info), info.state == "live"
            claim = self._claims.get(info.rank)
            if claim is not None and (claim.stream == stream or claim.processes[0] == process):
                # A line about an earlier process may come after its rank was restarted.
                earlier = [known for known in claim.processes if known != process]
                self._claims[info.rank] = _Claim(stream, live, (process, *earlier[:MAX_EARLIER]))
            elif claim is None or self._is_free(claim):
                self._claims[info.rank] = _Claim(stream, live, (process,))
            elif live or process.started_ns > claim.processes[0].started_ns:
                self._contested.add(info.rank)

    def holds(self, stream: str, process: Process) -> bool:
        """Whether this stream sent this process and no other stream claims its rank."""
        claim = self._claims.get(process.rank)
        ours = claim is not None and claim.stream == stream and process in claim.processes
        return ours and process.rank not in self._contested

    def holds_any(self, envelope: Envelope) -> bool:
        """Whether the stream of an envelope sent one of its processes."""
        return any(self.holds(envelope.stream, Process.of(info)) for info in envelope.processes)

    def _is_free(self, claim: _Claim) -> bool:
        return not claim.live or time.monotonic() - self._heard_at[claim.stream] > SILENT_S


@dataclass(frozen=True, slots=True)
class LeftNotice:
    """A line for the stderr of a rank; ``text`` makes it in a language."""

    rank: int
    text: Callable[[str], str]

    def in_language(self, language: str) -> Notice:
        """Return the line in a language."""
        return Notice(rank=self.rank, text=self.text(language))


@dataclass(frozen=True, slots=True)
class _HandedOut:
    seq: int
    stacks: list[StackRequest]
    notices: list[LeftNotice]


class Commands:
    """The commands of one run. It is thread-safe: detectors add commands while receipts are written.

    A streamer sends its next envelopes only after the receipt for the previous ones. If the first envelope of
    a request comes again, its receipt was lost, and the same commands are handed out again.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stacks: set[int] = set()  # ranks
        self._notices: dict[Process, deque[LeftNotice]] = {}
        self._handed_out: dict[str, _HandedOut] = {}  # by stream, with its newest receipt
        self._asked_at: dict[int, float] = {}  # monotonic, by rank

    def want_stacks(self, ranks: Iterable[int]) -> None:
        """Ask for fresh stacks of these ranks."""
        with self._lock:
            self._stacks.update(ranks)

    def want_stacks_again(self, ranks: Iterable[int]) -> None:
        """Ask for fresh stacks of these ranks. A rank requested here within ``AGAIN_S`` is skipped."""
        now = time.monotonic()
        due = [rank for rank in ranks if now - self._asked_at.get(rank, -AGAIN_S) >= AGAIN_S]
        self._asked_at.update(dict.fromkeys(due, now))
        self.want_stacks(due)

    def leave(self, process: Process, text: Callable[[str], str]) -> None:
        """Add a line for the stderr of a process; ``text`` makes it in a language."""
        with self._lock:
            if process not in self._notices and len(self._notices) >= MAX_PROCESSES:
                del self._notices[next(iter(self._notices))]
            lines = self._notices.setdefault(process, deque(maxlen=MAX_NOTICES))
            lines.append(LeftNotice(process.rank, text))

    def hand_out(
        self,
        stream: str,
        seq: int,
        process_of: Callable[[int], Process | None],
        holds: Callable[[str, Process], bool],
    ) -> tuple[list[StackRequest], list[LeftNotice]]:
        """Return the commands for the streamer that sent this envelope.

        Args:
            stream: the envelope's stream.
            seq: the envelope's number.
            process_of: gives a rank's newest process; None if the rank is not yet known.
            holds: whether a stream sent a process.
        """
        with self._lock:
            requested = [(rank, process_of(rank)) for rank in self._stacks]
            mine = [rank for rank, process in requested if process is not None and holds(stream, process)]
            self._stacks.difference_update(mine)
            stacks = [StackRequest(rank=rank) for rank in mine]
            reachable = [process for process in self._notices if holds(stream, process)]
            notices = [notice for process in reachable for notice in self._notices.pop(process)]
            last = self._handed_out.get(stream)
            if last is not None and last.seq == seq:
                stacks, notices = last.stacks + stacks, last.notices + notices
            if stacks or notices:
                self._handed_out[stream] = _HandedOut(seq, stacks, notices)
            elif last is not None:
                del self._handed_out[stream]
            return stacks, notices
