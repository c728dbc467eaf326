"""N42: no loader: a model is fitted again at fixed times, and the loop sleeps until then."""

import math
import time

import torch
from torch import Tensor, nn

from tests.scenarios.training import vary

torch.set_num_threads(1)
EVERY_S, PASSES = vary(9.0, 8.0), 20
model = nn.Sequential(nn.Linear(24, 128), nn.SiLU(), nn.Linear(128, 1))
optimizer = torch.optim.Adam(model.parameters())


def fit(series: Tensor) -> None:
    windows = series.unfold(0, 25, 1)
    for _ in range(PASSES):
        for rows in torch.randperm(len(windows)).split(64):  # type: ignore[no-untyped-call]
            chosen = windows[rows]
            loss = (model(chosen[:, :-1]).squeeze(1) - chosen[:, -1]).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


def main() -> None:
    deadline, series = time.monotonic() + 70, torch.zeros(0)
    while time.monotonic() < deadline:
        series = torch.cat([series, torch.randn(4000)])[-8000:]
        fit(series)
        slot = (math.floor(time.time() / EVERY_S) + 1) * EVERY_S
        while time.time() < slot:
            time.sleep(min(1.0, max(0.0, slot - time.time())))


main()
