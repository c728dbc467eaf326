"""A malicious job or a stolen agent token: its data is stored and shown, or refused without effect."""

from __future__ import annotations

import random
import struct
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from loaderwatch.core.errors import WireError
from loaderwatch.core.facts import MAX_RANKS
from loaderwatch.core.wire import decode
from loaderwatch.server.live.run import LiveRun
from loaderwatch.server.queries import charts
from loaderwatch.server.queries.heatmap import heatmap
from loaderwatch.server.store.duckdb import DuckDBStore
from loaderwatch.server.store.metrics import METRICS
from loaderwatch.server.window.replay import rebuild
from tests.fakes.hostile import full_envelope

NUMBERS = [0, 1, -1, 2**31, 2**53, 2**62, 2**63 - 1, -(2**63), MAX_RANKS - 1, 10**18]
TEXTS = [
    "",
    "x" * 10_000,
    "../../etc/passwd",
    "\0",
    "\x1b[2J\x1b]0;title\x07",
    "<img src=x onerror=alert(1)>",
    "a\r\nb",
    "\u202egpj",
]
FLOATS = [float("nan"), float("inf"), -1e308, 1e308, 5e-324]


def spoil(value: Any, chance: random.Random) -> Any:
    """Another value of the same type."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return chance.choice(NUMBERS)
    if isinstance(value, float):
        return chance.choice(FLOATS)
    if isinstance(value, str):
        return chance.choice(TEXTS)
    if isinstance(value, bytes) and value:
        words = [
            chance.choice(
                [
                    struct.pack("<q", chance.choice(NUMBERS)),
                    struct.pack("<d", chance.choice(FLOATS)),
                    value[:8],
                ]
            )
            for _ in range(len(value) // 8)
        ]
        return b"".join(words)
    return value


def spoiled(seed: int) -> bytes:
    """An envelope with some of its values out of this world."""
    chance = random.Random(seed)
    envelope = full_envelope()
    share = chance.choice([0.02, 0.1, 0.4])

    def walk(at: Any, top: bool) -> None:
        for key in list(at) if isinstance(at, dict) else range(len(at)):
            if top and key in ("schema", "run_id", "stream", "seq", "made_ns"):
                continue
            if isinstance(at[key], (dict, list)):
                walk(at[key], False)
            elif chance.random() < share:
                at[key] = spoil(at[key], chance)

    walk(envelope, True)
    return msgspec.msgpack.encode(envelope)


def use(store: DuckDBStore, payload: bytes) -> bool:
    """All that the server does with an envelope; false when it was refused."""
    try:
        envelope = decode(payload)
    except WireError:
        return False
    store.append([envelope])
    live = LiveRun(envelope.run_id, store)
    live.take(envelope)
    live.look()
    live.detect(time.time_ns())
    state = live.look()
    msgspec.json.decode(state.summary)
    msgspec.json.decode(state.findings)
    assert live.detector_faults == 0
    store.tidy()
    run = envelope.run_id
    for metric in METRICS:
        charts.several_series(store, run, [metric], None, None, None, 50)
    heatmap(store, run, "data_wait_ratio", None, None, 50)
    charts.epochs(store, run, None)
    charts.fetches(store, run, 0, None, None, 100)
    charts.slow_samples(store, run, None, 10)
    rebuild(store, run).window()
    return True


def run_all(folder: Path, seeds: Iterable[int]) -> int:
    taken = 0
    for seed in seeds:
        store = DuckDBStore(folder / str(seed))
        try:
            taken += use(store, spoiled(seed))
        except Exception as error:
            raise AssertionError(f"seed {seed}") from error
        finally:
            store.close()
    return taken


def test_spoiled_values_break_nothing(tmp_path: Path) -> None:
    assert run_all(tmp_path, [*range(7), 154]) >= 2  # the last has an epoch of a rank that is none


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_many_spoiled_values_break_nothing(tmp_path: Path) -> None:
    assert run_all(tmp_path, range(100, 220)) >= 20
