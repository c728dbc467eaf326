"""S13: batches of very many small tensors, which the training thread must unpack."""

import torch
from torch import Tensor
from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import SlowDataset, train, vary

TENSORS = vary(600, 800)


def scatter(samples: list[Tensor]) -> list[Tensor]:
    """Many small tensors for a batch."""
    return [torch.zeros(4) for _ in range(TENSORS)]


batch = vary(8, 16)
loader = DataLoader(
    SlowDataset(100_000), batch_size=batch, num_workers=2, prefetch_factor=4, collate_fn=scatter
)
loaderwatch.attach(loader)
train(loader, step_s=vary(0.25, 0.3))
