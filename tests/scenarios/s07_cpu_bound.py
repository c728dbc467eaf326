"""S07: decoding costs more CPU than this process may use."""

import os

from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import SlowDataset, burn, train, vary

os.sched_setaffinity(
    0, sorted(os.sched_getaffinity(0))[:1]
)  # one CPU is soon full, and leaves the others alone
batch = vary(8, 4, 16)
loader = DataLoader(SlowDataset(100_000, lambda index: burn(0.064 / batch)), batch_size=batch, num_workers=2)
loaderwatch.attach(loader)
train(loader, step_s=vary(0.02, 0.01))
