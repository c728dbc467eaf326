"""The facts of a run besides rows: processes and hosts, loader configurations, how processes ended."""

from __future__ import annotations

import zlib
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from loaderwatch.core.answers import AttemptStatus
from loaderwatch.core.errors import LoaderwatchError
from loaderwatch.core.facts import GpuInfo, HostInfo, ProcessInfo, ProcessState
from loaderwatch.core.wire import Envelope, decode, encode

MOST: Final = 50
"""How many earlier attempts are kept. A job that restarts every few seconds for days would make thousands."""


class UnknownAttempt(LoaderwatchError):
    """The run never had this attempt, or the attempt is too old to be kept."""

    def __init__(self, number: int, newest: int) -> None:
        known = "1" if newest == 1 else f"1 to {newest}, of which the newest {MOST + 1} can be looked at"
        super().__init__(f"attempt {number} is not known; this run has {known}")


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt that is over: the next one began at ``ended_ns``.

    ``state`` is ``crashed``, ``finished``, or ``lost`` when no process reported how it ended.
    ``exit`` and ``exit_code`` belong to the lowest rank that crashed.
    """

    number: int
    began_ns: int
    ended_ns: int
    state: AttemptStatus
    steps: int | None = None  # training steps of the rank that was furthest, None if no process reported them
    exit: str | None = None
    exit_code: int | None = None


def ended(number: int, began_ns: int, ended_ns: int, processes: Iterable[ProcessInfo]) -> Attempt:
    """Return the record of an attempt that ends when the next one begins."""
    processes = sorted(processes, key=lambda process: process.rank)
    crashed = next((process for process in processes if process.state == "crashed"), None)
    live = any(process.state == "live" for process in processes)
    return Attempt(
        number=number,
        began_ns=began_ns or min((process.started_ns for process in processes), default=ended_ns),
        ended_ns=ended_ns,
        state="crashed" if crashed is not None else "lost" if live else "finished",
        steps=max((process.steps for process in processes if process.steps is not None), default=None),
        exit=None if crashed is None else crashed.exit,
        exit_code=None if crashed is None else crashed.exit_code,
    )


LOADER_BASE: Final = 1 << 20
"""The factor that makes one integer of (rank, loader): rank * LOADER_BASE + loader."""


@dataclass
class RunFacts:
    """The newest version of each fact. Pass envelopes to ``take`` in the order in which they were stored."""

    name: str = ""
    hosts: dict[str, HostInfo] = field(default_factory=dict)
    gpus: dict[str, list[GpuInfo]] = field(default_factory=dict)
    processes: dict[int, ProcessInfo] = field(default_factory=dict)  # by rank
    rank_hosts: dict[int, str] = field(default_factory=dict)
    final_hosts: set[str] = field(default_factory=set)
    attempt: int = 1
    attempt_ns: int = 0  # when this attempt began; 0 for the first
    most_ranks: int = 0  # the greatest world size of any attempt
    earlier: list[Attempt] = field(default_factory=list)  # the newest earlier attempts, oldest first
    before: tuple[dict[int, ProcessInfo], dict[int, str]] = field(
        default_factory=lambda: ({}, {}), repr=False
    )
    """Processes and ``rank_hosts`` of the previous attempt at its end."""
    _before_ns: int = field(default=0, repr=False)  # when the last process in ``before`` was started
    _newest: dict[str, int] = field(default_factory=dict, repr=False)  # by stream: the highest number taken
    _rank_streams: dict[int, str] = field(default_factory=dict, repr=False)  # by rank: its newest stream
    _uncounted: NDArray[np.int64] | None = field(default=None, repr=False)

    def take(self, envelope: Envelope) -> bool:
        """Take in an envelope; return whether a fact is new. It is skipped if its stream has a newer one."""
        if envelope.seq < self._newest.get(envelope.stream, 0):
            return False
        self._newest[envelope.stream] = envelope.seq
        host = envelope.host.name
        is_new = False
        if envelope.run_name != self.name:
            self.name, is_new = envelope.run_name, True
        if self.hosts.get(host) != envelope.host:
            self.hosts[host], is_new = envelope.host, True
        if envelope.gpus and self.gpus.get(host) != envelope.gpus:
            self.gpus[host], is_new = envelope.gpus, True
        if envelope.final != (host in self.final_hosts):
            (self.final_hosts.add if envelope.final else self.final_hosts.discard)(host)
            is_new = True
        if envelope.processes:
            is_new = self._take_processes(envelope.processes, host, envelope.stream) or is_new
        return is_new

    def _take_processes(self, processes: Sequence[ProcessInfo], host: str, stream: str) -> bool:
        """Take in the processes of an envelope; return whether one is new."""
        # Start times are gathered once: an envelope may name thousands of processes, the run ten thousand.
        newest, restarted = _NewestStarts(), _NewestStarts()
        if any(process.state != "live" for process in processes):
            newest.add_all(self.processes.values())
        is_new = False
        for process in processes:
            known = self.processes.get(process.rank)
            if not self._take_process(process, host, stream, newest):
                continue
            is_new = True
            newest.add(process)
            if known is not None and _is_other(known, process):
                restarted.add(process)
        if restarted:
            for rank, other in list(self.processes.items()):
                if restarted.outgrow(other):
                    del self.processes[rank], self.rank_hosts[rank]
        return is_new

    def _take_process(self, process: ProcessInfo, host: str, stream: str, newest: _NewestStarts) -> bool:
        """Take in a process; return whether it or its description is new."""
        known = self.processes.get(process.rank)
        same_stream = self._rank_streams.get(process.rank) == stream
        if known == process:
            self._rank_streams[process.rank] = stream
            return False
        self.most_ranks = max(self.most_ranks, process.world_size, process.rank + 1)
        # In a container, a restarted process may have the same pid.
        restarted = known is not None and _is_other(known, process)
        if (
            known is not None
            and restarted
            and not same_stream  # in a stream the later envelope is right, even if the host's clock was set
            and known.started_ns > process.started_ns
        ):
            return False  # another host sent this before the rank restarted
        if known is not None and not restarted and known.state != "live" and process.state == "live":
            return False  # a late envelope from before the process ended
        if known is None and process.state != "live" and process.started_ns < self.attempt_ns:
            return False  # the process ended with an earlier attempt, and its rank has not restarted yet
        if newest.outgrow(process):
            return False
        if known is not None and restarted:
            self._begin_again(known, process)
        elif known is None:
            self._join(process)
        if known is None or restarted or known.loaders != process.loaders:
            self._uncounted = None
        self.processes[process.rank] = process
        self.rank_hosts[process.rank] = host
        self._rank_streams[process.rank] = stream
        return True

    def _begin_again(self, known: ProcessInfo, process: ProcessInfo) -> None:
        """Handle a rank's restart: begin a new attempt, or join the one that has just begun."""
        if known.started_ns < self.attempt_ns:
            self._join(process)
            return
        if process.started_ns <= known.started_ns:
            return  # the host's clock was set back, or two jobs share a name
        previous_attempt = ended(self.attempt, self.attempt_ns, process.started_ns, self.processes.values())
        self.earlier = [*self.earlier, previous_attempt][-MOST:]
        self.before = (dict(self.processes), dict(self.rank_hosts))
        self._before_ns = max(previous.started_ns for previous in self.processes.values())
        self.attempt, self.attempt_ns = self.attempt + 1, process.started_ns
        for rank, other in self.before[0].items():
            if other.state != "live":  # live ones may go on, or end in a moment and restart
                del self.processes[rank], self.rank_hosts[rank]

    def _join(self, process: ProcessInfo) -> None:
        """Add a rank to the attempt, which began when its first process was started."""
        if self.earlier and self._before_ns < process.started_ns < self.attempt_ns:
            self.attempt_ns = process.started_ns
            self.earlier[-1] = msgspec.structs.replace(self.earlier[-1], ended_ns=process.started_ns)

    @property
    def state(self) -> ProcessState:
        """The run's state: ``crashed`` if any process crashed, ``finished`` if all ended well, else live."""
        states = [process.state for process in self.processes.values()]
        if "crashed" in states:
            return "crashed"
        if not states or "live" in states or len(states) < self.world_size:
            ended = bool(self.hosts) and self.final_hosts >= set(self.hosts)
            return "finished" if ended and "live" not in states else "live"
        return "finished"

    @property
    def world_size(self) -> int:
        """The world size that processes report, but at least the number of known ranks."""
        reported = max((process.world_size for process in self.processes.values()), default=0)
        return max(reported, len(self.processes))

    @property
    def started_ns(self) -> int | None:
        """When the oldest known process was started."""
        return min((p.started_ns for p in self.processes.values() if p.started_ns > 0), default=None)

    def begun_ns(self) -> list[int]:
        """Return when each known attempt after the first began, oldest first."""
        begins_ns = [attempt.began_ns for attempt in self.earlier if attempt.number > 1]
        return [*begins_ns, self.attempt_ns] if self.attempt_ns else begins_ns

    def uncounted_loaders(self) -> NDArray[np.int64]:
        """Return the loaders that do not feed training, each as rank * LOADER_BASE + loader."""
        if self._uncounted is None:
            keys = [
                process.rank * LOADER_BASE + loader.loader
                for process in self.processes.values()
                for loader in process.loaders
                if loader.role != "train"
            ]
            self._uncounted = np.array(keys, dtype=np.int64)
        return self._uncounted

    def is_train(self, rank: int, loader: int | None) -> bool:
        """Whether a loader feeds training. True for a loader that is not described yet."""
        process = self.processes.get(rank)
        return process is None or all(
            description.loader != loader or description.role == "train" for description in process.loaders
        )


