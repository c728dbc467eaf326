"""The three stalls that are built into each framework's training, and the data that has them.

``transform``: preparing a sample needs more CPU than there is. ``file``: one file is a pipe without a writer.
``worker``: one worker's share of a stream is heavy to decode.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor
from torch.utils.data import Dataset, IterableDataset, get_worker_info

from tests.scenarios.training import SlowDataset, burn

TRANSFORM: Final = "transform"
FILE: Final = "file"
WORKER: Final = "worker"

BATCH: Final = 8
BLOCKED: Final = 333
"""The sample whose file is a pipe."""
HEAVY: Final = 1
"""The worker whose share is heavy."""
SCRATCH: Final = Path(os.environ["LOADERWATCH_DIR"], "scratch")
"""The test's own folder; it goes when the test is over."""


def kind() -> str:
    """The requested stall. A slow transform gets one CPU, which is soon full; the other CPUs stay free."""
    asked = sys.argv[1]
    if asked == TRANSFORM:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:1])
    return asked


def workers(stall: str) -> int:
    """So many as the stall needs."""
    return 3 if stall == WORKER else 2


def step_s(stall: str) -> float:
    """How long a step takes, as of a loop that waits for its GPU."""
    return 0.05 if stall == FILE else 0.02


def transform(sample: Any) -> Any:
    """Eight milliseconds of CPU."""
    burn(0.064 / BATCH)
    return sample


def blocked_file(path: Path) -> Path:
    """A pipe that nobody writes to, in place of a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(path)
    return path


def decode(worker: int) -> None:
    """A sample of a worker's share: heavy for one of them."""
    time.sleep((1.2 if worker == HEAVY else 0.016) / BATCH)


class Stream(IterableDataset[Any]):
    """Samples without end, one share for each worker."""

    def __init__(self, make: Callable[[Tensor], Any] = lambda x: x) -> None:
        self._make = make

    def __iter__(self) -> Iterator[Any]:
        info = get_worker_info()
        while True:
            decode(info.id if info is not None else HEAVY)
            yield self._make(torch.zeros(16))


def dataset(stall: str) -> Dataset[Any]:
    """Samples of sixteen numbers, with the stall."""
    if stall == WORKER:
        return Stream()
    if stall == TRANSFORM:
        return SlowDataset(100_000, transform)
    pipe = blocked_file(SCRATCH / "blocked")
    plain = SCRATCH / "plain"
    plain.write_bytes(b"numbers")

    def read(index: int) -> bytes:
        return (pipe if index == BLOCKED else plain).read_bytes()

    return SlowDataset(400, read)  # soon met, in whatever order they are read
