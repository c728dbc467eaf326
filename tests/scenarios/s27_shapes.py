"""S27: a compiled model that sees a new batch size now and then, and recompiles."""

import time
from collections.abc import Iterator

import torch
from torch import nn
from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import UNTIL_FOUND_S, SlowDataset, sleep_read, vary

torch.set_num_threads(1)
usual, every = vary(16, 12), vary(12, 15)


class Buckets:
    """Batches of the usual size, and every so often one of a size of its own, which then comes twice."""

    def __iter__(self) -> Iterator[list[int]]:
        number = 0
        for turn in range(10_000):
            odd = max(1, usual - 1 - turn // 2 % (usual - 1))
            for size in [usual] * every + [odd]:
                yield [(number + place) % 10_000 for place in range(size)]
                number += size

    def __len__(self) -> int:
        return 10_000 * (every + 1)


class Model(nn.Module):
    """Enough layers for a compilation to take its time."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(16, 16) for _ in range(40))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """One after the other."""
        for layer in self.layers:
            inputs = torch.relu(layer(inputs) + inputs.sum(0))
        return inputs


torch._dynamo.config.cache_size_limit = 64
model = torch.compile(Model(), backend="aot_eager", dynamic=False)
loader = DataLoader(SlowDataset(10_000, sleep_read(0.0005)), batch_sampler=Buckets(), num_workers=2)
loaderwatch.attach(loader)
deadline = time.monotonic() + UNTIL_FOUND_S
for batch in loader:
    model(batch).sum().backward()
    time.sleep(0.03)
    if time.monotonic() > deadline:
        break
