"""S03: far more workers than CPUs, and all of them compute."""

import os

from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import SlowDataset, built_in, burn, train, vary

cpus = sorted(os.sched_getaffinity(0))
os.sched_setaffinity(0, cpus[-1:])  # one CPU is soon full, and leaves the others alone
workers, batch, cost_s = vary(6, 4, 7), vary(8, 4, 16), vary(0.05, 0.08)
built_in(says=[f"num_workers {workers} → 1"])
loader = DataLoader(
    SlowDataset(100_000, lambda index: burn(cost_s / batch)),
    batch_size=batch,
    num_workers=workers,
    shuffle=vary(True, False),
)
loaderwatch.attach(loader)
train(loader, step_s=vary(0.02, 0.01))
