"""Quotas for senders: no holder of the agent token, and no runaway job, may fill the disk or the memory."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, Protocol

from loaderwatch.core.errors import WireError
from loaderwatch.core.wire import Envelope
from loaderwatch.server.access.rate_limits import Allowance, TooMany

STREAM_BURST: Final = 128 * 2**20  # bytes: what a host gathers during hours without the server
STREAM_PER_S: Final = 4 * 2**20
LEAST_COST: Final = 16 * 1024  # of any envelope: allows 256 a second, while a streamer sends two
NEW_RUNS: Final = 1000
NEW_RUNS_PER_S: Final = 0.2
LIVE_RUNS: Final = 1000
LIVE_RANKS: Final = 16_384  # of all live runs; each rank takes at least about 50 KB
HOSTS: Final = 4096  # hosts of a run; also the limit of its streams
STRANGERS: Final = 256
"""Ranks without a process that a run may mention. There should be none: envelopes name their processes."""
LIVE_BYTES: Final = 4 * 2**30
"""Most bytes of windows and envelopes in memory. A run of 1,024 ranks takes about 1 GB."""
_AGAIN_S: Final = 10.0


class Live(Protocol):
    """The live runs in memory, implemented by ``live.runs.LiveRuns``."""

    held_bytes: int

    def __len__(self) -> int:
        """Return how many runs there are."""

    def __contains__(self, run_id: object) -> bool:
        """Whether the run is live."""

    def held_by(self, run_id: str) -> int:
        """Return the bytes that a run holds."""

    def knows(self, run_id: str) -> bool:
        """Whether any data of this run was ever stored."""


@dataclass(slots=True)
class _Crowd:
    """The ranks, hosts and streams that have sent data of a run."""

    hosts: set[str] = field(default_factory=set)
    streams: set[str] = field(default_factory=set)
    ranks: set[int] = field(default_factory=set)  # with a process
    strangers: set[int] = field(default_factory=set)


class Admission:
    """Checks envelopes against the quotas per stream, per run and in total. Use it on the event loop."""

    def __init__(self, live: Live) -> None:
        self._live = live
        self._streams = Allowance(STREAM_BURST, STREAM_PER_S)
        self._runs = Allowance(NEW_RUNS, NEW_RUNS_PER_S)
        self._crowds: dict[str, _Crowd] = {}
        self._ranks = 0  # of all crowds

    def __call__(self, envelope: Envelope, size: int) -> None:
        """Count an envelope against the quotas.

        Raises:
            WireError: the envelope has data of too many ranks that no process of its run ever claimed.
            TooMany: a quota is used up for now.
        """
        new = not self._live.knows(envelope.run_id)
        if new:
            _check(self._runs, "", 1, f"{NEW_RUNS} new runs came at once")
        cost = max(size, LEAST_COST)
        _check(
            self._streams,
            envelope.stream,
            cost,
            f"stream {envelope.stream} sends more than a host can have to say",
        )
        self._check_memory(envelope.run_id)
        self._join(envelope)
        if new:
            self._runs.take("")
        self._streams.take(envelope.stream, cost)

    def _check_memory(self, run_id: str) -> None:
        live = self._live
        if run_id not in live and len(live) >= LIVE_RUNS:
            raise TooMany(f"{LIVE_RUNS} runs are live here, and no more are taken in", _AGAIN_S)
        # A run that holds less than an equal share does not wait for larger ones.
        if live.held_bytes > LIVE_BYTES and live.held_by(run_id) > LIVE_BYTES / len(live):
            raise TooMany(
                f"this run holds {live.held_by(run_id) >> 20} MiB of this server's memory", _AGAIN_S
            )

    def _join(self, envelope: Envelope) -> None:
        """Add the envelope's ranks, host and stream to the run's crowd if there is room for all."""
        crowd = self._crowds.get(envelope.run_id) or _Crowd()
        fresh = {process.rank for process in envelope.processes if process.rank >= 0} - crowd.ranks
        strangers = set(_named(envelope)).difference(crowd.ranks, crowd.strangers, fresh)
        if len(strangers) + len(crowd.strangers) > STRANGERS:
            raise WireError(
                "processes",
                f"{len(strangers)} ranks, {min(strangers)} among them, have rows and no process;"
                f" at most {STRANGERS} of a run may",
            )
        for what, known, name in (
            ("hosts", crowd.hosts, envelope.host.name),
            ("streams", crowd.streams, envelope.stream),
        ):
            if len(known) >= HOSTS and name not in known:
                raise TooMany(f"{HOSTS} {what} speak of run {envelope.run_id} already", _AGAIN_S)
        more = len(fresh - crowd.strangers) + len(strangers)
        if self._ranks + more > LIVE_RANKS:
            self._forget()
            if self._ranks + more > LIVE_RANKS:
                raise TooMany(
                    f"{self._ranks} ranks are live here, and no more than {LIVE_RANKS} are taken in", _AGAIN_S
                )
        if len(self._crowds) >= 2 * LIVE_RUNS:
            self._forget()
        self._crowds[envelope.run_id] = crowd
        self._ranks += more
        crowd.strangers -= fresh
        crowd.strangers |= strangers
        crowd.ranks |= fresh
        crowd.hosts.add(envelope.host.name)
        crowd.streams.add(envelope.stream)

    def _forget(self) -> None:
        """Drop the crowds of runs that are no longer in memory."""
        self._crowds = {run_id: crowd for run_id, crowd in self._crowds.items() if run_id in self._live}
        self._ranks = sum(len(crowd.ranks) + len(crowd.strangers) for crowd in self._crowds.values())


def _named(envelope: Envelope) -> Iterable[int]:
    """Yield the ranks of an envelope's rows, spans and stacks."""
    for table in envelope.tables.values():
        column = table.get("rank")
        if column:
            yield from (rank for rank in set(memoryview(column).cast("q")) if rank >= 0)
    yield from (span.rank for span in envelope.spans if span.rank >= 0)
    yield from (stack.rank for stack in envelope.stacks if stack.rank >= 0)


def _check(allowance: Allowance, key: str, cost: float, what: str) -> None:
    wait_s = allowance.wait_s(key, cost)
    if wait_s > 0:
        raise TooMany(what, max(1.0, wait_s))
