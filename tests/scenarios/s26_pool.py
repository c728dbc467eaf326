"""S26: a worker of a multiprocessing pool is killed, its task is lost, and map() waits forever."""

import multiprocessing
import os
import signal

from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import SlowDataset, train, vary

AT = vary(150, 110)


def reward(step: int) -> float:
    """Score a text; that of one step takes so much memory that the kernel ends it."""
    if step == AT:
        os.kill(os.getpid(), signal.SIGKILL)
    return 1 / (1 + step)


if __name__ == "__main__":
    pool = multiprocessing.get_context("fork").Pool(vary(2, 1))
    batch_size = vary(8, 5)
    loader = DataLoader(SlowDataset(batch_size * 5000), batch_size=batch_size, num_workers=1)
    loaderwatch.attach(loader)
    train(loader, step_s=0.03, each_step=lambda step: pool.map(reward, [step]))
