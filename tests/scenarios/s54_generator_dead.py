"""S54's sibling: in the second epoch the thread behind a generator dies of its own error; the loop waits."""

import threading
import time
from collections.abc import Iterator
from queue import Queue
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import SlowDataset, vary

loader = loaderwatch.attach(
    DataLoader(SlowDataset(800), batch_size=8, num_workers=vary(2, 1), persistent_workers=True)
)
model = nn.Linear(16, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)


class Prefetcher:
    """Batches, normalised by a thread."""

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.ready: Queue[Tensor | None] = Queue(4)
        threading.Thread(target=self.normalize_ahead, name="prefetcher", daemon=True).start()

    def normalize_ahead(self) -> None:
        """Put each batch into the queue, and None after the last."""
        for step, batch in enumerate(loader):
            scale: Any = None if (self.epoch, step) == (1, vary(40, 60)) else batch.abs().max() + 1
            self.ready.put(batch / scale)
        self.ready.put(None)

    def __iter__(self) -> Iterator[Tensor]:
        while (batch := self.ready.get()) is not None:
            yield batch


for epoch in range(100):
    for batch in Prefetcher(epoch):
        model(batch).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        time.sleep(0.05)
