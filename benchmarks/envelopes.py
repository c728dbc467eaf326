"""Makes envelopes as streamers send them, fast enough to load a server or a store.

By default each rank makes 10 steps/s and 10 GPU samples/s. 8 ranks share a host and its streamer, which
sends two envelopes a second.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from loaderwatch.core.facts import GpuInfo, HostInfo, LoaderInfo, PhaseName, ProcessInfo, SpanInfo
from loaderwatch.core.records import TABLES, UNKNOWN
from loaderwatch.core.wire import Envelope

SECOND: Final = 10**9
RANKS_PER_STREAMER: Final = 8
INTERVAL_S: Final = 0.5
PER_S: Final = 10
RUN: Final = "bench"


class Streamer:
    """Makes the envelopes of one host. Times move on; the other values are drawn once.

    Of each rank's steps in an envelope the last one ends when it is made, the others every 100 ms before.
    """

    def __init__(
        self,
        number: int,
        ranks: Sequence[int],
        world_size: int,
        workers: int,
        interval_s: float = INTERVAL_S,
        per_s: int = PER_S,
    ) -> None:
        self.name = f"host-{number:03d}"
        self.number, self.workers, self.per_s = number, workers, per_s
        self.ranks = list(ranks)
        self.seq = self._done = 0
        self._stands: tuple[int, int] | None = None
        self.send_every(interval_s)
        started = time.time_ns() - SECOND
        self._infos = [
            ProcessInfo(
                pid=1000 + rank,
                rank=rank,
                local_rank=rank % RANKS_PER_STREAMER,
                world_size=world_size,
                started_ns=started,
                name="train.py",
                loaders=[
                    LoaderInfo(
                        loader=0,
                        name="train_loader",
                        role="train",
                        class_name="DataLoader",
                        num_workers=workers,
                    )
                ],
            )
            for rank in self.ranks
        ]
        self._gpu_infos = [
            GpuInfo(gpu=rank % 8, uuid=f"GPU-{rank}", name="NVIDIA H200", rank=rank) for rank in self.ranks
        ]
        self._host = HostInfo(name=self.name, cpus=64, usable_cpus=64.0)

    def send_every(self, interval_s: float) -> None:
        """Draw the rows of an envelope that is sent so often."""
        random = np.random.default_rng(self.number)
        workers = self.workers
        self.interval_s = interval_s
        self.steps = count = max(1, int(self.per_s * interval_s))
        each = np.repeat(np.array(self.ranks), count)
        self._offsets = np.tile(np.arange(count) * SECOND // self.per_s, len(self.ranks))
        wait = random.integers(10**6, 4 * 10**7, len(each))
        step = np.full(len(each), SECOND // self.per_s) - wait
        self._steps = _columns(
            "steps",
            len(each),
            rank=each,
            loader=0,
            epoch=0,
            off_main_thread=0,
            wait_ns=wait,
            wait_cpu_ns=wait // 50,
            ready=random.integers(0, 4, len(each)),
            cached=0,
            step_ns=step,
            forward_ns=step // 3,
            backward_ns=step // 2,
            optimizer_ns=step // 10,
        )
        self._gpus = _columns(
            "gpus",
            len(each),
            rank=each,
            gpu=each % 8,
            utilization_ratio=random.random(len(each)),
            power_w=random.random(len(each)) * 700,
            memory_used_bytes=5e10,
            memory_total_bytes=8e10,
            sm_clock_hz=1.8e9,
            temperature_c=60.0,
        )
        self._fetches = _columns(
            "fetches",
            len(each),
            rank=each,
            loader=0,
            worker=np.arange(len(each)) % max(1, workers),
            fetch_ns=random.integers(10**7, 10**8, len(each)),
            collate_ns=10**6,
            samples=32,
            slow_index=random.integers(0, 10**6, len(each)),
            slow_ns=random.integers(10**6, 10**7, len(each)),
            bytes=10**6,
        )
        alive = [(rank, worker) for rank in self.ranks for worker in range(-1, workers)]
        samples = max(1, int(interval_s))  # of processes and hosts there is one a second
        self._ages = np.arange(samples)[::-1] * SECOND
        self._processes = _columns(
            "processes",
            len(alive) * samples,
            rank=np.tile([rank for rank, _ in alive], samples),
            loader=0,
            worker=np.tile([worker for _, worker in alive], samples),
            pid=np.tile(np.arange(len(alive)) + 1000, samples),
            state=ord("S"),
            cpu_ratio=random.random(len(alive) * samples),
            rss_bytes=1e9,
        )
        self._alive = alive

    def stand(self, since_ns: int, odd: int) -> None:
        """Stop all steps at a time: one rank waits for its batch, and all others wait for it in backward."""
        self._stands = self._stands or (since_ns, odd)

    def envelope(self, made_ns: int) -> Envelope:
        """What ended within the interval before ``made_ns``."""
        self.seq += 1
        times = self._offsets + (made_ns - int(self.interval_s * SECOND))
        stamps = times.tobytes()
        batch = (times // (SECOND // self.per_s)).tobytes()
        tables = {
            "steps": {**self._steps, "request_ns": stamps, "batch": batch, "step": batch},
            "gpus": {**self._gpus, "t_ns": stamps},
            "fetches": {**self._fetches, "request_ns": stamps, "ordinal": batch},
        }
        if self.seq % 2 or self.interval_s >= 1:
            tables["processes"] = {
                **self._processes,
                "t_ns": np.repeat(made_ns - self._ages, len(self._alive)).tobytes(),
            }
            tables["hosts"] = _columns(
                "hosts", len(self._ages), t_ns=made_ns - self._ages, cpu_ratio=0.5, usable_cpus=64.0
            )
        if self._stands is None:
            self._done = self.seq
        else:
            del tables["steps"], tables["fetches"]
        spans = [
            SpanInfo(
                rank=rank,
                worker=worker,
                pid=1000 + i,
                phase=self._phase(rank, worker),
                since_ns=made_ns - 10**7 if self._stands is None else self._stands[0],
                loader=0,
                epoch=0,
                batch=self._done,
                steps=self._done * self.steps,
                batches=self._done * self.steps,
            )
            for i, (rank, worker) in enumerate(self._alive)
        ]
        return Envelope(
            run_id=RUN,
            run_name="benchmark",
            stream=self.name,
            seq=self.seq,
            made_ns=made_ns,
            host=self._host,
            processes=self._infos,
            gpus=self._gpu_infos,
            spans=spans,
            tables=tables,
        )

    def _phase(self, rank: int, worker: int) -> PhaseName:
        if worker >= 0:
            return "fetch"
        if self._stands is None:
            return "step"
        return "wait" if rank == self._stands[1] else "backward"

    @property
    def rows(self) -> float:
        """Rows of an envelope, on average."""
        seldom = 2 if self.interval_s < 1 else 1
        return 3 * len(self.ranks) * self.steps + (len(self._alive) + 1) * len(self._ages) / seldom


def _columns(table: str, rows: int, **given: Any) -> dict[str, bytes]:
    packed = {}
    for column in TABLES[table]:
        value = given.get(column.name, UNKNOWN if column.dtype == "i8" else np.nan)
        kind = "<i8" if column.dtype == "i8" else "<f8"
        packed[column.name] = np.broadcast_to(np.asarray(value), (rows,)).astype(kind).tobytes()
    return packed


def streamers(ranks: int, workers: int, interval_s: float = INTERVAL_S, per_s: int = PER_S) -> list[Streamer]:
    """The streamers for ``ranks`` ranks. Each sends an envelope every ``interval_s``."""
    return [
        Streamer(i, range(first, min(first + RANKS_PER_STREAMER, ranks)), ranks, workers, interval_s, per_s)
        for i, first in enumerate(range(0, ranks, RANKS_PER_STREAMER))
    ]
