"""How an error that ends the training is described."""

from __future__ import annotations

import subprocess
import sys

import pytest

from loaderwatch.agent.session import describe_error
from tests.waiting import PATIENCE_S


def raised(error: BaseException, cause: BaseException | None = None) -> BaseException:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ValueError("no such label"), "ValueError: no such label"),
        (KeyError(), "KeyError"),
        (RuntimeError("first\n  middle\nlast\n"), "RuntimeError: first last"),
        (raised(RuntimeError("outer"), OSError("disk")), "RuntimeError: outer, from OSError: disk"),
        (ValueError("x" * 600), f"ValueError: {'x' * 488}"),
    ],
)
def test_one_line(error: BaseException, expected: str) -> None:
    assert describe_error(error) == expected


SCRIPT = """
import os, signal, sys, time
import torch
from torch.utils.data import DataLoader, Dataset
from loaderwatch.agent.session import describe_error

class Killed(Dataset):
    def __len__(self):
        return 100
    def __getitem__(self, index):
        if index == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        return torch.zeros(2)

try:
    for _ in DataLoader(Killed(), batch_size=1, num_workers=1):
        time.sleep(0.05)
except RuntimeError as error:
    told = error
    if "exited unexpectedly" not in str(error):
        told = RuntimeError("DataLoader worker (pid(s) 7) exited unexpectedly")
        told.__cause__ = error
    print(describe_error(told))
    sys.stdout.flush()
    os._exit(0)  # DataLoader's handler of SIGCHLD may raise once more
"""


def test_what_killed_a_worker_is_named_however_it_is_found() -> None:
    """DataLoader finds it in a signal handler, or by its next look at the worker: then it says less, and whence."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=PATIENCE_S, check=True
    )
    assert done.stdout.startswith("RuntimeError: DataLoader worker (pid(s) ")
    assert ", from RuntimeError: DataLoader worker (pid " in done.stdout
    assert "is killed by signal: Killed" in done.stdout
