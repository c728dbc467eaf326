"""N34: no loader: data is indexed in memory, the loss is sometimes estimated, then a model is served."""

import time

import torch
from torch import nn

from tests.scenarios.training import vary

data, targets = torch.randn(4000, 16), torch.randn(4000, 1)
model = nn.Linear(16, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)


@torch.no_grad()
def estimate_loss() -> float:
    losses = []
    for begin in range(0, 4000, 200):
        time.sleep(0.02)
        losses.append((model(data[begin : begin + 200]) - targets[begin : begin + 200]).pow(2).mean())
    return float(torch.stack(losses).mean())


deadline = time.monotonic() + vary(20.0, 26.0)
step = 0
while time.monotonic() < deadline:
    if step % 100 == 0:
        estimate_loss()
    rows = torch.randint(0, 4000, (64,))
    loss = (model(data[rows]) - targets[rows]).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    time.sleep(0.03)
    optimizer.step()
    step += 1

with torch.no_grad():
    for _ in range(8):  # who asks comes when they like
        model(torch.randn(1, 16))
        time.sleep(5)
