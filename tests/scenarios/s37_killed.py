"""S37: the kernel kills a worker that takes too much memory; with ``--kill`` somebody else does.

The memory limit is that of a control group of its own. Where none can be made, it is ``--kill`` as well.
"""

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import SlowDataset, built_in, sleep_read, train, vary

deadly = vary(333, 401)
LIMIT = 2**30


def read(index: int) -> None:
    """From one sample on, far more than there is."""
    sleep_read(0.002)(index)
    if index == deadly:
        if limited:
            hog = bytearray(3 * LIMIT)
            for at in range(0, len(hog), 4096):
                hog[at] = 1
        os.kill(os.getpid(), signal.SIGKILL)


def limit_memory() -> bool:
    """Move this process into a group of one gigabyte; False where that is not allowed."""
    folder = Path("/sys/fs/cgroup/memory") / f"loaderwatch-test-{os.getpid()}"
    if not (folder.parent / "memory.limit_in_bytes").exists():
        folder = Path("/sys/fs/cgroup") / folder.name
    try:
        folder.mkdir()
    except OSError:
        return False
    names = ("memory.limit_in_bytes", "memory.max")
    limit = next((folder / name for name in names if (folder / name).exists()), None)
    if limit is None:
        folder.rmdir()
        return False
    with contextlib.suppress(OSError):
        limit.write_text(str(LIMIT))
    # It removes the group when its last process has gone, and outlives whatever kills us.
    subprocess.Popen(
        [sys.executable, "-m", "tests.scenarios.control_group", str(folder)],
        start_new_session=True,
        env={
            name: value for name, value in os.environ.items() if name != "LOADERWATCH_DIR"
        },  # by which we are found
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    (folder / "cgroup.procs").write_text(str(os.getpid()))
    return True


limited = "--kill" not in sys.argv and limit_memory()
memory = psutil.virtual_memory()
plenty = memory.available > 0.25 * memory.total  # then it was hardly the kernel
unsure = "Find the sender of the signal" if plenty else "usually comes from the kernel"
built_in(says=["was killed: out of memory" if limited else unsure])
loader = DataLoader(SlowDataset(100_000, read), batch_size=vary(8, 4), num_workers=2)
loaderwatch.attach(loader)
train(loader, step_s=0.03, seconds=20)
