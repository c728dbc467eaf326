"""S24: a list of losses that keeps the graph of every step, and so all of its activations."""

import time

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import UNTIL_FOUND_S, SlowDataset, vary

torch.set_num_threads(1)
width = vary(400_000, 300_000)
weight = nn.Parameter(torch.ones(width))
optimizer = torch.optim.SGD([weight], lr=1e-6)
loader = DataLoader(SlowDataset(100_000), batch_size=8, num_workers=vary(1, 2))
loaderwatch.attach(loader, optimizer=optimizer)
losses: list[Tensor] = []
deadline = time.monotonic() + UNTIL_FOUND_S
for batch in loader:
    loss = (batch.mean() * weight).square().mean()  # 3 MB of activations
    loss.backward(retain_graph=True)
    optimizer.step()
    optimizer.zero_grad()
    losses.append(loss)
    time.sleep(0.05)
    if time.monotonic() > deadline:
        break
