"""S26: after each step a metric is computed over everything that was predicted so far."""

import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import loaderwatch
from tests.scenarios.training import UNTIL_FOUND_S, vary

torch.set_num_threads(1)
ROWS = vary(64, 96)
seen: list[tuple[float, float]] = []


def area_under_curve() -> float:
    """Of all rows so far."""
    ordered = sorted(seen)
    return sum(rank * label for rank, (_, label) in enumerate(ordered)) / len(ordered)


features = torch.randn(20_000, 32)
labels = (features[:, 0] > 0).float()
model = nn.Sequential(nn.Linear(32, 512), nn.ReLU(), nn.Linear(512, 1))
optimizer = torch.optim.Adam(model.parameters())
loader = DataLoader(TensorDataset(features, labels), batch_size=ROWS, shuffle=True, num_workers=2)
loaderwatch.attach(loader, model=model, optimizer=optimizer)
deadline = time.monotonic() + UNTIL_FOUND_S
while time.monotonic() < deadline:
    for inputs, targets in loader:
        optimizer.zero_grad()
        predicted = model(inputs).squeeze(1)
        (predicted - targets).square().mean().backward()
        optimizer.step()
        seen.extend(zip(predicted.tolist(), targets.tolist(), strict=True))
        score = area_under_curve()
        if time.monotonic() > deadline:
            break
