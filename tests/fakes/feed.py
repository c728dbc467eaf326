"""A streamer's envelopes made by hand, in the present, for tests of a running server."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable
from typing import Any

from loaderwatch.core.facts import HostInfo, LoaderInfo, ProcessInfo, SpanInfo
from loaderwatch.core.records import UNKNOWN, pack_row
from loaderwatch.core.wire import Envelope, pack_table

SECOND = 10**9


class Feed:
    """One host's stream of a run with one rank; steps of 0.1 s, half of each waiting for data."""

    def __init__(
        self, run_id: str = "run-1", *, host: str = "gpu01", rank: int = 0, world_size: int = 1
    ) -> None:
        self.run_id = run_id
        self.host = host
        self.rank = rank
        self.world_size = world_size
        self.seq = 0
        self.steps = 0
        self.started_ns = time.time_ns() - 60 * SECOND

    def process(self, **more: Any) -> ProcessInfo:
        """The training process."""
        loader = LoaderInfo(
            loader=0, name="train_loader", role="train", class_name="DataLoader", num_workers=2
        )
        facts: dict[str, Any] = {
            "pid": 4000 + self.rank,
            "rank": self.rank,
            "local_rank": self.rank,
            "world_size": self.world_size,
            "started_ns": self.started_ns,
            "name": "train.py",
            "loaders": [loader],
        }
        return ProcessInfo(**(facts | more))

    def of_ranks(self, ranks: Iterable[int], slow: Collection[int] = ()) -> Envelope:
        """An envelope with five steps of 0.1 s per rank. Ranks in ``slow`` wait 65 % of it, others 2 %."""
        self.seq += 1
        now_ns = time.time_ns()
        rows = [
            pack_row(
                "steps",
                {
                    "rank": rank, "loader": 0, "epoch": 0, "batch": self.steps + n, "step": self.steps + n,
                    "request_ns": now_ns - (5 - n) * SECOND // 10, "wait_ns": wait_ns, "wait_cpu_ns": 10**6,
                    "ready": 0, "cached": 0,
                    "awaited_worker": 0, "step_ns": SECOND // 10 - wait_ns, "nested_ns": 0,
                    "off_main_thread": 0, "optimizer_steps": 1,
                },
            )
            for rank in ranks
            for wait_ns in [SECOND // 10 * (65 if rank in slow else 2) // 100]
            for n in range(5)
        ]  # fmt: skip
        self.steps += 5
        processes = [self.process(rank=rank, local_rank=rank % 8, pid=4000 + rank) for rank in ranks]
        return Envelope(
            run_id=self.run_id,
            run_name="train.py",
            stream=f"{self.run_id}-{self.host}".replace(".", "-")[:64],
            seq=self.seq,
            made_ns=now_ns,
            host=HostInfo(name=self.host, cpus=8),
            processes=processes,
            tables={"steps": pack_table("steps", rows)},
        )

    def envelope(
        self, *, steps: int = 5, state: str = "live", exit: str | None = None, **more: Any
    ) -> Envelope:
        """The next one, made now, with that many steps up to now."""
        self.seq += 1
        now_ns = time.time_ns()
        rows = []
        for index in range(steps):
            at_ns = now_ns - (steps - index) * SECOND // 10
            known = {
                "rank": self.rank, "loader": 0, "epoch": 0, "batch": self.steps, "step": self.steps,
                "request_ns": at_ns, "wait_ns": SECOND // 20, "wait_cpu_ns": 10**6, "ready": 0, "cached": 0,
                "awaited_worker": 0, "step_ns": SECOND // 20, "h2d_ns": UNKNOWN, "forward_ns": UNKNOWN,
                "backward_ns": UNKNOWN, "optimizer_ns": UNKNOWN, "nested_ns": 0, "off_main_thread": 0,
                "optimizer_steps": 1, "collective_ns": UNKNOWN,
            }  # fmt: skip
            rows.append(list(known.values()))
            self.steps += 1
        span = SpanInfo(
            rank=self.rank, worker=-1, pid=4000 + self.rank, phase="wait", since_ns=now_ns - SECOND // 20,
            loader=0, epoch=0, batch=self.steps, step=self.steps, batches=self.steps, steps=self.steps,
        )  # fmt: skip
        facts: dict[str, Any] = {
            "run_id": self.run_id,
            "run_name": "train.py",
            "stream": f"{self.run_id}-{self.host}"[:64],
            "seq": self.seq,
            "made_ns": now_ns,
            "host": HostInfo(name=self.host, cpus=8),
            "processes": [self.process(state=state, exit=exit)],
            "spans": [span] if state == "live" else [],
            "tables": {"steps": pack_table("steps", rows)} if rows else {},
        }
        return Envelope(**(facts | more))
