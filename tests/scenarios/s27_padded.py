"""S27: a batch is padded to its longest sample, and a few samples are far longer than the others."""

import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

import loaderwatch
from tests.scenarios.training import UNTIL_FOUND_S, vary

torch.set_num_threads(1)
usual, rare = vary(24, 32), vary(150, 190)


class Sentences(Dataset[torch.Tensor]):
    """Mostly short ones."""

    def __len__(self) -> int:
        return 60_000

    def __getitem__(self, index: int) -> torch.Tensor:
        """Rows of a sentence's length."""
        length = 20 * usual if index % rare == 7 else usual + index % 8
        return torch.full((length, 256), 0.01)


def pad(samples: list[torch.Tensor]) -> torch.Tensor:
    """Make all as long as the longest."""
    return nn.utils.rnn.pad_sequence(samples, batch_first=True)


model = nn.GRU(256, 256, batch_first=True)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
loader = DataLoader(Sentences(), batch_size=16, num_workers=2, collate_fn=pad)
loaderwatch.attach(loader, model=model, optimizer=optimizer)
deadline = time.monotonic() + UNTIL_FOUND_S
for batch in loader:
    optimizer.zero_grad()
    model(batch)[0].square().mean().backward()
    optimizer.step()
    if time.monotonic() > deadline:
        break
