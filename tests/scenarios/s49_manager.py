"""S49: workers fetch missing values into a manager's dictionary and hold its lock meanwhile."""

import multiprocessing
import time
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

import loaderwatch
from tests.scenarios.training import UNTIL_FOUND_S, vary

torch.set_num_threads(1)
WORKERS, BATCH = vary(4, 3), vary(16, 12)
OBJECT_S = 0.012


class Products(Dataset[Tensor]):
    """Keeps the last few objects of the store."""

    def __init__(self, kept: Any, lock: Any) -> None:
        self.kept, self.lock = kept, lock

    def __len__(self) -> int:
        return 100_000

    def __getitem__(self, index: int) -> Tensor:
        return torch.full((64,), float(self.object_of(index)))

    def object_of(self, index: int) -> int:
        """Return the object of a product, from the store if nobody had it."""
        with self.lock:
            if index not in self.kept:
                time.sleep(OBJECT_S)  # the store's answer
                self.kept[index] = index
            return int(self.kept[index])


def main() -> None:
    """Train."""
    manager = multiprocessing.Manager()
    model = nn.Linear(64, 8)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    loader = DataLoader(
        Products(manager.dict(), manager.Lock()), batch_size=BATCH, shuffle=True, num_workers=WORKERS
    )
    loaderwatch.attach(loader, model=model, optimizer=optimizer)
    deadline = time.monotonic() + UNTIL_FOUND_S
    for batch in loader:
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()
        time.sleep(0.02)
        if time.monotonic() > deadline:
            break


if __name__ == "__main__":
    main()
