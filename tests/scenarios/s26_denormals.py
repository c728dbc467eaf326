"""S26: a table trains on all rows, then only on a few; the averages of the others become denormals."""

import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import loaderwatch
from tests.scenarios.training import UNTIL_FOUND_S, not_here, vary

torch.set_num_threads(1)
ROWS, WIDTH = vary(16_000, 12_000), vary(64, 96)
RECENT = 400
ALL_S = 14.0


def product_s(value: float) -> float:
    """How long it takes to shrink many copies of a value."""
    values, began = torch.full((ROWS * WIDTH,), value), time.perf_counter()
    for _ in range(20):
        torch.mul(values, 0.9)
    return time.perf_counter() - began


product_s(1.0)
if product_s(1e-40) < 2 * product_s(1.0):
    not_here("this CPU computes as fast with denormals")


def batches_of(rows: int) -> DataLoader[tuple[torch.Tensor, ...]]:
    """A loader over random picks of the first so many rows."""
    picked = TensorDataset(torch.randint(0, rows, (64_000,)))
    return DataLoader(picked, batch_size=128, num_workers=1, drop_last=True)


table, head = nn.Embedding(ROWS, WIDTH), nn.Linear(WIDTH, 1)
optimizer = torch.optim.Adam([*table.parameters(), *head.parameters()], lr=1e-3)
began = time.monotonic()
for rows, until_s in ((ROWS, ALL_S), (RECENT, UNTIL_FOUND_S + 15)):
    while time.monotonic() - began < until_s:
        for (picked,) in loaderwatch.attach(batches_of(rows), name="train_loader"):
            optimizer.zero_grad()
            (head(table(picked)) - torch.randn(len(picked), 1)).square().mean().backward()
            optimizer.step()
            if time.monotonic() - began > until_s:
                break
