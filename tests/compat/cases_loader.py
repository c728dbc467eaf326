"""The DataLoader's own options."""

from __future__ import annotations

from typing import Any

from torch.utils.data import DataLoader

from tests.compat.case import FORK, FORKSERVER, SPAWN, Watcher, batches, case
from tests.compat.datasets import Squares, Stream

ALL = (FORK, FORKSERVER, SPAWN)


@case(methods=ALL)
def map_style(watch: Watcher) -> Any:
    return [batches(watch(DataLoader(Squares(), batch_size=5, num_workers=n))) for n in (0, 1)]


@case(methods=ALL)
def iterable(watch: Watcher) -> Any:
    return [batches(watch(DataLoader(Stream(), batch_size=4, num_workers=n))) for n in (0, 1)]
