"""S53: the script is over; multiprocessing waits for a child that writes into a pipe nobody reads."""

import multiprocessing
import time

from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import SlowDataset, vary


def write_report(losses: "multiprocessing.Queue[bytes]") -> None:
    """More than the pipe of the queue holds: the child's end waits until somebody has read it."""
    losses.put(bytes(1 << 20))


batch_size = vary(8, 5)
loader = loaderwatch.attach(
    DataLoader(SlowDataset(batch_size * vary(60, 80)), batch_size=batch_size, num_workers=1)
)
for _ in range(2):
    for _batch in loader:
        time.sleep(0.03)
results: "multiprocessing.Queue[bytes]" = multiprocessing.Queue()
multiprocessing.Process(target=write_report, args=(results,)).start()
