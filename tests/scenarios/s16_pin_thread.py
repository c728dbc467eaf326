"""S16 (simulated GPU): batches of many small tensors; the one thread that pins them cannot keep up.

PyTorch starts its pin thread only if it sees an accelerator, so one is simulated.
Pinning is simulated, too: each tensor is copied into other memory, which nothing locks.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import SlowDataset, sleep_read, train, vary

TENSORS = vary(500, 600, 700)


class Scattered:
    """A batch of very many tensors."""

    def __init__(self, tensors: list[Tensor]) -> None:
        self.tensors = tensors

    def pin_memory(self) -> Scattered:
        """As the pin thread calls it."""
        return Scattered([torch.empty_like(one).copy_(one) for one in self.tensors])


def scatter(samples: list[Tensor]) -> Scattered:
    """Joins nothing."""
    return Scattered([torch.zeros(4) for _ in range(TENSORS)])


claimed: dict[str, Any] = {
    "is_available": lambda: True,
    "current_accelerator": lambda check_available=False: torch.device("cpu"),
    "current_device_index": lambda: 0,
    "set_device_index": lambda device: None,
}
for name, claim in claimed.items():
    setattr(torch.accelerator, name, claim)
torch.set_num_threads(1)
loader = DataLoader(
    SlowDataset(100_000, sleep_read(0.001)),
    batch_size=vary(8, 16),
    num_workers=2,
    prefetch_factor=4,
    collate_fn=scatter,
    pin_memory=True,
)
loaderwatch.attach(loader)
train(loader, step_s=0.02)
