"""S49's sibling: workers write decoded samples into one SQLite file: one writes, the others poll its lock."""

import sqlite3
import tempfile
import time
from pathlib import Path

from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import SlowDataset, train, vary

cache = Path(tempfile.mkdtemp()) / "cache.db"
work_s = vary(0.012, 0.02)
open_connections: list[sqlite3.Connection] = []
with sqlite3.connect(cache) as creator:
    creator.execute("CREATE TABLE seen (sample INTEGER, value REAL)")
creator.close()


def connection() -> sqlite3.Connection:
    """One for each worker, opened when it is first needed."""
    if not open_connections:
        open_connections.append(sqlite3.connect(cache, timeout=60.0, isolation_level=None))
    return open_connections[0]


def read(index: int) -> None:
    db = connection()
    db.execute("BEGIN IMMEDIATE")
    time.sleep(work_s)
    db.execute("INSERT INTO seen VALUES (?, ?)", (index, 1.0))
    db.execute("COMMIT")


loader = DataLoader(SlowDataset(100_000, read), batch_size=vary(4, 6), num_workers=vary(4, 6))
loaderwatch.attach(loader)
train(loader, step_s=0.01)
