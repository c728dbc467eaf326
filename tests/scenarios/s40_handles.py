"""S40's sibling: each worker keeps a handle for every file it has read. Run under a low ``ulimit -n``."""

import os
import tempfile
from pathlib import Path

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

import loaderwatch
from tests.scenarios.training import train, vary

FILES = 4000


class Shards(Dataset[Tensor]):
    """Samples in many small files that are opened once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.handles: dict[int, int] = {}

    def __len__(self) -> int:
        return 100_000

    def __getitem__(self, index: int) -> Tensor:
        number = (index // 6) % FILES
        if number not in self.handles:
            self.handles[number] = os.open(self.folder / f"{number}.bin", os.O_RDONLY)
        return torch.full((16,), float(os.pread(self.handles[number], 1, 0)[0]))


if __name__ == "__main__":
    root = Path(tempfile.mkdtemp())
    for name in range(FILES):
        (root / f"{name}.bin").write_bytes(b"x")
    loader = DataLoader(
        Shards(root), batch_size=8, num_workers=vary(2, 3), multiprocessing_context=vary("spawn", "fork")
    )
    loaderwatch.attach(loader)
    train(loader, step_s=vary(0.05, 0.04))