def _is_other(known: ProcessInfo, process: ProcessInfo) -> bool:
    """Whether a rank has a new process."""
    return (known.pid, known.started_ns) != (process.pid, process.started_ns)


class _NewestStarts:
    """For each world size, the newest process start. Shows which ranks a restart with fewer ranks removed."""

    def __init__(self) -> None:
        # Both ascending. A larger world size that started earlier adds nothing and is dropped.
        self._world_sizes: list[int] = []
        self._started_ns: list[int] = []

    def __bool__(self) -> bool:
        return bool(self._world_sizes)

    def add_all(self, processes: Iterable[ProcessInfo]) -> None:
        """Take in processes."""
        newest: dict[int, ProcessInfo] = {}
        for process in processes:
            known = newest.get(process.world_size)
            if known is None or known.started_ns < process.started_ns:
                newest[process.world_size] = process
        for process in newest.values():
            self.add(process)

    def add(self, process: ProcessInfo) -> None:
        """Take in a process."""
        sizes, starts = self._world_sizes, self._started_ns
        first, fewer = bisect_left(sizes, process.world_size), bisect_right(sizes, process.world_size)
        if fewer and starts[fewer - 1] >= process.started_ns:
            return
        last = max(first, bisect_right(starts, process.started_ns))
        sizes[first:last], starts[first:last] = [process.world_size], [process.started_ns]

    def outgrow(self, process: ProcessInfo) -> bool:
        """Whether a process has ended and the run restarted with too few ranks for its rank to exist."""
        if process.state == "live":
            return False
        fewer = bisect_right(self._world_sizes, process.rank)
        return bool(fewer) and self._started_ns[fewer - 1] > process.started_ns


def pack_event(envelope: Envelope, *, facts: bool, spans: bool) -> bytes:
    """Compress an envelope without its rows, texts of sampled stacks and known facts."""
    slim = msgspec.structs.replace(
        envelope,
        tables={},
        profile_stacks=[],
        processes=envelope.processes if facts else [],
        gpus=envelope.gpus if facts else [],
        spans=envelope.spans if spans else [],
    )
    return zlib.compress(encode(slim), 1)


def unpack_event(body: bytes) -> Envelope:
    """Unpack what ``pack_event`` packed."""
    return decode(zlib.decompress(body))


def pack_text(text: str) -> bytes:
    """Compress the text of a sampled stack."""
    return zlib.compress(text.encode(), 1)


def unpack_text(body: bytes) -> str:
    """Unpack what ``pack_text`` packed."""
    return zlib.decompress(body).decode()
