"""N12: the whole job is paused for longer than the hang limit, as by docker pause or a suspended laptop."""

import os
import subprocess
import sys
import time
from pathlib import Path

from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import SlowDataset, sleep_read, train, vary

PAUSE = """
import os, signal, sys, time
time.sleep(6)
mine = ("LOADERWATCH_DIR=" + os.environ["LOADERWATCH_DIR"]).encode()
pids = []
for name in os.listdir("/proc"):
    if name.isdigit() and int(name) != os.getpid():
        try:
            if mine in open(f"/proc/{name}/environ", "rb").read().split(b"\\0"):
                pids.append(int(name))
        except OSError:
            pass
try:
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    time.sleep(float(sys.argv[1]))
finally:
    for pid in pids:
        os.kill(pid, signal.SIGCONT)
"""

if __name__ == "__main__":
    assert Path("/proc/self").exists()
    loader = DataLoader(SlowDataset(100_000, sleep_read(0.002)), batch_size=vary(8, 4), num_workers=2)
    loaderwatch.attach(loader)
    pauser = subprocess.Popen(
        [sys.executable, "-c", PAUSE, str(vary(12, 10))], start_new_session=True, env=dict(os.environ)
    )
    until = time.monotonic() + 24
    train(loader, step_s=0.05, seconds=until - time.monotonic())
    pauser.wait(30)
