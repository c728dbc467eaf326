"""S54's sibling: the thread that fills a list dies of a bad sample; the loop keeps checking the list."""

import collections
import threading
import time

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import SlowDataset, vary

BAD = vary(600, 480)


def read(index: int) -> None:
    if index == BAD:
        raise ValueError(f"sample {index} has no label")


batches: collections.deque[Tensor] = collections.deque()
loader = loaderwatch.attach(DataLoader(SlowDataset(4000, read), batch_size=8, num_workers=vary(1, 0)))
model = nn.Linear(16, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)


def collect() -> None:
    for batch in loader:
        while len(batches) > 4:
            time.sleep(0.01)
        batches.append(batch)


threading.Thread(target=collect, daemon=True).start()
for _ in range(500):
    while not batches:
        time.sleep(0.01)
    model(batches.popleft()).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    torch.arange(1 << 23).sum()
