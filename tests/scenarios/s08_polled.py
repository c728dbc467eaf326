"""S08's sibling: each worker asks a service and checks every few milliseconds whether it has answered."""

import random
import time

from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import SlowDataset, train, vary

pause_s, usual_s = vary(0.004, 0.01), vary(0.06, 0.08)


def read(index: int) -> None:
    """A lock would look like this, but answers do not wait for each other."""
    comes = time.monotonic() + usual_s * random.Random(index).lognormvariate(0.0, 0.6)
    while time.monotonic() < comes:
        time.sleep(pause_s)


loader = DataLoader(SlowDataset(100_000, read), batch_size=vary(4, 6), num_workers=vary(8, 6))
loaderwatch.attach(loader)
train(loader, step_s=0.01)
