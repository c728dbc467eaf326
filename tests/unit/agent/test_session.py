"""How an error that ends the training is described."""

from __future__ import annotations

import os
import signal
import time

import pytest
import torch
from torch.utils.data import DataLoader, Dataset

from loaderwatch.agent.session import describe_error


class Killed(Dataset[torch.Tensor]):
    """Its fourth batch kills the worker, while the training reads what it sent before."""

    def __len__(self) -> int:
        return 100

    def __getitem__(self, index: int) -> torch.Tensor:
        if index == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        return torch.zeros(2)


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


def iterate() -> None:
    for _ in DataLoader(Killed(), batch_size=1, num_workers=1):
        time.sleep(0.05)


def test_what_killed_a_worker_is_named_however_it_is_found() -> None:
    """DataLoader finds it in a signal handler, or by its next look at the worker: then it says less, and whence."""
    with pytest.raises(RuntimeError) as caught:
        iterate()
    error: BaseException = caught.value
    if "exited unexpectedly" not in str(error):
        error = raised(RuntimeError("DataLoader worker (pid(s) 7) exited unexpectedly"), error)
    assert "is killed by signal: Killed" in describe_error(error)
