"""S40: the workers open a file for each sample and close none. Run under a low ``ulimit -n``."""

import tempfile
from typing import BinaryIO

from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import SlowDataset, train, vary

opened: list[BinaryIO] = []
every = vary(8, 6)


def read(index: int) -> None:
    """A sample from a file of its own."""
    if index % every == 0:
        opened.append(tempfile.TemporaryFile())  # noqa: SIM115 - that is what it is about


if __name__ == "__main__":
    loader = DataLoader(SlowDataset(100_000, read), batch_size=8, num_workers=vary(2, 1))
    loaderwatch.attach(loader)
    train(loader, step_s=vary(0.05, 0.04))
