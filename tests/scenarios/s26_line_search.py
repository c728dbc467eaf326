"""S26: LBFGS in a step whose loss becomes NaN: no stop criterion holds, so its iterations never end."""

import itertools
import time

import torch
from torch import nn
from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import SlowDataset, vary

BAD_AT = vary(120, 90)

torch.set_num_threads(1)
model = nn.Sequential(nn.Linear(16, 64), nn.Tanh(), nn.Linear(64, 1))
optimizer = torch.optim.LBFGS(
    model.parameters(), lr=0.05, max_iter=4, max_eval=10**9, tolerance_grad=0.0, tolerance_change=0.0
)
batch_size = vary(8, 6)
loader = DataLoader(SlowDataset(batch_size * 1000), batch_size=batch_size, num_workers=1)
loaderwatch.attach(loader)
for number, batch in enumerate(itertools.islice(loader, BAD_AT + 1)):
    scale = float("nan") if number == BAD_AT else 1.0  # a target that is log(0), say
    optimizer.param_groups[0]["max_iter"] = (
        10**9 if number == BAD_AT else 4
    )  # "until it converges" from here on

    def residual(batch: torch.Tensor = batch, scale: float = scale) -> torch.Tensor:
        """Return the loss, and leave its gradients behind."""
        optimizer.zero_grad()
        loss: torch.Tensor = (model(batch / 8000) - scale).square().mean()
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    optimizer.step(residual)  # type: ignore[no-untyped-call]
    time.sleep(0.02)
