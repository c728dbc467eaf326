"""S28: short epochs, workers spawned anew for each."""

from torch import Tensor, arange
from torch.utils.data import DataLoader, TensorDataset

import loaderwatch
from tests.scenarios.training import train, vary

if __name__ == "__main__":
    batch = vary(8, 5)
    loader: DataLoader[tuple[Tensor, ...]] = DataLoader(
        TensorDataset(arange(20 * batch)), batch_size=batch, num_workers=2, multiprocessing_context="spawn"
    )
    loaderwatch.attach(loader)
    train(loader, step_s=vary(0.04, 0.05), seconds=40)
