"""N13: the scheduler ends the job; the signal handler saves a checkpoint and leaves with an exit code."""

import os
import signal
import sys
import threading
import time
from types import FrameType

from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import SlowDataset, sleep_read, train, vary


def leave(number: int, frame: FrameType | None) -> None:
    """Save and go."""
    time.sleep(vary(8.0, 7.0))
    sys.exit(143)


signal.signal(signal.SIGTERM, leave)
loader = DataLoader(SlowDataset(100_000, sleep_read(0.002)), batch_size=vary(8, 5), num_workers=vary(2, 3))
loaderwatch.attach(loader)
threading.Timer(8.0, lambda: os.kill(os.getpid(), signal.SIGTERM)).start()
train(loader, step_s=0.05, seconds=30)
