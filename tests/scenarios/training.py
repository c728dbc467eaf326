"""What the scripts share: a dataset that takes time, and a loop that stands for training."""

from __future__ import annotations

import json
import os
import random
import sys
import time
from collections.abc import Callable, Iterable
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, NoReturn, TypeVar

import torch
from torch import Tensor
from torch.utils.data import Dataset

from tests.scenarios.cases import NOT_HERE

SEED: Final = os.environ.get("SCENARIO_SEED", "0")
BUILT_IN: Final = "built in: "
_choice: Final = random.Random(f"{SEED} {Path(sys.argv[0]).name}")
UNTIL_FOUND_S: Final = 60.0
"""The longest duration of a stall. Its script ends when it is found, which takes longer on a busy machine."""
GIVE_UP: Final = timedelta(seconds=float(os.environ.get("SCENARIO_GIVE_UP_S", "1800")))
"""The timeout of the collectives of scripts that are also watched for longer than PyTorch's own."""
_T = TypeVar("_T")


def vary(usual: _T, *others: _T) -> _T:
    """A setting that must not affect the verdict: ``usual``, or any of them if SCENARIO_SEED is not 0.

    All ranks of a run draw the same as long as they ask in the same order.
    """
    return usual if SEED == "0" else _choice.choice((usual, *others))


def built_in(**culprit: Any) -> None:
    """Say which ``rank``, ``worker``, ``samples`` and words (``says``) are right under these settings."""
    # One write: with PYTHONUNBUFFERED, print() writes the newline apart, and the ranks share this file.
    sys.stdout.write(f"{BUILT_IN}{json.dumps(culprit)}\n")
    sys.stdout.flush()


class SlowDataset(Dataset[Tensor]):
    """``length`` samples; reading ``index`` takes what ``read`` does."""

    def __init__(self, length: int, read: Callable[[int], object] = lambda index: None) -> None:
        self.length = length
        self.read = read

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> Tensor:
        self.read(index)
        return torch.full((16,), float(index))


def not_here(reason: str) -> NoReturn:
    """End the script, whose stall cannot be shown on this machine."""
    print(reason, flush=True)
    sys.exit(NOT_HERE)


def sleep_read(seconds: float) -> Callable[[int], object]:
    """A read that waits, as for storage."""
    return lambda index: time.sleep(seconds)


def burn(seconds: float) -> None:
    """Compute for so long (CPU time)."""
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


def train(
    loader: Iterable[Any],
    step_s: float,
    seconds: float = UNTIL_FOUND_S,
    *,
    each_epoch: Callable[[int], object] = lambda epoch: None,
    each_step: Callable[[int], object] = lambda step: None,
) -> None:
    """Epoch after epoch for ``seconds``; a step sleeps ``step_s``, as a loop does that waits for its GPU."""
    deadline = time.monotonic() + seconds
    epoch = step = 0
    while time.monotonic() < deadline:
        for _ in loader:
            time.sleep(step_s)
            each_step(step)
            step += 1
            if time.monotonic() > deadline:
                break
        each_epoch(epoch)
        epoch += 1
    print(f"trained {step} steps in {epoch} epochs", file=sys.stderr)
