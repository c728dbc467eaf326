"""S54: the thread that reads the loader ahead dies of a bad sample; the loop waits on its queue forever."""

import queue
import threading

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import SlowDataset, vary

BAD = vary(600, 480, 720)


def read(index: int) -> None:
    if index == BAD:
        raise OSError(f"sample {index} is truncated")


batches: "queue.Queue[Tensor]" = queue.Queue(maxsize=8)
loader = loaderwatch.attach(DataLoader(SlowDataset(4000, read), batch_size=8, num_workers=vary(2, 0, 1)))
model = nn.Linear(16, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)


def fill() -> None:
    for batch in loader:
        batches.put(batch)


threading.Thread(target=fill, daemon=True).start()
for _ in range(500):
    model(batches.get()).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    torch.arange(1 << 22).sum()
    threading.Event().wait(0.05)
