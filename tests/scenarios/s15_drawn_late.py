"""S15: no workers; a weighted sampler draws millions of samples per epoch, and the epoch uses a few."""

import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, WeightedRandomSampler

import loaderwatch
from tests.scenarios.training import UNTIL_FOUND_S, vary

ROWS = vary(2_000_000, 3_000_000)
STEPS = 60

torch.set_num_threads(1)
data = TensorDataset(torch.randn(ROWS, 4))
sampler = WeightedRandomSampler(torch.rand(ROWS), num_samples=ROWS)  # type: ignore[arg-type]
loader = DataLoader(data, batch_size=64, sampler=sampler)
model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loaderwatch.attach(loader, model=model, optimizer=optimizer)
deadline = time.monotonic() + UNTIL_FOUND_S
while time.monotonic() < deadline:
    for step, (rows,) in enumerate(loader, 1):
        model(rows).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        time.sleep(0.003)
        if step == STEPS:
            break
