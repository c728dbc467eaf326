"""S11: each small sample lies in a large compressed block."""

import os
import tempfile
import zlib

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
    """Samples in blocks of a file without a name; reading one unpacks its whole block."""

    def __init__(self) -> None:
        random = np.random.default_rng(seed)
        self.places: list[tuple[int, int]] = []
        with tempfile.TemporaryFile() as file:
            for _ in range(BLOCKS):
                values = random.integers(0, 200, (rows, SAMPLE), dtype=np.uint8)
                block = zlib.compress(values.tobytes(), 1)
                self.places.append((len(block), file.tell()))
                file.write(block)
            file.flush()
            self.fd = os.dup(file.fileno())

    def __len__(self) -> int:
        return BLOCKS * rows

    def __getitem__(self, index: int) -> Tensor:
        block = zlib.decompress(os.pread(self.fd, *self.places[index // rows]))
        at = index % rows * SAMPLE
        return torch.frombuffer(bytearray(block[at : at + SAMPLE]), dtype=torch.uint8)


torch.manual_seed(seed)
loader = DataLoader(
    Blocks(), batch_size=batch, num_workers=vary(1, 2), shuffle=True, multiprocessing_context="fork"
)
loaderwatch.attach(loader)
train(loader, step_s=vary(0.01, 0.005))
