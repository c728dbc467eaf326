"""S20's sibling: a few long documents among short ones. Other batches lie ready behind each of them."""

import time

from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import SlowDataset, train, vary

LONG = {97: 4.2, 260: 3.4, 431: 4.0, 502: 3.7, 777: 4.4}


def read(index: int) -> None:
    time.sleep(LONG.get(index, 0.003))


loader = DataLoader(SlowDataset(960, read), batch_size=8, num_workers=vary(3, 4), persistent_workers=True)
loaderwatch.attach(loader)
train(loader, step_s=0.05)
