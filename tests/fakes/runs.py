"""Synthetic runs: envelopes shaped like a streamer's, with values a test can compute by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loaderwatch.core.facts import HostInfo, LoaderInfo, PhaseName, ProcessInfo, SpanInfo
from loaderwatch.core.records import TABLES, UNKNOWN
from loaderwatch.core.wire import Envelope

SECOND = 10**9
T0 = 1_790_000_000 * SECOND


def table(name: str, **columns: Sequence[float | int] | NDArray[Any] | int | float) -> dict[str, bytes]:
    """A table of the wire; columns not given are not known."""
    rows = max(len(c) for c in columns.values() if isinstance(c, Sequence | np.ndarray))
    packed: dict[str, bytes] = {}
    for column in TABLES[name]:
        given = columns.pop(column.name, UNKNOWN if column.dtype == "i8" else float("nan"))
        values = np.broadcast_to(np.asarray(given), (rows,))
        packed[column.name] = values.astype("<i8" if column.dtype == "i8" else "<f8").tobytes()
    assert not columns, f"no such columns: {sorted(columns)}"
    return packed


def process(rank: int, world_size: int = 1, **more: Any) -> ProcessInfo:
    """A live training process with a train loader 0 and an eval loader 1."""
    facts: dict[str, Any] = {
        "pid": 1000 + rank,
        "rank": rank,
        "local_rank": rank,
        "world_size": world_size,
        "started_ns": T0 - 5 * SECOND,
        "name": "train.py",
        "loaders": [
            LoaderInfo(loader=0, name="train_loader", role="train", class_name="DataLoader", num_workers=2),
            LoaderInfo(loader=1, name="val_loader", role="eval", class_name="DataLoader", num_workers=0),
        ],
    }
    return ProcessInfo(**(facts | more))


def span(rank: int, since_ns: int, worker: int = -1, phase: PhaseName = "step", **more: Any) -> SpanInfo:
    """An open span."""
    return SpanInfo(
        rank=rank, worker=worker, pid=1000 + rank + 10 * (worker + 1), phase=phase, since_ns=since_ns, **more
    )


def envelope(
    seq: int,
    *,
    run_id: str = "run-1",
    stream: str = "host-a",
    host: str = "host-a",
    made_ns: int | None = None,
    tables: Mapping[str, dict[str, bytes]] | None = None,
    processes: Sequence[ProcessInfo] | None = None,
    **more: Any,
) -> Envelope:
    """An envelope made ``seq`` seconds after T0 unless said otherwise."""
    return Envelope(
        run_id=run_id,
        run_name="train.py",
        stream=stream,
        seq=seq,
        made_ns=T0 + seq * SECOND if made_ns is None else made_ns,
        host=HostInfo(name=host, cpus=8),
        processes=[process(0)] if processes is None else list(processes),
        tables=dict(tables or {}),
        **more,
    )


def steps(rank: int, request_ns: Any, wait_ns: Any, step_ns: Any, **more: Any) -> dict[str, bytes]:
    """Rows of ``steps`` of one rank's train loader."""
    count = len(request_ns)
    return table(
        "steps",
        **(
            {
                "rank": rank,
                "loader": 0,
                "epoch": 0,
                "batch": np.arange(count),
                "step": np.arange(count),
                "request_ns": request_ns,
                "wait_ns": wait_ns,
                "step_ns": step_ns,
                "off_main_thread": 0,
            }
            | more
        ),
    )


def joined(tables: Sequence[dict[str, bytes]]) -> dict[str, bytes]:
    """Tables of the same name, one after the other."""
    return {name: b"".join(each[name] for each in tables) for name in tables[0]}
