"""S24: workers keep something of every sample they read."""

from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import SlowDataset, sleep_read, train, vary

batch, workers = vary(8, 4), vary(2, 3)
kept: list[bytearray] = []


def read(index: int) -> None:
    """A cache without a bound: about 30 MB a second in all."""
    sleep_read(0.002)(index)
    kept.append(bytearray(b"x" * (1_500_000 // batch)))


loader = DataLoader(SlowDataset(100_000, read), batch_size=batch, num_workers=workers)
loaderwatch.attach(loader)
train(loader, step_s=vary(0.05, 0.06), seconds=60)
