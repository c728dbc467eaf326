"""S36: a sample waits for an answer that never comes. ``--slow-first``: two others took long before."""

import os
import sys
import time

from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import SlowDataset, built_in, train, vary

SLOW = vary((333, 653), (205, 510), (517, 901)) if "--slow-first" in sys.argv else ()
INDEX = vary(1293, 1205, 2517) if SLOW else vary(333, 205, 517)


def read(index: int) -> None:
    """Asks storage that has gone silent."""
    if index in SLOW:
        time.sleep(2.0)
    if index == INDEX:
        answer, _ = os.pipe()
        os.read(answer, 1)


batch, workers = vary(8, 4, 12), vary(2, 3)
built_in(worker=INDEX // batch % workers, samples=[INDEX])
loader = DataLoader(SlowDataset(100_000, read), batch_size=batch, num_workers=workers)
loaderwatch.attach(loader)
train(loader, step_s=vary(0.05, 0.07))
