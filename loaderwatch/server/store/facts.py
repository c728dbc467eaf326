"""The facts of a run besides rows: its processes and hosts, how loaders are configured, how processes ended."""

from __future__ import annotations

import zlib
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from loaderwatch.core.facts import GpuInfo, HostInfo, ProcessInfo, ProcessState
from loaderwatch.core.wire import Envelope, decode, encode
from loaderwatch.server.store.attempts import MOST, Attempt, ended

LOADER_BASE: Final = 1 << 20
"""The factor that makes one integer of (rank, loader): rank * LOADER_BASE + loader."""


@dataclass
class RunFacts:
    """The newest version of each fact. Give envelopes to ``take`` in the order in which they were stored."""

    name: str = ""
    hosts: dict[str, HostInfo] = field(default_factory=dict)
    gpus: dict[str, list[GpuInfo]] = field(default_factory=dict)
    processes: dict[int, ProcessInfo] = field(default_factory=dict)  # by rank
    rank_hosts: dict[int, str] = field(default_factory=dict)
    final_hosts: set[str] = field(default_factory=set)
    attempt: int = 1
    attempt_ns: int = 0  # when the attempt began; 0 for the first
    most_ranks: int = 0  # the greatest world size of any attempt
    earlier: list[Attempt] = field(default_factory=list)  # the newest of the earlier attempts, oldest first
    before: tuple[dict[int, ProcessInfo], dict[int, str]] = field(
        default_factory=lambda: ({}, {}), repr=False
    )
    """Processes and ``rank_hosts`` as the attempt before this one ended."""
    _before_ns: int = field(default=0, repr=False)  # when the last of those was started
    _newest: dict[str, int] = field(default_factory=dict, repr=False)  # by stream: the highest number taken
    _rank_streams: dict[int, str] = field(default_factory=dict, repr=False)  # by rank: its newest stream
    _uncounted: NDArray[np.int64] | None = field(default=None, repr=False)

    def take(self, envelope: Envelope) -> bool:
        """Take in an envelope; return True if a fact is new. An envelope older than its stream's newest changes nothing."""
        if envelope.seq < self._newest.get(envelope.stream, 0):
            return False
        self._newest[envelope.stream] = envelope.seq
        host = envelope.host.name
        new = False
        if envelope.run_name != self.name:
            self.name, new = envelope.run_name, True
        if self.hosts.get(host) != envelope.host:
            self.hosts[host], new = envelope.host, True
        if envelope.gpus and self.gpus.get(host) != envelope.gpus:
            self.gpus[host], new = envelope.gpus, True
        if envelope.final != (host in self.final_hosts):
            (self.final_hosts.add if envelope.final else self.final_hosts.discard)(host)
            new = True
        if envelope.processes:
            new = self._take_processes(envelope.processes, host, envelope.stream) or new
        return new

    def _take_processes(self, processes: Sequence[ProcessInfo], host: str, stream: str) -> bool:
        """Take in the processes of an envelope; return whether one is new."""
        # What all are held against is gathered once: an envelope may name thousands, and there may be ten thousand before.
        newest, restarted = _NewestStarts(), _NewestStarts()
        if any(process.state != "live" for process in processes):
            newest.add_all(self.processes.values())
        new = False
        for process in processes:
            known = self.processes.get(process.rank)
            if not self._take_process(process, host, stream, newest):
                continue
            new = True
            newest.add(process)
            if known is not None and _is_other(known, process):
                restarted.add(process)
        if restarted:
            for rank, other in list(self.processes.items()):
                if restarted.outgrow(other):
                    del self.processes[rank], self.rank_hosts[rank]
        return new

    def _take_process(self, process: ProcessInfo, host: str, stream: str, newest: _NewestStarts) -> bool:
        """Take in a process; return whether it is new, or what it says of itself."""
        known = self.processes.get(process.rank)
        same_stream = self._rank_streams.get(process.rank) == stream
        if known == process:
            self._rank_streams[process.rank] = stream
            return False
        self.most_ranks = max(self.most_ranks, process.world_size, process.rank + 1)
        # In a container a pid may be used again.
        restarted = known is not None and _is_other(known, process)
        if (
            known is not None
            and restarted
            and not same_stream  # in one stream the later envelope is right, whatever was done to the host's clock
            and known.started_ns > process.started_ns
        ):
            return False  # another host sent this before the rank was restarted
        if known is not None and not restarted and known.state != "live" and process.state == "live":
            return False  # a late envelope from before the process ended
        if known is None and process.state != "live" and process.started_ns < self.attempt_ns:
            return False  # the process ended with an earlier attempt, and its rank has not been restarted yet
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
        """Handle a rank's restart: it begins a new attempt, or joins the attempt that has just begun."""
        if known.started_ns < self.attempt_ns:
            self._join(process)
            return
        if process.started_ns <= known.started_ns:
            return  # the host's clock was set back, or two jobs share a name
        over = ended(self.attempt, self.attempt_ns, process.started_ns, self.processes.values())
        self.earlier = [*self.earlier, over][-MOST:]
        self.before = (dict(self.processes), dict(self.rank_hosts))
        self._before_ns = max(each.started_ns for each in self.processes.values())
        self.attempt, self.attempt_ns = self.attempt + 1, process.started_ns
        for rank, other in self.before[0].items():
            if other.state != "live":  # live processes go on, or end in a moment and are restarted
                del self.processes[rank], self.rank_hosts[rank]

    def _join(self, process: ProcessInfo) -> None:
        """Add a rank to the attempt, which began with the process that was started first."""
        if self.earlier and self._before_ns < process.started_ns < self.attempt_ns:
            self.attempt_ns = process.started_ns
            self.earlier[-1] = msgspec.structs.replace(self.earlier[-1], ended_ns=process.started_ns)

    @property
    def state(self) -> ProcessState:
        """The run's state: ``crashed`` if any process crashed, ``finished`` if all have ended well, else ``live``."""
        states = [process.state for process in self.processes.values()]
        if "crashed" in states:
            return "crashed"
        if not states or "live" in states or len(states) < self.world_size:
            ended = bool(self.hosts) and self.final_hosts >= set(self.hosts)
            return "finished" if ended and "live" not in states else "live"
        return "finished"

    @property
    def world_size(self) -> int:
        """The world size that the processes give, at least the number of ranks seen."""
        said = max((process.world_size for process in self.processes.values()), default=0)
        return max(said, len(self.processes))

    @property
    def started_ns(self) -> int | None:
        """When the oldest known process was started."""
        return min((p.started_ns for p in self.processes.values() if p.started_ns > 0), default=None)

    def begun_ns(self) -> list[int]:
        """Return when each known attempt after the first began, oldest first."""
        begun = [one.began_ns for one in self.earlier if one.number > 1]
        return [*begun, self.attempt_ns] if self.attempt_ns else begun

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
        """Whether a loader feeds training, which is assumed of a loader that nobody has described yet."""
        process = self.processes.get(rank)
        return process is None or all(
            each.loader != loader or each.role == "train" for each in process.loaders
        )


