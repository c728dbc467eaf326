"""S54's sibling: the thread that fills a ``SimpleQueue`` dies of a bad sample. The queue waits in C."""

import queue
import threading
import time

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import SlowDataset, vary

BAD = vary(560, 640)


def read(index: int) -> None:
    if index == BAD:
        raise OSError(f"sample {index} is truncated")


batches: "queue.SimpleQueue[Tensor]" = queue.SimpleQueue()
loader = loaderwatch.attach(DataLoader(SlowDataset(4000, read), batch_size=8, num_workers=vary(2, 0, 1)))
model = nn.Linear(16, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)


def fill() -> None:
    for batch in loader:
        while batches.qsize() > 4:
            time.sleep(0.01)
        batches.put(batch)


threading.Thread(target=fill, daemon=True).start()
for _ in range(500):
    model(batches.get()).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    torch.arange(1 << 22).sum()
    threading.Event().wait(0.05)
