"""S15: a batch sampler mines hard negatives again before every batch, in the training process."""

import time
from collections.abc import Iterator

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import loaderwatch
from tests.scenarios.training import UNTIL_FOUND_S, vary

torch.set_num_threads(1)
BANK, ROWS = vary(2000, 2400), vary(32, 48)
features = torch.randn(BANK, 64)


class HardNegatives:
    """Each batch: some anchors, and what lies nearest to them."""

    def __iter__(self) -> Iterator[list[int]]:
        while True:
            yield self.hardest(torch.randperm(BANK)[: ROWS // 2])

    def __len__(self) -> int:
        return 10_000

    def hardest(self, anchors: torch.Tensor) -> list[int]:
        """Of the whole bank, though only the anchors' rows are used."""
        distances = torch.cdist(features, features).fill_diagonal_(1e9)
        nearest = distances.argmin(dim=1)
        return [*anchors.tolist(), *nearest[anchors].tolist()]


model = nn.Linear(64, 16)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
loader = DataLoader(TensorDataset(features), batch_sampler=HardNegatives())
loaderwatch.attach(loader, model=model, optimizer=optimizer)
deadline = time.monotonic() + UNTIL_FOUND_S
for (batch,) in loader:
    optimizer.zero_grad()
    model(batch).square().mean().backward()
    optimizer.step()
    time.sleep(0.01)
    if time.monotonic() > deadline:
        break
