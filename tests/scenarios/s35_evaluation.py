"""S35: in the fourth evaluation a worker takes a lock of all workers twice, in the middle of the pass."""

import multiprocessing
import time

from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import SlowDataset, vary

LOCK = multiprocessing.Lock()
evaluations = multiprocessing.Value("i", 0)
batch = vary(8, 4, 12)
READ_S = 0.08 / batch


def read(index: int) -> None:
    """Writes to an index that all workers share."""
    time.sleep(READ_S)
    with LOCK:
        if evaluations.value == 4 and index >= 12 * batch:
            LOCK.acquire()


if __name__ == "__main__":
    loader = DataLoader(SlowDataset(100 * batch), batch_size=batch, num_workers=1, persistent_workers=True)
    evaluation = DataLoader(
        SlowDataset(16 * batch, read), batch_size=batch, num_workers=2, persistent_workers=True
    )
    loaderwatch.attach(loader)
    loaderwatch.attach(evaluation, role="eval")
    for _epoch in range(4):
        for _ in loader:
            time.sleep(0.05)
        evaluations.value += 1
        for _ in evaluation:
            time.sleep(0.01)
