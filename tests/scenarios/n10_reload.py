"""N10: after some epochs a framework recreates the workers, once, and changes the dataset (close_mosaic)."""

import time

from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import SlowDataset, sleep_read, vary


def make(seconds: float) -> DataLoader[object]:
    """A loader with workers that live on."""
    loader: DataLoader[object] = DataLoader(
        SlowDataset(400, sleep_read(seconds)), batch_size=vary(8, 4), num_workers=2, persistent_workers=True
    )
    return loaderwatch.attach(loader, name="train")


loader = make(0.003)
deadline = time.monotonic() + 16
epoch = 0
while time.monotonic() < deadline:
    if epoch == 3:
        print("Closing dataloader mosaic")
        loader = make(0.001)
    for _ in loader:
        time.sleep(0.05)
    epoch += 1
