"""S09: the dataset is larger than the free memory for the page cache, so every epoch reads it again."""

import os
import tempfile

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

import loaderwatch
from tests.scenarios.control_group import join_memory_group
from tests.scenarios.training import train, vary

batch, size = vary(4, 2, 6), vary(4, 2) * 2**20
SAMPLES = 480 * 2**20 // size
LIMIT = 420 * 2**20


class Stored(Dataset[Tensor]):
    """Samples in a file without a name: it goes with its last reader, however that ends."""

    def __init__(self) -> None:
        with tempfile.TemporaryFile(dir="/var/tmp") as file:
            for _ in range(SAMPLES):
                file.write(os.urandom(1024) * (size // 1024))
            file.flush()
            os.fsync(file.fileno())
            self.fd = os.dup(file.fileno())

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> Tensor:
        return torch.frombuffer(bytearray(os.pread(self.fd, size, index * size)), dtype=torch.uint8)


join_memory_group(LIMIT)
loader = DataLoader(
    Stored(),
    batch_size=batch,
    num_workers=2,
    shuffle=True,
    persistent_workers=True,
    drop_last=True,
    multiprocessing_context="fork",
)
loaderwatch.attach(loader)
train(loader, step_s=vary(0.002, 0.004))
