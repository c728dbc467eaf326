"""Ten scenarios, each as it is and with its advice done, for the same time: what does the advice give?

    python -m tests.scenarios.advised S02 '{"num_workers": 8}'

The second argument holds what the advice changes; without it the script is as it is. The last line printed is
``{"steps": …, "seconds": …}``, from the first batch on.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, RandomSampler

import loaderwatch
from tests.scenarios.training import SlowDataset, burn, sleep_read

SECONDS = float(os.environ.get("ADVISED_SECONDS", "20"))
LENGTH = 100_000
Changes = dict[str, Any]


def changed(changes: Changes, **usual: Any) -> Changes:
    """Options of a loader: the usual ones, with what is changed."""
    return {**usual, **changes}


class Timed:
    """Counts steps from the first batch on, and says when it is time to end."""

    def __init__(self) -> None:
        self.steps = 0
        self._began: float | None = None
        self.seconds = 0.0

    def step(self, step_s: float, compute: Callable[[float], None] = time.sleep) -> bool:
        """One step; False when the time is over."""
        if self._began is None:
            self._began = time.monotonic()
            self.steps = -1  # its batch was waited for before
        compute(step_s)
        self.steps += 1
        self.seconds = time.monotonic() - self._began
        return self.seconds < SECONDS

    def train(self, loader: DataLoader[Any], step_s: float) -> None:
        """Whole epochs, one after the other."""
        while True:
            for _ in loader:
                if not self.step(step_s):
                    return


def few_workers(changes: Changes) -> Timed:
    """S02: two workers that sleep for each sample."""
    loader = DataLoader(
        SlowDataset(LENGTH, sleep_read(0.02)), batch_size=8, **changed(changes, num_workers=2)
    )
    return trained(loader, 0.02)


def latency(changes: Changes) -> Timed:
    """S08: six workers that wait for storage."""
    loader = DataLoader(
        SlowDataset(LENGTH, sleep_read(0.06)), batch_size=8, **changed(changes, num_workers=6)
    )
    return trained(loader, 0.02)


def keep_fresh(worker: int) -> None:
    """Use 5 ms of CPU five times a second beside reading, as a storage client that refreshes its index."""

    def refresh() -> None:
        while True:
            time.sleep(0.2)
            burn(0.005)

    threading.Thread(target=refresh, daemon=True).start()


def oversubscribed(changes: Changes) -> Timed:
    """S03: eight workers compute on one CPU, and the overhead of a worker is paid eight times."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:1])
    loader = DataLoader(
        SlowDataset(LENGTH, lambda index: burn(0.004)),
        batch_size=8,
        worker_init_fn=keep_fresh,
        **changed(changes, num_workers=8),
    )
    return trained(loader, 0.02)


def threads(changes: Changes) -> Timed:
    """S06: BLAS with four threads in each of three workers, on one CPU."""
    import numpy as np
    from threadpoolctl import threadpool_limits

    threadpool_limits(changes.get("threads", 4), "blas")
    matrix = np.random.default_rng(0).random((160, 160))

    def read(index: int) -> None:
        result = matrix
        for _ in range(2):
            result = result @ matrix / 100

    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:1])
    loader = DataLoader(SlowDataset(LENGTH, read), batch_size=8, num_workers=3)
    return trained(loader, 0.01)


def scatter(samples: list[Tensor]) -> list[Tensor]:
    """Eight hundred small tensors for a batch."""
    return [torch.zeros(4) for _ in range(800)]


def stack(samples: list[Tensor]) -> Tensor:
    """The same in one."""
    return torch.zeros(800, 4)


def delivery(changes: Changes) -> Timed:
    """S13: the training thread unpacks many small tensors."""
    collate = stack if changes.get("stacked") else scatter
    loader = DataLoader(
        SlowDataset(LENGTH), batch_size=8, num_workers=2, prefetch_factor=4, collate_fn=collate
    )
    return trained(loader, 0.15)


def slow_sample(changes: Changes) -> Timed:
    """S20: sample 333 takes two seconds; trimmed, as long as the others."""

    def read(index: int) -> None:
        time.sleep(2.0 if index == 333 and not changes.get("trimmed") else 0.002)

    loader = DataLoader(SlowDataset(640, read), batch_size=8, num_workers=2, persistent_workers=True)
    return trained(loader, 0.04)


def jitter(changes: Changes) -> Timed:
    """S21: every 34th batch or so has a sample of 1.2 s."""

    def read(index: int) -> None:
        time.sleep(1.2 if index % 270 == 100 else 0.002)

    loader = DataLoader(SlowDataset(LENGTH, read), batch_size=8, num_workers=2, **changes)
    return trained(loader, 0.06)


class Plain(SlowDataset):
    """Nothing that cannot be pickled."""

    def __init__(self) -> None:
        self.length = 160

    def __getitem__(self, index: int) -> Tensor:
        return torch.full((16,), float(index))


def restart(changes: Changes) -> Timed:
    """S28: twenty batches an epoch, workers spawned for each."""
    loader = DataLoader(
        Plain(),
        batch_size=8,
        num_workers=2,
        multiprocessing_context="spawn",
        **changes,
    )
    return trained(loader, 0.04)


def reset_drain(changes: Changes) -> Timed:
    """S30: twelve batches of an epoch, then a break; or a sampler that ends it."""
    dataset = SlowDataset(10_000, sleep_read(0.025))
    sampler = RandomSampler(dataset, num_samples=96) if changes.get("sampled") else None
    loader = DataLoader(
        dataset, batch_size=8, num_workers=2, prefetch_factor=6, persistent_workers=True, sampler=sampler
    )
    loaderwatch.attach(loader)
    timed = Timed()
    while True:
        for number, _ in enumerate(loader):
            if not timed.step(0.12):
                return timed
            if number == 11 and sampler is None:
                break


def rebuilt(changes: Changes) -> Timed:
    """S32: next(iter(loader)) in every step; or one iterator."""
    loader = DataLoader(SlowDataset(LENGTH), batch_size=8, num_workers=2)
    loaderwatch.attach(loader)
    timed = Timed()
    kept = iter(loader) if changes.get("hoisted") else None
    while True:
        next(kept if kept is not None else iter(loader))
        if not timed.step(0.03):
            return timed


def trained(loader: DataLoader[Any], step_s: float) -> Timed:
    """Attached, and trained for the time."""
    loaderwatch.attach(loader)
    timed = Timed()
    timed.train(loader, step_s)
    return timed


SCENARIOS: dict[str, Callable[[Changes], Timed]] = {
    "S02": few_workers,
    "S03": oversubscribed,
    "S06": threads,
    "S08": latency,
    "S13": delivery,
    "S20": slow_sample,
    "S21": jitter,
    "S28": restart,
    "S30": reset_drain,
    "S32": rebuilt,
}


if __name__ == "__main__":
    with contextlib.suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, -10)  # both runs alike, whatever else this machine does
    ended = SCENARIOS[sys.argv[1]](json.loads(sys.argv[2]) if len(sys.argv) > 2 else {})
    print(json.dumps({"steps": ended.steps, "seconds": ended.seconds}), flush=True)
