"""S49: each worker keeps a write transaction open for many samples; the others give up and go on."""

import sqlite3
import tempfile
from pathlib import Path

from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import SlowDataset, train, vary

cache = Path(tempfile.mkdtemp()) / "labels.db"
COMMIT_EVERY = vary(150, 200)
LIMIT_S = vary(0.15, 0.2)
state: dict[str, sqlite3.Connection] = {}
pending = [0]
with sqlite3.connect(cache) as creator:
    creator.execute("PRAGMA journal_mode=WAL")
    creator.execute("CREATE TABLE labels (sample INTEGER, value REAL)")
creator.close()


def store(index: int) -> None:
    """Keep a label; one that is missed is computed again later."""
    if "db" not in state:
        state["db"] = sqlite3.connect(cache, timeout=LIMIT_S)
    db = state["db"]
    try:
        db.execute("INSERT INTO labels VALUES (?, ?)", (index, 1.0))
    except sqlite3.OperationalError:
        db.rollback()
        return
    pending[0] += 1
    if pending[0] >= COMMIT_EVERY:
        db.commit()
        pending[0] = 0


loader = DataLoader(SlowDataset(100_000, store), batch_size=vary(12, 16), num_workers=2)
loaderwatch.attach(loader)
train(loader, step_s=0.01)
