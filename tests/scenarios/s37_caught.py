"""S37: a sample kills its worker; the script catches the error and restarts at the same place forever."""

import os
import signal
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Subset

import loaderwatch
from tests.scenarios.training import SlowDataset, vary

BAD = vary(1210, 730)
BATCH = 8


def read(index: int) -> None:
    if index == BAD:
        os.kill(os.getpid(), signal.SIGKILL)


dataset = SlowDataset(100_000, read)
model = nn.Linear(16, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
done = 0
while True:
    rest = Subset(dataset, range(done * BATCH, len(dataset)))
    loader = loaderwatch.attach(DataLoader(rest, batch_size=BATCH, num_workers=vary(2, 1)))
    try:
        for batch in loader:
            model(batch).sum().backward()
            time.sleep(0.03)
            optimizer.step()
            optimizer.zero_grad()
            done += 1
    except (RuntimeError, ConnectionError):  # the latter where it dies as a batch before is being handed over
        time.sleep(1.0)
