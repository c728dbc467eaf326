"""S10: storage slows down for all workers at once, as when burst credits end."""

import time

from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import SlowDataset, train, vary

credits_s, factor, batch = vary(8.0, 6.0, 10.0), vary(8.0, 5.0, 15.0), vary(8, 4, 16)
began = time.monotonic()


def read(index: int) -> None:
    """Quick while there are credits."""
    usual_s = (0.03 + index % 3 * 0.01) / batch
    time.sleep(usual_s if time.monotonic() - began < credits_s else factor * usual_s)


loader = DataLoader(
    SlowDataset(100_000, read), batch_size=batch, num_workers=vary(2, 3, 1), shuffle=vary(True, False)
)
loaderwatch.attach(loader)
train(loader, step_s=0.05)
