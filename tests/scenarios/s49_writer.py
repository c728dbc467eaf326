"""S49's sibling: an ingest of the same job holds a transaction of the database that all workers read."""

import multiprocessing
import sqlite3
import tempfile
import time
from pathlib import Path

from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import SlowDataset, train, vary

ROWS = 1000
held_s, free_s = vary(1.5, 1.0), vary(2.5, 3.0)
database = str(Path(tempfile.mkdtemp()) / "clicks.db")


def ingest(path: str) -> None:
    """Collect what is new in a transaction that shuts out all others."""
    own = sqlite3.connect(path, timeout=60, isolation_level=None)
    while True:
        own.execute("BEGIN EXCLUSIVE")
        time.sleep(held_s)
        own.execute("INSERT INTO clicks(value) VALUES (1)")
        own.execute("COMMIT")
        time.sleep(free_s)


def read(index: int) -> None:
    with sqlite3.connect(database, timeout=60) as mine:
        mine.execute("SELECT value FROM clicks WHERE id = ?", (index % ROWS,)).fetchone()
    mine.close()


if __name__ == "__main__":
    with sqlite3.connect(database) as connection:
        connection.execute("CREATE TABLE clicks(id INTEGER PRIMARY KEY, value REAL)")
        connection.executemany("INSERT INTO clicks(value) VALUES (?)", [(1.0,)] * ROWS)
    writer = multiprocessing.get_context("fork").Process(target=ingest, args=(database,), daemon=True)
    writer.start()
    loader = DataLoader(SlowDataset(100_000, read), batch_size=8, num_workers=vary(3, 4))
    loaderwatch.attach(loader)
    train(loader, step_s=0.03)
