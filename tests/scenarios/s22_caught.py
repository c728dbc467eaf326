"""S22's sibling: an unreadable file raises; a loop around next() starts the pass again, as for a network."""

import time

import torch
from torch import nn
from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import SlowDataset, vary

BAD = vary(900, 640)


def read(index: int) -> None:
    if index == BAD:
        raise OSError(f"sample {index}: unexpected end of file")


loader = loaderwatch.attach(
    DataLoader(SlowDataset(4000, read), batch_size=8, num_workers=vary(2, 0)), name="train_loader"
)
model = nn.Linear(16, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
batches = iter(loader)
for _ in range(100_000):
    while True:
        try:
            batch = next(batches)
            break
        except OSError:
            time.sleep(0.5)
            batches = iter(loader)
    model(batch).sum().backward()
    time.sleep(0.02)
    optimizer.step()
    optimizer.zero_grad()
