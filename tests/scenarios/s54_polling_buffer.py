"""S54's sibling: a buffer polls its queue with short timeouts (as MONAI's); the loader has no workers."""

import contextlib
import threading
import time
from collections.abc import Iterator
from queue import Empty, Full, Queue
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import UNTIL_FOUND_S, SlowDataset, sleep_read, vary


class ThreadBuffer:
    """Values of ``source``, read by a thread."""

    def __init__(self, source: DataLoader[Any], timeout: float = 0.01) -> None:
        self.source, self.timeout = source, timeout
        self.buffer: Queue[Any] = Queue(1)
        self.thread: threading.Thread | None = None

    def enqueue(self) -> None:
        """Put each value in, for as long as somebody takes them."""
        for value in self.source:
            while True:
                try:
                    self.buffer.put(value, timeout=self.timeout)
                    break
                except Full:
                    pass

    def __iter__(self) -> Iterator[Any]:
        self.thread = threading.Thread(target=self.enqueue, daemon=True)
        self.thread.start()
        while self.thread.is_alive() or not self.buffer.empty():
            with contextlib.suppress(Empty):
                yield self.buffer.get(timeout=self.timeout)
        self.thread.join()


loader = loaderwatch.attach(
    DataLoader(SlowDataset(400, sleep_read(0.02)), batch_size=vary(8, 6), num_workers=0)
)
model = nn.Linear(16, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
until = time.monotonic() + UNTIL_FOUND_S
while time.monotonic() < until:
    for batch in ThreadBuffer(loader):
        model(batch).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        time.sleep(0.06)
