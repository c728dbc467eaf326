"""S14: a daemon thread computes percentiles in pure Python and holds the interpreter during training."""

import threading
import time

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import UNTIL_FOUND_S, SlowDataset, vary

torch.set_num_threads(1)
BINS = vary(400, 250)


class Telemetry(threading.Thread):
    """Sorts the newest values into bins, again and again."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.values: list[float] = []
        self.bins = [0] * BINS

    def run(self) -> None:
        """Work until the process ends."""
        while True:
            self.sort_into_bins(list(self.values[-5000:]))
            time.sleep(0.01)

    def sort_into_bins(self, values: list[float]) -> None:
        """Count how many values lie in each bin, by comparing each with every edge."""
        for value in values:
            at = 0
            while at < BINS - 1 and value > at / BINS:
                at += 1
            self.bins[at] += 1


batch_size = vary(8, 12)
layers = [layer for _ in range(24) for layer in (nn.Linear(16, 16), nn.LayerNorm(16), nn.ReLU())]
model = nn.Sequential(*layers)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = DataLoader(SlowDataset(batch_size * 2000), batch_size=batch_size, num_workers=1)
loaderwatch.attach(loader)
telemetry = Telemetry()
telemetry.start()
deadline = time.monotonic() + UNTIL_FOUND_S
batch: Tensor
while time.monotonic() < deadline:
    for batch in loader:
        loss = model(batch / 16_000).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        telemetry.values += torch.rand(50).tolist()
        if time.monotonic() > deadline:
            break
