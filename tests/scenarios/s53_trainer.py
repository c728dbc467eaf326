"""S53: a trainer's validation, between two epochs, waits for results of a thread that has died."""

import queue
import threading
import time

from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import SlowDataset, sleep_read, vary

batch = vary(8, 5)


class Trainer:
    """Epochs until it has to stop."""

    def __init__(self) -> None:
        self.loader = DataLoader(
            SlowDataset(batch * 150, sleep_read(0.002)),
            batch_size=batch,
            num_workers=vary(2, 1),
            persistent_workers=True,
        )
        self.epoch = 0
        self.results: queue.Queue[float] = queue.Queue()
        loaderwatch.attach(self.loader)

    def score(self) -> None:
        """The first time only; then it fails, and says so to nobody."""
        if self.epoch == 0:
            self.results.put(0.5)

    def validate(self) -> float:
        """In a thread of its own."""
        threading.Thread(target=self.score).start()
        return self.results.get()

    def fit(self) -> None:
        """Train and validate."""
        while self.epoch < 10:
            for _batch in self.loader:
                time.sleep(0.02)
            self.validate()
            self.epoch += 1


if __name__ == "__main__":
    Trainer().fit()
