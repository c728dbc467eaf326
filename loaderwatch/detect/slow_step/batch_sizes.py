"""Which size a step's batch had: fetches (of workers) matched to steps (of the training process)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from loaderwatch.core.records import UNKNOWN
from loaderwatch.core.wire import LoaderInfo
from loaderwatch.detect.window import RankWindow

Ints = NDArray[np.int64]


def batch_bytes(rank: RankWindow, loader: LoaderInfo) -> dict[tuple[int, int], int]:
    """Tensor bytes by (epoch, batch), for the epochs that began within the window.

    Within an epoch the n-th batch that came from a worker is the n-th it fetched. That does not hold with
    ``in_order=False``, and of an epoch whose beginning is no more in the window nobody can tell where to count from.
    """
    if loader.in_order is False:
        return {}
    steps, fetches, begins = rank.table("steps"), rank.table("fetches"), rank.table("epoch_begins")
    mine = fetches["loader"] == loader.loader
    if not mine.any():
        return {}
    began_ns, worker, size = (fetches[name][mine] for name in ("request_ns", "worker", "bytes"))
    rows = steps["loader"] == loader.loader
    epochs, batches = steps["epoch"][rows], steps["batch"][rows]
    # With num_workers=0 nobody is awaited, and the fetches are of worker -1.
    awaited = np.where(steps["awaited_worker"][rows] == UNKNOWN, -1, steps["awaited_worker"][rows])
    starts = {
        int(epoch): int(at)
        for epoch, at, who in zip(begins["epoch"], begins["request_ns"], begins["loader"], strict=True)
        if who == loader.loader
    }
    found: dict[tuple[int, int], int] = {}
    for epoch in np.unique(epochs):
        start, end = starts.get(int(epoch)), starts.get(int(epoch) + 1, 2**62)
        inside = epochs == epoch
        if start is None or int(batches[inside].min()) != 0 or start < int(began_ns[0]) - 60_000_000_000:
            continue
        for who in np.unique(awaited[inside]):
            fetched = size[(worker == who) & (began_ns >= start) & (began_ns < end)]
            delivered = np.sort(batches[inside & (awaited == who)])
            for batch, value in zip(delivered.tolist(), fetched.tolist(), strict=False):
                if value > 0:
                    found[int(epoch), int(batch)] = int(value)
    return found
