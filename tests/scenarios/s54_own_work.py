"""S54: the loader keeps up, but the read-ahead thread prepares batches more slowly than the loop."""

import queue
import threading
import time
from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import SlowDataset, train, vary

loader = loaderwatch.attach(DataLoader(SlowDataset(4000), batch_size=8, num_workers=vary(2, 3)))
model = nn.Linear(16, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)


class Prepared:
    """Reads ahead, and looks each batch up in a store far away."""

    def __init__(self) -> None:
        self.batches: queue.Queue[Tensor] = queue.Queue(maxsize=4)
        threading.Thread(target=self._fill, daemon=True).start()

    def _fill(self) -> None:
        while True:
            for batch in loader:
                time.sleep(vary(0.12, 0.1))
                self.batches.put(batch)

    def __iter__(self) -> Iterator[Tensor]:
        while True:
            batch = self.batches.get()
            model(batch).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
            yield batch


train(Prepared(), step_s=vary(0.03, 0.02))
