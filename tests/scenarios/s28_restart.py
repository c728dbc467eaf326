"""S28: short epochs, workers spawned anew for each."""

from torch import Tensor, arange
from torch.utils.data import DataLoader, TensorDataset

import loaderwatch
from tests.scenarios.training import train

if __name__ == "__main__":
    loader: DataLoader[tuple[Tensor, ...]] = DataLoader(
        TensorDataset(arange(160)), batch_size=8, num_workers=2, multiprocessing_context="spawn"
    )
    loaderwatch.attach(loader)
    train(loader, step_s=0.04, seconds=40)
