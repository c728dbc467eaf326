"""N19: an operator attaches a debugger (gdb, py-spy) to a worker for longer than the hang limit."""

import ctypes
import subprocess
import sys

from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import SlowDataset, sleep_read, vary

ATTACH, DETACH = 16, 17  # of ptrace(2)
TRACE = f"""
import ctypes, os, sys, time
libc = ctypes.CDLL(None, use_errno=True)
pid = int(sys.argv[1])
if libc.ptrace({ATTACH}, pid, None, None):
    sys.exit("ptrace is not allowed here")
os.waitpid(pid, 0)
time.sleep(float(sys.argv[2]))
libc.ptrace({DETACH}, pid, None, None)
"""

loader = DataLoader(SlowDataset(100_000, sleep_read(0.002)), batch_size=vary(8, 4), num_workers=2)
loaderwatch.attach(loader)
assert ctypes.CDLL(None) is not None
tracer = None
batches = iter(loader)
for number, _ in enumerate(batches):
    sleep_read(0.05)(0)
    if number == 60:
        # The tracer is no relative of the worker; where Yama forbids that, this is only a healthy run.
        pid = batches._workers[vary(0, 1)].pid  # type: ignore[attr-defined]
        tracer = subprocess.Popen([sys.executable, "-c", TRACE, str(pid), "10"], start_new_session=True)
    if number == 160:
        break
if tracer is not None:
    tracer.wait(30)
