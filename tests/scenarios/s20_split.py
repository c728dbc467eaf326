"""S20: one sample of a random_split is always slow; it is named by its index in the split."""

import time

import torch
from torch.utils.data import DataLoader, random_split

import loaderwatch
from tests.scenarios.training import SlowDataset, built_in, train, vary

SLOW = vary(230, 41, 333)


def read(index: int) -> None:
    time.sleep(1.5 if index == SLOW else 0.002)


everything = SlowDataset(1200, read)
training, held_out = random_split(everything, [1080, 120], generator=torch.Generator().manual_seed(1))
built_in(samples=[[*training.indices].index(SLOW)])
loader = DataLoader(training, batch_size=vary(8, 6), shuffle=True, num_workers=2, persistent_workers=True)
loaderwatch.attach(loader)
train(loader, step_s=vary(0.04, 0.05))
