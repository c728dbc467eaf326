"""Processes that play ranks, without torch: rings and descriptions in shared memory, as ``attach`` makes.

    python -m benchmarks.players '{"folder": ..., "ledger": ..., "ranks": [0, 1], "world_size": 64}'

Every record follows from its rank and number alone. So the ledger, which is written without reading anything
back, is one count per rank: finished steps. ``expected`` says what a store must then hold. Steps come every
100 ms; a player that was held up catches up, up to a second. Each epoch has new worker processes, as with
DataLoaders; they sleep.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from loaderwatch.core.facts import LoaderInfo, ProcessInfo
from loaderwatch.core.files import write_atomically
from loaderwatch.core.records import RECORD_FIELDS, UNKNOWN, EndedBy, IterKind, Phase, RecordKind
from loaderwatch.core.ring import MAIN_CAPACITY, WORKER_CAPACITY, RingIdentity, RingStatus, RingWriter

PERIOD_S = 0.1
WORKERS = 2
COLLECTION_EVERY = 97
LEDGER_EVERY_S = 1.0
SLEEPER = ["sleep", "1000000"]


def epoch_length(rank: int) -> int:
    """In steps; ranks do not begin theirs together."""
    return 500 + 37 * rank % 200


def mark(rank: int, number: Any) -> Any:
    """A number that follows from a record's place: what was stored must carry it."""
    return 1_000 + (number * 2_654_435_761 + rank * 40_503) % 1_000_003


