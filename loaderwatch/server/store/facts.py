"""What is known of a run besides rows: who takes part, how loaders are configured, how processes ended."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from loaderwatch.core.wire import Envelope, GpuInfo, HostInfo, ProcessInfo, decode, encode

LOADER_BASE: Final = 1 << 20
"""(rank, loader) as one integer: rank * LOADER_BASE + loader."""


@dataclass
class RunFacts:
    """The newest of each fact. ``take`` envelopes in the order in which they were stored."""

    name: str = ""
    hosts: dict[str, HostInfo] = field(default_factory=dict)
    gpus: dict[str, list[GpuInfo]] = field(default_factory=dict)
    processes: dict[int, ProcessInfo] = field(default_factory=dict)  # by rank
    rank_hosts: dict[int, str] = field(default_factory=dict)
    final_hosts: set[str] = field(default_factory=set)
    _uncounted: NDArray[np.int64] | None = field(default=None, repr=False)
    _optimizer_ranks: NDArray[np.int64] | None = field(default=None, repr=False)

    def take(self, envelope: Envelope) -> bool:
        """Take in an envelope; true when it said something new."""
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
        for process in envelope.processes:
            new = self._take_process(process, host) or new
        return new

    def _take_process(self, process: ProcessInfo, host: str) -> bool:
        known = self.processes.get(process.rank)
        if known == process:
            return False
        if known is not None and known.pid != process.pid and known.started_ns > process.started_ns:
            return False  # an envelope from before the rank was restarted
        if (
            known is not None
            and known.pid == process.pid
            and known.state != "live"
            and process.state == "live"
        ):
            return False  # a late envelope from before its end
        self._uncounted = self._optimizer_ranks = None
        self.processes[process.rank] = process
        self.rank_hosts[process.rank] = host
        return True

    @property
    def state(self) -> str:
        """``crashed`` when any process did, ``finished`` when all have ended well, else ``live``."""
        states = [process.state for process in self.processes.values()]
        if "crashed" in states:
            return "crashed"
        if not states or "live" in states or len(states) < self.world_size:
            ended = bool(self.hosts) and self.final_hosts >= set(self.hosts)
            return "finished" if ended and "live" not in states else "live"
        return "finished"

    @property
    def world_size(self) -> int:
        """As the processes say; at least the number of ranks seen."""
        said = max((process.world_size for process in self.processes.values()), default=0)
        return max(said, len(self.processes))

    @property
    def started_ns(self) -> int | None:
        """When the oldest process known now was started."""
        return min((p.started_ns for p in self.processes.values() if p.started_ns > 0), default=None)

    def uncounted_loaders(self) -> NDArray[np.int64]:
        """Loaders that do not feed training, each as rank * LOADER_BASE + loader."""
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
        """Whether a loader feeds training; one that nobody described yet is taken to."""
        process = self.processes.get(rank)
        return process is None or all(
            each.loader != loader or each.role == "train" for each in process.loaders
        )

    def optimizer_ranks(self) -> NDArray[np.int64]:
        """Ranks whose optimizer is watched: their steps are optimizer steps, not batches."""
        if self._optimizer_ranks is None:
            ranks = [process.rank for process in self.processes.values() if process.has_optimizer]
            self._optimizer_ranks = np.array(ranks, dtype=np.int64)
        return self._optimizer_ranks


def pack_event(envelope: Envelope, *, facts: bool, spans: bool) -> bytes:
    """The envelope without rows, and without what is already known, compressed."""
    slim = msgspec.structs.replace(
        envelope,
        tables={},
        processes=envelope.processes if facts else [],
        gpus=envelope.gpus if facts else [],
        spans=envelope.spans if spans else [],
    )
    return zlib.compress(encode(slim), 1)


def unpack_event(body: bytes) -> Envelope:
    """What ``pack_event`` packed."""
    return decode(zlib.decompress(body))
