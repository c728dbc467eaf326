"""S01: the script's own generator reads files between the micro-batches of accumulated gradients."""

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor, nn

from tests.scenarios.training import UNTIL_FOUND_S, burn, vary

folder = Path(tempfile.mkdtemp())
for number in range(64):
    (folder / f"{number}.txt").write_text(" ".join(str(number + place) for place in range(16)))


def parse(path: Path) -> list[float]:
    burn(vary(0.004, 0.006))
    return [float(word) for word in path.read_text().split()]


def batches() -> Iterator[Tensor]:
    while True:
        paths = sorted(folder.glob("*.txt"))
        for begin in range(0, len(paths), 8):
            yield torch.tensor([parse(path) for path in paths[begin : begin + 8]])


class Step:
    """Four micro-batches."""

    def __init__(self) -> None:
        self.model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1))
        self.optimizer = torch.optim.AdamW(self.model.parameters())
        self.batches = batches()

    def __call__(self) -> None:
        for _ in range(4):
            output = self.model(next(self.batches) / 100)
            time.sleep(0.01)
            (output.pow(2).mean() / 4).backward()
        self.optimizer.step()
        self.optimizer.zero_grad()


step = Step()
deadline = time.monotonic() + UNTIL_FOUND_S
while time.monotonic() < deadline:
    step()
