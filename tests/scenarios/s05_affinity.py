"""S05: something put all workers onto one CPU."""

import os

from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import SlowDataset, built_in, burn, train, vary

workers, batch = vary(3, 2, 4), vary(8, 4, 16)
built_in(says=[f"{workers} workers may use only 1 CPU"])


def shrink(worker: int) -> None:
    """What an OpenMP runtime does at import."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-1:])


loader = DataLoader(
    SlowDataset(100_000, lambda index: burn(0.05 / batch)),
    batch_size=batch,
    num_workers=workers,
    worker_init_fn=shrink,
)
loaderwatch.attach(loader)
train(loader, step_s=vary(0.02, 0.01))
