"""S26: no model is watched; the loss is summed with its graph, so backward goes through all past steps."""

import time

import torch
from torch.utils.data import DataLoader, TensorDataset

import loaderwatch
from tests.scenarios.training import UNTIL_FOUND_S, vary

torch.set_num_threads(1)
WIDTH = vary(1024, 768)
projection = torch.randn(32, WIDTH) / 6
shift = torch.zeros(WIDTH, requires_grad=True)
optimizer = torch.optim.RMSprop([shift], lr=1e-5)
loader = DataLoader(TensorDataset(torch.randn(40_000, 32)), batch_size=64, shuffle=True, drop_last=True)
loaderwatch.attach(loader)
seen = torch.zeros(())


def step(inputs: torch.Tensor) -> float:
    """Train on a batch; return the mean loss of all."""
    global seen
    seen = seen + (inputs @ projection + shift).square().mean()
    optimizer.zero_grad()
    torch.autograd.backward(seen, retain_graph=True)
    optimizer.step()
    return float(seen)


deadline = time.monotonic() + UNTIL_FOUND_S
while time.monotonic() < deadline:
    for (inputs,) in loader:
        step(inputs)
        if time.monotonic() > deadline:
            break