def expected(rank: int, steps: int) -> dict[str, NDArray[np.int64]]:
    """By table, the rows of a rank that finished so many steps, sorted. Columns as in ``STORED``."""
    n = np.arange(steps)
    length = epoch_length(rank)
    begun, ended = np.arange(-(-steps // length)), np.arange(steps // length)
    collections = np.arange(steps // COLLECTION_EVERY)
    return {
        "steps": np.stack([n // length, n % length, n, mark(rank, n)], axis=1),
        "fetches": np.stack([n, n % length // WORKERS, n % length % WORKERS, mark(rank, n)], axis=1),
        "epoch_begins": np.stack([begun, mark(rank, begun)], axis=1),
        "epoch_ends": np.stack([ended, np.full(len(ended), length)], axis=1),
        "collections": np.stack([collections, mark(rank, collections)], axis=1),
    }


STORED = {
    "steps": ("epoch", "batch", "step", "wait_cpu_ns"),
    "fetches": ("slow_index", "ordinal", "worker", "cpu_ns"),
    "epoch_begins": ("epoch", "iter_cpu_ns"),
    "epoch_ends": ("epoch", "batches"),
    "collections": ("collected", "duration_ns"),
}
"""The columns by which a row is known again."""


def describe(pid: int, rank: int, world_size: int) -> ProcessInfo:
    """What a training process says of itself."""
    return ProcessInfo(
        pid=pid,
        rank=rank,
        local_rank=rank,
        world_size=world_size,
        started_ns=time.time_ns(),
        name="train.py",
        argv=["train.py", "--data", "/data/imagenet", "--epochs", "90"],
        gpu_uuid=f"GPU-{rank}",
        has_model=True,
        has_optimizer=True,
        has_stderr=False,
        loaders=[
            LoaderInfo(loader=0, name="train", role="train", class_name="DataLoader", num_workers=WORKERS)
        ],
    )


class Player:
    """One rank: a training process and its workers."""

    def __init__(self, folder: Path, rank: int, world_size: int) -> None:
        self._folder = folder
        self.rank = rank
        self.steps = 0
        self.pid = _sleeper()
        self._workers: list[tuple[int, RingWriter]] = []
        now = time.monotonic_ns()
        info = describe(self.pid, rank, world_size)
        (folder / f"main-{self.pid}.json").write_bytes(msgspec.json.encode(info))
        identity = RingIdentity(self.pid, self.pid, -1, -1, now)
        self._main = RingWriter(folder / f"main-{self.pid}.ring", identity, MAIN_CAPACITY)
        self._main.set_status(RingStatus(False, 0, 0, False))
        self.asked_ns = now

    def step(self) -> None:
        """Everything that is recorded from one step's end to the next's."""
        n, length = self.steps, epoch_length(self.rank)
        epoch, batch = divmod(n, length)
        now = time.monotonic_ns()
        if batch == 0:
            self._begin_epoch(epoch)
        self._fetch(n, batch, now)
        wait_ns = min(5_000_000 + mark(self.rank, n) * 10, now - self.asked_ns)
        step_ns = now - self.asked_ns - wait_ns
        self._append(
            RecordKind.STEP,
            loader=0,
            epoch=epoch,
            batch=batch,
            step=n,
            request_ns=self.asked_ns,
            wait_ns=wait_ns,
            wait_cpu_ns=mark(self.rank, n),
            ready=n % 4,
            cached=0,
            awaited_worker=batch % WORKERS,
            step_ns=step_ns,
            forward_ns=step_ns // 3,
            backward_ns=step_ns // 2,
            optimizer_ns=step_ns // 10,
            nested_ns=0,
            off_main_thread=0,
            optimizer_steps=1,
        )
        self.steps = n + 1
        if self.steps % COLLECTION_EVERY == 0:
            number = n // COLLECTION_EVERY
            self._append(
                RecordKind.COLLECTION,
                worker=-1,
                request_ns=now,
                duration_ns=mark(self.rank, number),
                generation=2,
                collected=number,
            )
        if batch + 1 == length:
            self._append(
                RecordKind.EPOCH_END,
                loader=0,
                epoch=epoch,
                request_ns=now,
                teardown_ns=1_000_000,
                batches=length,
                ended_by=EndedBy.EXHAUSTED,
            )
            self._end_workers()
        self.asked_ns = now
        phase = Phase.WAIT if n % 10 == 0 else Phase.FORWARD
        self._main.set_span(
            phase, now, 0, epoch, batch + 1, n + 1, (batch + 1) % WORKERS, batches=n + 1, steps=n + 1
        )

    def end(self) -> None:
        """A process that ended in order: its ring says so, and it is gone."""
        self._end_workers()
        self._main.set_span(Phase.OUTSIDE, time.monotonic_ns(), batches=self.steps, steps=self.steps)
        self._main.set_status(RingStatus(True, 0, 0, False))
        _end(self.pid)

    def _begin_epoch(self, epoch: int) -> None:
        for worker in range(WORKERS):
            pid = _sleeper()
            # Not ``now``: a ring that is 1 s older than its process means that the pid was reused.
            identity = RingIdentity(pid, self.pid, 0, worker, time.monotonic_ns())
            path = self._folder / f"worker-{self.pid}-0-{worker}-{pid}.ring"
            ring = RingWriter(path, identity, WORKER_CAPACITY)
            ring.set_status(RingStatus(False, 0, 0, False))
            self._workers.append((pid, ring))
        self._append(
            RecordKind.EPOCH_BEGIN,
            loader=0,
            epoch=epoch,
            request_ns=self.asked_ns,
            iter_ns=2_000_000,
            iter_cpu_ns=mark(self.rank, epoch),
            sampler_ns=100_000,
            first_wait_ns=5_000_000,
            iter_kind=IterKind.STARTED,
            workers=WORKERS,
            drained=0,
            gap_ns=1_000_000,
        )

    def _fetch(self, n: int, batch: int, now: int) -> None:
        ring = self._workers[batch % WORKERS][1]
        fetch_ns = 60_000_000 + mark(self.rank, n) * 20
        record = {
            "loader": 0,
            "worker": batch % WORKERS,
            "ordinal": batch // WORKERS,
            "request_ns": now - fetch_ns,
            "fetch_ns": fetch_ns,
            "collate_ns": 1_000_000,
            "cpu_ns": mark(self.rank, n),
            "idle_ns": 20_000_000,
            "samples": 32,
            "slow_index": n,
            "slow_ns": 3_000_000,
            "bytes": 1_000_000,
        }
        _append(ring, RecordKind.FETCH, record)
        ring.set_span(Phase.FETCH, now, 0, sample_index=n, sample_since_ns=now, batches=batch // WORKERS + 1)

    def _end_workers(self) -> None:
        for pid, ring in self._workers:
            ring.set_status(RingStatus(True, 0, 0, False))
            ring.close()
            _end(pid)
        self._workers.clear()

    def _append(self, kind: RecordKind, **fields: int) -> None:
        _append(self._main, kind, fields)


def _append(ring: RingWriter, kind: RecordKind, fields: dict[str, int]) -> None:
    ring.append(kind, **(dict.fromkeys(RECORD_FIELDS[kind], UNKNOWN) | fields))


def _sleeper() -> int:
    """A process that has a pid and uses nothing."""
    return os.posix_spawnp(SLEEPER[0], SLEEPER, os.environ)


def _end(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def main() -> None:
    """Play until SIGTERM; then say goodbye as training processes do."""
    want = json.loads(sys.argv[1])
    ledger = Path(want["ledger"])
    stopping: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: stopping.append(number))
    players = [Player(Path(want["folder"]), rank, want["world_size"]) for rank in want["ranks"]]
    due = written = time.monotonic()
    late_s = 0.0
    while not stopping:
        for player in players:
            due += PERIOD_S / len(players)
            behind = time.monotonic() - due
            late_s = max(late_s, behind)
            if behind > 1.0:
                due += behind
            elif behind < 0:
                time.sleep(-behind)
            player.step()
        if time.monotonic() - written > LEDGER_EVERY_S:
            written = time.monotonic()
            _write(ledger, players, late_s, ended=False)
    for player in players:
        player.end()
    _write(ledger, players, late_s, ended=True)


def _write(path: Path, players: list[Player], late_s: float, *, ended: bool) -> None:
    told = {"steps": {p.rank: p.steps for p in players}, "late_s": late_s, "ended": ended}
    write_atomically(path, json.dumps(told).encode())


if __name__ == "__main__":
    main()
