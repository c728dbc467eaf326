"""S54: an executor's thread reads the next batch meanwhile; no workers, every sample is computed."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import SlowDataset, burn, train, vary

loader = loaderwatch.attach(
    DataLoader(SlowDataset(vary(160, 96), lambda index: burn(0.02)), batch_size=8, num_workers=0)
)
model = nn.Linear(16, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)


class OneAhead:
    """Asks for the next batch before the loop works on this one."""

    def __init__(self) -> None:
        self.pool = ThreadPoolExecutor(1)

    def __iter__(self) -> Iterator[Tensor]:
        batches = iter(loader)
        coming = self.pool.submit(next, batches, None)
        while (batch := coming.result()) is not None:
            coming = self.pool.submit(next, batches, None)
            model(batch).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
            yield batch


train(OneAhead(), step_s=vary(0.04, 0.03))
