"""S40: a list keeps every batch, each with an open file descriptor. Run under a low ``ulimit -n``."""

import sys

from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import SlowDataset, sleep_read, vary

if __name__ == "__main__":
    pause = 0.015 if "--fast" in sys.argv else vary(0.08, 0.07)  # ten seconds: a warning fits before the end
    kept = []
    loader = DataLoader(SlowDataset(100_000, sleep_read(0.001)), batch_size=vary(8, 4), num_workers=2)
    loaderwatch.attach(loader)
    for batch in loader:
        kept.append(batch)
        sleep_read(0.02 + pause)(0)
