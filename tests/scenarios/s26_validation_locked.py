"""S26: a metric in the validation loop waits for a held lock; the validation loader is watched, too."""

import threading
import time

from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import SlowDataset, sleep_read, vary

batch = vary(8, 5)
train_loader = DataLoader(SlowDataset(batch * 100, sleep_read(0.002)), batch_size=batch, num_workers=2)
val_loader = DataLoader(SlowDataset(batch * 20, sleep_read(0.002)), batch_size=batch, num_workers=1)
loaderwatch.attach(train_loader)
loaderwatch.attach(val_loader, role="eval")
held = threading.Lock()


def update_metric(number: int) -> None:
    """Takes the lock, and forgets to let it go in the last epochs."""
    held.acquire()
    if number < 30:
        held.release()


seen = 0
for _epoch in range(6):
    for _batch in train_loader:
        time.sleep(0.02)
    for _batch in val_loader:
        time.sleep(0.02)
        update_metric(seen)
        seen += 1
