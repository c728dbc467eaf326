"""S06: NumPy's BLAS computes with a pool of threads in every worker."""

import os

import numpy as np
from threadpoolctl import threadpool_limits
from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import SlowDataset, train, vary

threadpool_limits(vary(4, 3, 6), "blas")  # what BLAS does by itself on a machine with so many CPUs
batch = vary(4, 2, 6)
MATRIX = np.random.default_rng(batch).random((200, 200))


def read(index: int) -> None:
    """A projection, as an augmentation may do."""
    MATRIX @ MATRIX


cpus = sorted(os.sched_getaffinity(0))
os.sched_setaffinity(0, cpus[:1])  # one CPU is soon full, and leaves the others alone
loader = DataLoader(
    SlowDataset(100_000, read), batch_size=batch, num_workers=vary(3, 2, 4), multiprocessing_context="fork"
)
loaderwatch.attach(loader)
train(loader, step_s=vary(0.02, 0.01))
