"""S11: each small sample lies in a large compressed block."""

import tempfile
import zlib
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

import loaderwatch
from tests.scenarios.training import train, vary

block_mb, batch, seed = vary(2.0, 1.0, 3.0), vary(8, 4, 16), vary(0, 1, 2)
SAMPLE = 2048
BLOCKS = 8
rows = int(block_mb * 1e6) // SAMPLE


class Blocks(Dataset[Tensor]):
    """Samples in blocks; reading one unpacks its whole block."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        random = np.random.default_rng(seed)
        for block in range(BLOCKS):
            values = random.integers(0, 200, (rows, SAMPLE), dtype=np.uint8)
            (folder / str(block)).write_bytes(zlib.compress(values.tobytes(), 1))

    def __len__(self) -> int:
        return BLOCKS * rows

    def __getitem__(self, index: int) -> Tensor:
        block = zlib.decompress((self.folder / str(index // rows)).read_bytes())
        at = index % rows * SAMPLE
        return torch.frombuffer(bytearray(block[at : at + SAMPLE]), dtype=torch.uint8)


with tempfile.TemporaryDirectory() as folder:
    torch.manual_seed(seed)
    loader = DataLoader(Blocks(Path(folder)), batch_size=batch, num_workers=vary(1, 2), shuffle=True)
    loaderwatch.attach(loader)
    train(loader, step_s=vary(0.01, 0.005), seconds=25)