def _is_other(known: ProcessInfo, process: ProcessInfo) -> bool:
    """Whether a rank's process is another one than before."""
    return (known.pid, known.started_ns) != (process.pid, process.started_ns)


class _NewestStarts:
    """When the newest process of a run of so few ranks was started, by which ranks that do not exist any more are known."""

    def __init__(self) -> None:
        self._world_sizes: list[
            int
        ] = []  # both ascending: of a smaller run that began later, no larger one tells more
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
        """Whether a process has ended, and the run was restarted with so few ranks that its rank does not exist any more."""
        if process.state == "live":
            return False
        fewer = bisect_right(self._world_sizes, process.rank)
        return bool(fewer) and self._started_ns[fewer - 1] > process.started_ns


def pack_event(envelope: Envelope, *, facts: bool, spans: bool) -> bytes:
    """Compress an envelope without its rows and without facts that are already known."""
    slim = msgspec.structs.replace(
        envelope,
        tables={},
        processes=envelope.processes if facts else [],
        gpus=envelope.gpus if facts else [],
        spans=envelope.spans if spans else [],
    )
    return zlib.compress(encode(slim), 1)


def unpack_event(body: bytes) -> Envelope:
    """Unpack what ``pack_event`` packed."""
    return decode(zlib.decompress(body))
