"""S19: a loader that ships the dataset's state with every batch, as torchdata's StatefulDataLoader does."""

from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import SlowDataset, train, vary

items = vary(150_000, 200_000)


class StatefulDataLoader(DataLoader[Any]):
    """Stands for torchdata's: what matters is what travels with a batch."""

    snapshot_every_n_steps = 1


def with_state(samples: list[Tensor]) -> tuple[Tensor, dict[str, Any]]:
    """A batch and the state of a dataset that keeps its shuffle buffer in it."""
    return torch.stack(samples), {"buffer": [(number, str(number)) for number in range(items)]}


loader = StatefulDataLoader(
    SlowDataset(100_000),
    batch_size=vary(8, 4),
    num_workers=2,
    prefetch_factor=vary(4, 3),
    collate_fn=with_state,
)
loaderwatch.attach(loader)
train(loader, step_s=0.3, seconds=25)
