"""S15: workers read, and a batch sampler in the training process goes over all losses for each batch."""

import time
from collections.abc import Iterator

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import loaderwatch
from tests.scenarios.training import UNTIL_FOUND_S, vary

torch.set_num_threads(1)
ROWS = vary(64, 96)
features = torch.randn(50_000, 32)
losses: list[tuple[int, float]] = []


class Hardest:
    """Each batch: the samples that were lost the most by so far, and some others."""

    def __iter__(self) -> Iterator[list[int]]:
        while True:
            chosen = [index for index, _ in self.in_order()[: ROWS // 2]]
            yield chosen + torch.randint(len(features), (ROWS - len(chosen),)).tolist()

    def __len__(self) -> int:
        return 100_000

    def in_order(self) -> list[tuple[int, float]]:
        """Of the mean loss of each sample."""
        sums: dict[int, tuple[float, int]] = {}
        for index, loss in losses:
            total, times = sums.get(index, (0.0, 0))
            sums[index] = total + loss, times + 1
        return sorted(
            ((index, total / times) for index, (total, times) in sums.items()), key=lambda one: -one[1]
        )


model = nn.Linear(32, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
loader = DataLoader(
    TensorDataset(torch.arange(len(features)), features), batch_sampler=Hardest(), num_workers=2
)
loaderwatch.attach(loader, model=model, optimizer=optimizer)
deadline = time.monotonic() + UNTIL_FOUND_S
for indices, batch in loader:
    optimizer.zero_grad()
    each = model(batch).squeeze(1).square()
    each.mean().backward()
    optimizer.step()
    losses.extend(zip(indices.tolist(), each.tolist(), strict=True))
    if time.monotonic() > deadline:
        break
