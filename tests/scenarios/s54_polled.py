"""S54's sibling: a thread fills a list, which the loop checks every few milliseconds."""

import collections
import threading
import time
from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import UNTIL_FOUND_S, SlowDataset, sleep_read, vary

loader = loaderwatch.attach(
    DataLoader(SlowDataset(400, sleep_read(0.02)), batch_size=8, num_workers=1, persistent_workers=True)
)
model = nn.Linear(16, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)


def ahead() -> Iterator[Tensor]:
    batches: collections.deque[Tensor] = collections.deque(maxlen=4)
    done = threading.Event()

    def fill() -> None:
        for batch in loader:
            while len(batches) == 4:
                time.sleep(0.002)
            batches.append(batch)
        done.set()

    threading.Thread(target=fill, daemon=True).start()
    while batches or not done.is_set():
        if batches:
            yield batches.popleft()
        else:
            time.sleep(vary(0.005, 0.001))


until = time.monotonic() + UNTIL_FOUND_S
while time.monotonic() < until:
    for batch in ahead():
        model(batch).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        torch.arange(1 << 23).sum()
