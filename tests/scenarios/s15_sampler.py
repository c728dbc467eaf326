"""S15: the sampler shuffles millions of indices at the start of each short epoch."""

from collections.abc import Iterator

import torch
from torch.utils.data import DataLoader, Sampler

import loaderwatch
from tests.scenarios.training import SlowDataset, sleep_read, train, vary

BATCH, SAMPLES = vary(8, 4), vary(10_000_000, 12_000_000)


class Shuffled(Sampler[int]):
    """A random subset for each epoch, drawn from a permutation of everything."""

    def __iter__(self) -> Iterator[int]:
        yield from torch.randperm(SAMPLES).tolist()[: 30 * BATCH]

    def __len__(self) -> int:
        return 30 * BATCH


loader = DataLoader(
    SlowDataset(SAMPLES, sleep_read(0.001)),
    batch_size=BATCH,
    sampler=Shuffled(),
    num_workers=2,
    persistent_workers=True,
)
loaderwatch.attach(loader)
train(loader, step_s=vary(0.04, 0.05))
