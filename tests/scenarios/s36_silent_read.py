"""S36: reading one sample waits for an answer that never comes."""

import os

from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import SlowDataset, built_in, train, vary

INDEX = vary(333, 205, 517)


def read(index: int) -> None:
    """Asks storage that has gone silent."""
    if index == INDEX:
        answer, _ = os.pipe()
        os.read(answer, 1)


batch, workers = vary(8, 4, 12), vary(2, 3)
built_in(worker=INDEX // batch % workers, samples=[INDEX])
loader = DataLoader(SlowDataset(100_000, read), batch_size=batch, num_workers=workers)
loaderwatch.attach(loader)
train(loader, step_s=vary(0.05, 0.07), seconds=60)
