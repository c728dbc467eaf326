"""S01: no loader, and a checkpoint after each other step."""

import os
import tempfile
import time
from pathlib import Path

import torch
from torch import nn

from tests.scenarios.training import UNTIL_FOUND_S, vary

WIDTH = vary(1500, 1800)
EVERY = 2


def save(folder: Path, step: int) -> None:
    unfinished = folder / "unfinished.pt"
    with unfinished.open("wb") as file:
        torch.save({"step": step, "model": model.state_dict(), "optimizer": optimizer.state_dict()}, file)
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(folder / "newest.pt")


torch.set_num_threads(1)
model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH))
optimizer = torch.optim.Adam(model.parameters())
deadline = time.monotonic() + UNTIL_FOUND_S
with tempfile.TemporaryDirectory() as place:
    step = 0
    while time.monotonic() < deadline:
        loss = model(torch.randn(4, WIDTH)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        if step % EVERY == 0:
            save(Path(place), step)
