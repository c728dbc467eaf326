"""S54: a thread reads the loader into a queue; the workers wait for storage, the loop for the queue."""

import queue
import threading
from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import SlowDataset, sleep_read, train, vary

END = object()
loader = loaderwatch.attach(
    DataLoader(SlowDataset(vary(96, 80, 128), sleep_read(0.1)), batch_size=4, num_workers=vary(1, 2))
)
model = nn.Linear(16, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)


class Ahead:
    """Reads batches ahead in a thread of each epoch's own."""

    def __iter__(self) -> Iterator[Tensor]:
        batches: queue.Queue[object] = queue.Queue(maxsize=vary(4, 2, 8))
        threading.Thread(target=self._fill, args=(batches,), daemon=True).start()
        while (batch := batches.get()) is not END:
            assert isinstance(batch, Tensor)
            model(batch).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
            yield batch

    def _fill(self, batches: "queue.Queue[object]") -> None:
        for batch in loader:
            batches.put(batch)
        batches.put(END)


train(Ahead(), step_s=vary(0.03, 0.04))
