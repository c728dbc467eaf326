"""S27: the compiled loss closes over a number that changes in each step, so each step recompiles it."""

import torch
from torch import nn
from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import SlowDataset, vary

torch.set_num_threads(1)
layers = [layer for _ in range(vary(10, 8)) for layer in (nn.Linear(16, 16), nn.GELU())]
model = nn.Sequential(*layers, nn.Linear(16, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
batch_size = vary(8, 5)
loader = DataLoader(SlowDataset(batch_size * 5000), batch_size=batch_size, num_workers=1)
loaderwatch.attach(loader, model=model, optimizer=optimizer)
for number, batch in enumerate(loader):
    annealed = torch.compile(
        lambda out, weight=1 / (1 + number): (weight * model(out)).square().mean(), backend="eager"
    )
    optimizer.zero_grad()
    annealed(batch / 40_000).backward()
    optimizer.step()
    if number > 60:
        torch._dynamo.reset()
