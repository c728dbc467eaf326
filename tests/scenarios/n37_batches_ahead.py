"""N37: the loop takes all sixteen batches of a step before it computes; the loss is outside the model."""

import time
from itertools import islice

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import loaderwatch
from tests.scenarios.training import UNTIL_FOUND_S, vary

torch.set_num_threads(1)
TOGETHER = vary(16, 8)
features = torch.randn(60_000, 64)
model = nn.Sequential(nn.Linear(64, 2048), nn.ReLU(), nn.Linear(2048, 64))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
loader = DataLoader(
    TensorDataset(features), batch_size=256, shuffle=True, num_workers=2, persistent_workers=True
)
loaderwatch.attach(loader)
deadline = time.monotonic() + UNTIL_FOUND_S
while time.monotonic() < deadline:
    batches = iter(loader)
    while ahead := list(islice(batches, TOGETHER)):
        optimizer.zero_grad()
        for (inputs,) in ahead:
            found = nn.functional.normalize(model(inputs))
            alike = found @ nn.functional.normalize(inputs).T
            loss: torch.Tensor = nn.functional.cross_entropy(10 * alike, torch.arange(len(inputs)))
            (loss / len(ahead)).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        if time.monotonic() > deadline:
            break
