"""S25: a large heap of Python objects, walked by the garbage collector again and again within steps."""

import gc
import time

from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import SlowDataset, sleep_read, train, vary

vocabulary = [[number] for number in range(vary(3_000_000, 2_000_000))]
every = vary(20, 14)
loader = DataLoader(SlowDataset(100_000, sleep_read(0.002)), batch_size=vary(8, 4), num_workers=2)
loaderwatch.attach(loader)


def step(number: int) -> None:
    """Allocates as a logging or tokenizing loop does, so much that a full collection is due now and then."""
    time.sleep(0.005)
    if number % every == every - 1:
        gc.collect()


train(loader, step_s=0.03, each_step=step)
assert vocabulary
