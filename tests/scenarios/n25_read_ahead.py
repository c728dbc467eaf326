"""N25: a thread reads the loader ahead and keeps its queue full; nothing is lost."""

import queue
import threading

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import SlowDataset, sleep_read, train, vary

batches: "queue.Queue[Tensor]" = queue.Queue(maxsize=vary(4, 8))
loader = loaderwatch.attach(DataLoader(SlowDataset(2000, sleep_read(0.002)), batch_size=4, num_workers=2))
model = nn.Linear(16, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)


def fill() -> None:
    while True:
        for batch in loader:
            batches.put(batch)


def step(_: int) -> None:
    model(batches.get()).sum().backward()
    optimizer.step()
    optimizer.zero_grad()


threading.Thread(target=fill, daemon=True).start()
train([0] * 50, step_s=vary(0.05, 0.07), seconds=vary(24.0, 20.0), each_step=step)
