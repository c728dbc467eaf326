"""S54's sibling: a thread reads the loader and makes views of each batch; the loop takes futures in order."""

import time
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import UNTIL_FOUND_S, SlowDataset, sleep_read, vary


def two_views(batch: Tensor) -> Tensor:
    """Augment by hand, sample by sample."""
    time.sleep(vary(0.12, 0.15))
    return torch.cat([batch, batch.flip(0)])


def take(batches: Any) -> Tensor | None:
    """One batch with its views, in the pool's thread."""
    batch = next(batches, None)
    return None if batch is None else two_views(batch)


loader = loaderwatch.attach(
    DataLoader(SlowDataset(800, sleep_read(0.002)), batch_size=8, num_workers=2, persistent_workers=True)
)
model = nn.Linear(16, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
until = time.monotonic() + UNTIL_FOUND_S
with ThreadPoolExecutor(1) as pool:
    while time.monotonic() < until:
        batches = iter(loader)
        waiting: deque[Future[Tensor | None]] = deque(pool.submit(take, batches) for _ in range(3))
        while (views := waiting.popleft().result()) is not None:
            waiting.append(pool.submit(take, batches))
            model(views).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
            time.sleep(0.05)
