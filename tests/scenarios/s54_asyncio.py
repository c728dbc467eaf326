"""S54's sibling: a coroutine trains on batches that a thread reads; no workers, each sample is computed."""

import asyncio
import time
from collections.abc import AsyncIterator

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import UNTIL_FOUND_S, SlowDataset, burn, vary

loader = loaderwatch.attach(
    DataLoader(SlowDataset(vary(160, 96), lambda index: burn(0.015)), batch_size=8, num_workers=0)
)
model = nn.Linear(16, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)


async def ahead() -> AsyncIterator[Tensor]:
    batches = iter(loader)
    coming = asyncio.create_task(asyncio.to_thread(next, batches, None))
    while (batch := await coming) is not None:
        coming = asyncio.create_task(asyncio.to_thread(next, batches, None))
        yield batch


async def main() -> None:
    until = time.monotonic() + UNTIL_FOUND_S
    while time.monotonic() < until:
        async for batch in ahead():
            model(batch).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
            await asyncio.sleep(0.01)


asyncio.run(main())
