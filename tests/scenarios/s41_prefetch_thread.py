"""S41: a background prefetcher's thread ends with an error; the loop waits on its queue forever."""

import queue
import threading
import time
from collections.abc import Iterator

import loaderwatch
from tests.scenarios.training import train, vary

BATCHES = vary(60, 45, 80)


class Prefetcher:
    """Fills a queue in a thread, and forgets what happens when that fails."""

    def __init__(self) -> None:
        self.batches: queue.Queue[int] = queue.Queue(maxsize=8)

    def _fill(self) -> None:
        for number in range(BATCHES):
            self.batches.put(number)
            time.sleep(0.002)

    def __iter__(self) -> Iterator[int]:
        threading.Thread(target=self._fill, daemon=True).start()
        while True:
            yield self.batches.get()


loader = loaderwatch.attach(Prefetcher(), name="prefetcher")
train(loader, step_s=vary(0.05, 0.07))
