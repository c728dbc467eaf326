"""What our guard swallowed in other processes than pytest's own: a training goes on, a test must not."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path

import duckdb

from loaderwatch.core.wire import Envelope
from loaderwatch.server.store.facts import unpack_event


def own_faults(envelopes: Iterable[Envelope]) -> dict[tuple[int, int], int]:
    """How many, by rank and pid of the training processes that said so; empty when all went well."""
    return {
        (process.rank, process.pid): process.faults
        for envelope in envelopes
        for process in envelope.processes
        if process.faults
    }


def stored_faults(runs_dir: Path, run_id: str) -> dict[tuple[int, int], int]:
    """The same for a stored run, read beside the server from a copy with its write-ahead log."""
    with tempfile.TemporaryDirectory() as scratch:
        for path in runs_dir.glob(f"{run_id}.duckdb*"):
            shutil.copy(path, scratch)
        (copy,) = Path(scratch).glob("*.duckdb")
        with duckdb.connect(str(copy)) as connection:
            bodies = connection.execute("SELECT body FROM events").fetchall()
    envelopes = [unpack_event(body) for (body,) in bodies]
    assert any(envelope.processes for envelope in envelopes), f"{run_id}: nothing is known of its processes"
    return own_faults(envelopes)
