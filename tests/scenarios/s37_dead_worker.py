"""S37: a worker is killed while it sends a batch, and PyTorch does not notice.

PyTorch learns of a killed worker by SIGCHLD, which is ignored here, as in programs that reap children.
The training process has read half a message and waits for the rest.
"""

import os
import signal
from multiprocessing.connection import Connection
from typing import Any

from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import SlowDataset, built_in, sleep_read, train, vary


def die_while_sending(self: Any, data: Any, *more: Any) -> None:
    """The out-of-memory killer strikes."""
    os.write(self._handle, b"\0\0")
    os.kill(os.getpid(), signal.SIGKILL)


INDEX = vary(333, 205, 517)


def read(index: int) -> None:
    """From one sample on, this worker's next message is its last."""
    sleep_read(0.002)(index)
    if index == INDEX:
        Connection._send_bytes = die_while_sending  # type: ignore[attr-defined]


batch = vary(8, 4, 12)
built_in(worker=INDEX // batch % 2)
# Lists of numbers: a tensor would go through a connection of its own, whose end PyTorch would notice.
loader = DataLoader(SlowDataset(100_000, read), batch_size=batch, num_workers=2, collate_fn=len)
loaderwatch.attach(loader)
batches = iter(loader)
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
train(batches, step_s=0.05, seconds=60)
