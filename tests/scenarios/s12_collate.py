"""S12: joining the samples in Python costs more than reading them."""

import torch
from torch import Tensor
from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import SlowDataset, burn, sleep_read, train, vary

batch = vary(16, 8, 32)


def pad(samples: list[Tensor]) -> Tensor:
    """As a loop over elements does."""
    burn(0.064)
    return torch.stack(samples)


loader = DataLoader(
    SlowDataset(100_000, sleep_read(vary(0.01, 0.02) / batch)),
    batch_size=batch,
    num_workers=vary(1, 2),
    collate_fn=pad,
)
loaderwatch.attach(loader)
train(loader, step_s=vary(0.02, 0.01))
