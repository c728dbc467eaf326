"""N28: between two epochs the script asks at a terminal whether to go on, and nobody answers for long."""

import fcntl
import os
import pty
import sys
import termios
import threading

from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import SlowDataset, sleep_read, train, vary

keyboard, terminal = pty.openpty()
fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)
os.dup2(terminal, 0)
sys.stdin = open(0)  # noqa: SIM115 - as Python opens it
batch = vary(8, 5)
loader = DataLoader(SlowDataset(batch * 100, sleep_read(0.002)), batch_size=batch, num_workers=vary(2, 1))
loaderwatch.attach(loader)


def ask(epoch: int) -> None:
    """The answer comes late."""
    if epoch == 1:
        threading.Timer(45, os.write, (keyboard, b"y\n")).start()
        if input("Train on? [y/n] ") != "y":
            sys.exit("nobody wants to")


train(loader, step_s=0.03, seconds=62, each_epoch=ask)
