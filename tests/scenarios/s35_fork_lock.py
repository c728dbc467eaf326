"""S35: a thread holds a lock while workers are forked; in the workers nobody will release it."""

import threading
import time
import warnings

from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import SlowDataset, vary

warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns of exactly this
LOG_LOCK = threading.Lock()


def read(index: int) -> None:
    """Writes a log line."""
    with LOG_LOCK:
        pass


def hold() -> None:
    """A logger that is just writing."""
    with LOG_LOCK:
        time.sleep(2.0)


batch = vary(8, 4, 12)
loader = DataLoader(SlowDataset(30 * batch, read), batch_size=batch, num_workers=2)
loaderwatch.attach(loader)
for epoch in range(3):
    if epoch == 1:
        threading.Thread(target=hold, daemon=True).start()
        time.sleep(0.2)
    for _ in loader:
        time.sleep(0.05)
