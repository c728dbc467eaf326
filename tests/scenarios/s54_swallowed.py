"""S54's sibling: the thread fails at one batch and drops the error, so the loop is never informed."""

import contextlib
import queue
import threading
from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import SlowDataset, vary

BAD = vary(70, 80)


class Ahead:
    """Hands a loader's batches on, worked on in a thread."""

    def __init__(self, loader: "DataLoader[Tensor]") -> None:
        self.loader = loader

    def __iter__(self) -> Iterator[Tensor]:
        batches: queue.Queue[Tensor | None] = queue.Queue(4)
        threading.Thread(target=self.fill, args=(batches,), daemon=True).start()
        while (batch := batches.get()) is not None:
            yield batch

    def fill(self, batches: "queue.Queue[Tensor | None]") -> None:
        with contextlib.suppress(KeyError):
            for number, batch in enumerate(self.loader):
                if number == BAD:
                    raise KeyError(number)
                batches.put(batch * 2)
            batches.put(None)


def nothing(index: int) -> None:
    """Reading costs nothing."""


loader = loaderwatch.attach(DataLoader(SlowDataset(4000, nothing), batch_size=8, num_workers=vary(2, 0, 1)))
model = nn.Linear(16, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _epoch in range(3):
    for batch in Ahead(loader):
        model(batch).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        threading.Event().wait(0.05)
