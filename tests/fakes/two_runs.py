"""Runs of a speed, a wait and settings of the test's own, minutes long, for comparisons."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from loaderwatch.core.facts import LoaderInfo
from loaderwatch.core.wire import Envelope
from loaderwatch.detect.finding import Finding, Texts
from loaderwatch.server.alerts.alert_book import Alert
from loaderwatch.server.store.duckdb import DuckDBStore
from tests.fakes.runs import SECOND, T0, envelope, process, steps, table


def paced(
    run_id: str,
    *,
    iteration_s: float = 0.1,
    wait_ratio: float = 0.5,
    seconds: float = 120.0,
    noise: float = 0.1,
    began_ns: int = T0,
    ranks: int = 1,
    state: str = "finished",
    epochs: int = 4,
    start_s: float = 2.0,
    **loader: Any,
) -> Envelope:
    """One envelope with a whole run. ``loader``: its train loader; ``start_s``: first wait of an epoch."""
    rng = np.random.default_rng(sum(map(ord, run_id)))
    count = int(seconds / iteration_s)
    parts = []
    for rank in range(ranks):
        spread = np.maximum(0.2, 1 + noise * rng.normal(size=count))
        lengths = (iteration_s * SECOND * spread).astype(np.int64)
        request_ns = began_ns + np.concatenate([[0], np.cumsum(lengths)[:-1]])
        wait_ns = (lengths * wait_ratio).astype(np.int64)
        parts.append(steps(rank, request_ns, wait_ns, lengths - wait_ns, optimizer_steps=1))
    at_ns = began_ns + np.arange(epochs) * int(seconds / epochs * SECOND)
    began = table(
        "epoch_begins", rank=0, loader=0, epoch=np.arange(epochs), request_ns=at_ns, iter_ns=SECOND // 10,
        first_wait_ns=int(start_s * SECOND), gap_ns=SECOND // 2,
    )  # fmt: skip
    facts: dict[str, Any] = {
        "loader": 0, "name": "train_loader", "role": "train", "class_name": "DataLoader", "batch_size": 32,
    }  # fmt: skip
    info = LoaderInfo(**(facts | loader))
    processes = [
        process(
            rank,
            ranks,
            loaders=[info],
            state=state,
            steps=count if state == "finished" else None,
            started_ns=began_ns,
        )
        for rank in range(ranks)
    ]
    tables = {
        "steps": {name: b"".join(part[name] for part in parts) for name in parts[0]},
        "epoch_begins": began,
    }
    return envelope(
        1, run_id=run_id, stream=run_id[:64], made_ns=began_ns + int(seconds * SECOND), tables=tables,
        processes=processes, final=state == "finished",
    )  # fmt: skip


def store_advised(runs_dir: Path, began_ns: int) -> None:
    """Store run-a, which is over. Its alert advises eight workers instead of two, to save half the time."""
    store = DuckDBStore(runs_dir)
    store.append([paced("run-a", began_ns=began_ns, num_workers=2)])
    finding = Finding(
        key="input-bound:0:steady", code="input-bound", scenario="S02", severity="critical", confidence=0.9,
        rank=0, began_ns=began_ns + SECOND,
        texts=Texts(title="Training waits for data half of its time.", cause="Two workers are too few.",
                    advice="Raise num_workers 2 → 8: reads are slow."),
        lost_s=60.0, gain_ceiling_ratio=0.5,
    )  # fmt: skip
    over_ns = began_ns + 120 * SECOND
    alert = Alert("run-a.1", finding, "resolved", began_ns + 5 * SECOND, over_ns, over_ns)
    store.save_alerts("run-a", [alert.stored()])
    store.close()


def following(began_ns: int) -> Envelope:
    """The envelope of run-b, which has those eight workers."""
    return paced("run-b", began_ns=began_ns, iteration_s=0.055, wait_ratio=0.08, start_s=0.5, num_workers=8)
