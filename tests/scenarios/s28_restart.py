"""S28: short epochs, with new workers spawned for each. ``--rebuilt``: a new loader, too."""

import sys
from collections.abc import Iterator

from torch import Tensor, arange
from torch.utils.data import DataLoader, TensorDataset

import loaderwatch
from tests.scenarios.training import train, vary

BATCH = vary(8, 5)


def build() -> DataLoader[tuple[Tensor, ...]]:
    """What stands before the epoch loop, or inside it."""
    loader: DataLoader[tuple[Tensor, ...]] = DataLoader(
        TensorDataset(arange(20 * BATCH)), batch_size=BATCH, num_workers=2, multiprocessing_context="spawn"
    )
    loaderwatch.attach(loader)
    return loader


class Rebuilt:
    """``for batch in build()`` in every epoch."""

    def __iter__(self) -> Iterator[tuple[Tensor, ...]]:
        return iter(build())


if __name__ == "__main__":
    train(Rebuilt() if "--rebuilt" in sys.argv else build(), step_s=vary(0.04, 0.05))
