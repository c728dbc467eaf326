"""S42: workers cannot start: ``pickle`` (local function), ``guard`` (no main guard), ``daemon`` (in pool)."""

import multiprocessing
import sys
import time
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

import loaderwatch
from tests.scenarios.training import vary


class Numbers(Dataset[Tensor]):
    """Fit to be pickled."""

    def __len__(self) -> int:
        return 1000

    def __getitem__(self, index: int) -> Tensor:
        return torch.full((16,), float(index))


def run(how: str) -> None:
    """Train, or try to."""
    more: dict[str, Any] = {"multiprocessing_context": vary("spawn", "forkserver")} if how != "daemon" else {}
    if how == "pickle":
        more["collate_fn"] = lambda samples: samples
    loader = DataLoader(Numbers(), batch_size=vary(8, 4), num_workers=vary(2, 3), **more)
    loaderwatch.attach(loader)
    for _ in loader:
        time.sleep(0.01)


way = sys.argv[1]
if way == "daemon" and __name__ == "__main__":
    process = multiprocessing.get_context("fork").Process(target=run, args=(way,), daemon=True)
    process.start()
    process.join()
elif way == "guard" or __name__ == "__main__":
    run(way)
