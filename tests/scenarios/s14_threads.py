"""S14: a background thread computes in Python all the time and holds the interpreter's lock."""

import threading

import torch
from torch import Tensor
from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import SlowDataset, train, vary

# Each tensor takes the lock a dozen times, for 5 ms each (sys.getswitchinterval): 0.1 s on a quiet machine.
TENSORS = vary(4, 6)


def several(samples: list[Tensor]) -> list[Tensor]:
    """A dictionary's worth of tensors."""
    return [torch.zeros(4) for _ in range(TENSORS)]


def watch() -> None:
    """A metrics thread that never rests."""
    total = 0
    while True:
        total += 1


threading.Thread(target=watch, daemon=True).start()
loader = DataLoader(SlowDataset(100_000), batch_size=vary(8, 4), num_workers=2, collate_fn=several)
loaderwatch.attach(loader)
train(loader, step_s=vary(0.06, 0.08))
