"""S53: between two epochs a read of dead storage blocks in state D. ``--in-loop``: within an epoch (S26)."""

import sys
import time

from torch.utils.data import DataLoader

import loaderwatch
from tests.fakes.kernel_wait import wait_in_kernel
from tests.scenarios.training import UNTIL_FOUND_S, SlowDataset, sleep_read, vary

in_loop = "--in-loop" in sys.argv
batch, at = vary(8, 5), vary(50, 61)
loader = DataLoader(
    SlowDataset(batch * (1000 if in_loop else at), sleep_read(0.002)),
    batch_size=batch,
    num_workers=vary(1, 2),
)
loaderwatch.attach(loader)


def read_labels() -> None:
    """Never comes back, as far as anybody waits for it."""
    wait_in_kernel(2 * int(UNTIL_FOUND_S))


for _epoch in range(3):
    for number, _batch in enumerate(loader):
        time.sleep(0.03)
        if number == at and in_loop:
            read_labels()
    read_labels()
