"""N33: the script is over; multiprocessing waits for a child process that still evaluates the model."""

import multiprocessing
import time

from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import SlowDataset, burn, vary


def evaluate(seconds: float = 75.0) -> None:
    """A tenth of a CPU."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        burn(0.01)
        time.sleep(0.09)


batch = vary(8, 5)
loader = DataLoader(SlowDataset(batch * 40), batch_size=batch, num_workers=vary(2, 1))
loaderwatch.attach(loader)
for _epoch in range(2):
    for _batch in loader:
        time.sleep(0.05)
multiprocessing.Process(target=evaluate).start()
