"""Pauses of the garbage collector, recorded while they happen for real."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

import loaderwatch
from loaderwatch.agent.process.garbage import watch_collections
from loaderwatch.core.clock import monotonic_ns
from loaderwatch.core.records import RECORD_FIELDS, RecordKind
from loaderwatch.core.ring import RingIdentity, RingReader, RingWriter

NUMBERS = TensorDataset(torch.arange(2))


def collections(path: Path) -> list[dict[str, int]]:
    """What the ring holds."""
    reader = RingReader(path)
    rows = reader.drain(0).records.get(RecordKind.COLLECTION, [])
    reader.close()
    return [dict(zip(RECORD_FIELDS[RecordKind.COLLECTION], row, strict=True)) for row in rows]


def test_a_long_pause_is_recorded_and_a_short_one_is_not(tmp_path: Path) -> None:
    ring = RingWriter(tmp_path / "a.ring", RingIdentity(1, 1, -1, -1, 0), 64)
    before = len(gc.callbacks)
    stop = watch_collections(ring, 3)
    heap = [[number] for number in range(300_000)]
    began = monotonic_ns()
    gc.collect()
    ended = monotonic_ns()
    (long,) = [row for row in collections(tmp_path / "a.ring") if row["request_ns"] >= began]
    assert (long["worker"], long["generation"]) == (3, 2)
    assert 1_000_000 <= long["duration_ns"] <= ended - began
    gc.collect(0)  # nothing young is left
    assert len([row for row in collections(tmp_path / "a.ring") if row["request_ns"] >= ended]) == 0
    stop()
    stop()
    assert len(gc.callbacks) == before
    gc.collect()
    assert collections(tmp_path / "a.ring")[-1] == long
    del heap
    ring.close()


@pytest.mark.parametrize("collects", [True, False])
def test_attach_leaves_the_collector_as_it_was(data_dir: Path, no_streamer: None, collects: bool) -> None:
    """Also when an argument is refused."""
    was = gc.isenabled()
    (gc.enable if collects else gc.disable)()
    try:
        loaderwatch.attach(DataLoader(NUMBERS))
        assert gc.isenabled() is collects
        with pytest.raises(ValueError, match="role"):
            loaderwatch.attach(DataLoader(NUMBERS), role="none")
        assert gc.isenabled() is collects
    finally:
        (gc.enable if was else gc.disable)()
