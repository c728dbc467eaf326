"""S54's sibling: a DataLoader with a BackgroundGenerator thread in its ``__iter__`` and too few workers."""

import queue
import threading
import time
from collections.abc import Iterable, Iterator
from typing import Any, Final

import torch
from torch import nn
from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import UNTIL_FOUND_S, SlowDataset, sleep_read, vary

END: Final = object()


class BackgroundGenerator(threading.Thread):
    """Iterates in a thread of its own, a few items ahead."""

    def __init__(self, generator: Iterable[Any], max_prefetch: int = 3) -> None:
        super().__init__(daemon=True)
        self.queue: queue.Queue[Any] = queue.Queue(max_prefetch)
        self.generator = generator
        self.start()

    def run(self) -> None:
        for item in self.generator:
            self.queue.put(item)
        self.queue.put(END)

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        item = self.queue.get()
        if item is END:
            raise StopIteration
        return item


class DataLoaderX(DataLoader[Any]):
    """As it circulates."""

    def __iter__(self) -> Any:
        return BackgroundGenerator(super().__iter__(), max_prefetch=vary(3, 8))


dataset = SlowDataset(240, sleep_read(0.02))
loader = DataLoaderX(dataset, batch_size=8, num_workers=1, persistent_workers=vary(True, False))
loaderwatch.attach(loader)
model = nn.Linear(16, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
until = time.monotonic() + UNTIL_FOUND_S
while time.monotonic() < until:
    for batch in loader:
        optimizer.zero_grad()
        model(batch).sum().backward()
        optimizer.step()
        time.sleep(0.05)
