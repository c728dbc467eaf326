"""Runs with rows of every table and odd values in them, and how answers about them are compared."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import pytest

from loaderwatch.core.records import TABLES, TIME_COLUMN, UNKNOWN
from loaderwatch.core.wire import Envelope
from tests.fakes.runs import SECOND, T0, envelope, joined, process, span, table

RANKS = 3
LASTS_S = 90
END = T0 + LASTS_S * SECOND


def random_run(seed: int) -> list[Envelope]:
    """Envelopes with rows of every table: unknown values, long waits, and late or repeated envelopes."""
    random = np.random.default_rng(seed)
    made = []
    for host in range(2):
        ranks = [0, 1] if host == 0 else [2]
        for seq in range(1, LASTS_S // 3 + 1):
            low = T0 + (seq - 1) * 3 * SECOND
            tables = {name: joined([_rows_of(random, name, rank, low) for rank in ranks]) for name in TABLES}
            made.append(
                envelope(
                    seq,
                    stream=f"host-{host}",
                    host=f"gpu0{host}",
                    made_ns=low + 3 * SECOND,
                    processes=[process(rank, RANKS) for rank in ranks],
                    tables=tables,
                    spans=[span(rank, low + SECOND, phase="wait", loader=0) for rank in ranks],
                )
            )
    shuffled = [made[i] for i in random.permutation(len(made))]
    return [*shuffled, *shuffled[:5]]


def _rows_of(random: np.random.Generator, name: str, rank: int, low: int) -> dict[str, bytes]:
    count = int(random.integers(4, 9))
    columns: dict[str, Any] = {}
    times = np.sort(low + random.integers(0, 3 * SECOND, count))
    for column in TABLES[name]:
        if column.dtype == "f8":
            values: Any = random.uniform(0, 1, count)
            values[random.random(count) < 0.2] = np.nan
        elif column.name.endswith("_ns"):
            values = random.exponential(0.2 * SECOND, count).astype(np.int64)
            values += (random.random(count) < 0.05) * 7 * SECOND
            values[random.random(count) < 0.1] = UNKNOWN
        else:
            values = random.integers(0, 4, count)
            values[random.random(count) < 0.05] = UNKNOWN
        columns[column.name] = values
    columns |= {"rank": rank} if "rank" in columns else {}
    columns |= {"loader": random.integers(0, 2, count)} if "loader" in columns else {}
    columns |= {"worker": random.integers(-1, 2, count)} if "worker" in columns else {}
    columns |= {"batch": low // SECOND % 1000 * 10 + np.arange(count)} if "batch" in columns else {}
    columns[TIME_COLUMN[name]] = times
    return {
        c.name: np.broadcast_to(columns[c.name], (count,)).astype(f"<{c.dtype}").tobytes()
        for c in TABLES[name]
    }


def in_step(seed: int) -> list[Envelope]:
    """Three ranks that go in step and wait for one another, with events of the device for every batch."""
    random = np.random.default_rng(seed)
    count = LASTS_S * 2
    times = T0 + np.arange(count) * SECOND // 2
    parts: dict[str, list[dict[str, bytes]]] = {"steps": [], "gpu_waits": []}
    for rank in range(RANKS):
        waits = random.integers(0, SECOND // 10, count) + (SECOND // 10 if rank == 1 else 0)
        same: dict[str, Any] = {
            "rank": rank,
            "loader": 0,
            "epoch": 0,
            "batch": np.arange(count),
            "request_ns": times,
        }
        parts["steps"].append(
            table(
                "steps", **same, wait_ns=waits, step_ns=SECOND // 2 - waits, off_main_thread=0,
                ready=waits % 3, collective_ns=SECOND // 4 - waits, optimizer_steps=1,
            )
        )  # fmt: skip
        parts["gpu_waits"].append(table("gpu_waits", **same, starved_ns=waits // 2, gpu_step_ns=SECOND // 4))
    return [
        envelope(
            1,
            run_id="in-step",
            made_ns=END + 60 * SECOND,
            processes=[process(rank, RANKS) for rank in range(RANKS)],
            tables={name: joined(each) for name, each in parts.items()},
        )
    ]


def same(mine: Any, other: Any) -> None:
    """Compare answers; floats may differ in their last digits, as sums are added up in other orders."""
    assert type(mine) is type(other)
    if isinstance(mine, np.ndarray):
        assert mine.dtype == other.dtype
        if mine.dtype.kind == "f":
            np.testing.assert_allclose(mine, other, rtol=1e-9, atol=1e-9)
        else:
            assert mine.tolist() == other.tolist()
    elif is_dataclass(mine):
        for each in fields(mine):
            same(getattr(mine, each.name), getattr(other, each.name))
    elif isinstance(mine, dict):
        assert mine.keys() == other.keys()
        for key in mine:
            same(mine[key], other[key])
    elif isinstance(mine, list | tuple):
        assert len(mine) == len(other)
        for one, two in zip(mine, other, strict=True):
            same(one, two)
    elif isinstance(mine, float):
        assert mine == pytest.approx(other, rel=1e-9)
    else:
        assert mine == other


def in_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows of the same time come in any order."""
    return sorted(rows, key=lambda row: sorted((key, repr(value)) for key, value in row.items()))
