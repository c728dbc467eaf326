"""S21: now and then a read takes over a second, never the same one; workers read two batches ahead."""

import time

from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import SlowDataset, train, vary

BATCH = vary(8, 4, 16)
EVERY = 270 * BATCH // 8
HICCUP_S = vary(1.2, 1.4)


def read(index: int) -> None:
    """A hiccup every 34 batches."""
    time.sleep(HICCUP_S if index % EVERY == 40 else 0.016 / BATCH)


loader = DataLoader(SlowDataset(100_000, read), batch_size=BATCH, num_workers=2)
loaderwatch.attach(loader)
train(loader, step_s=vary(0.06, 0.07))
