"""S13: batches of very many small tensors, which the training thread must unpack."""

import torch
from torch import Tensor
from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import SlowDataset, train


def scatter(samples: list[Tensor]) -> list[Tensor]:
    """Six hundred small tensors for a batch."""
    return [torch.zeros(4) for _ in range(600)]


loader = DataLoader(SlowDataset(100_000), batch_size=8, num_workers=2, prefetch_factor=4, collate_fn=scatter)
loaderwatch.attach(loader)
train(loader, step_s=0.25, seconds=20)
