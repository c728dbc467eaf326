"""A simulation of a DataLoader with other settings, from measurements of the running one.

Batches take their measured times, in the measured order. A worker reads one batch at a time. The loop takes
the batches in order, or as they come. So the simulation shows what a mean hides: a slow batch that blocks
others, bursts that the ready batches cover, workers that share CPUs.

The rules are those of ``_MultiProcessingDataLoaderIter`` (torch 2.13). ``num_workers * prefetch_factor``
batches are requested ahead, and one more whenever the loop takes one, from the workers in turn. Out of order,
the request goes to the next worker with fewer than its share.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]

KNEE_RATIO: Final = 0.03
"""The knee is the fewest workers whose iteration is at most this ratio longer than the shortest one."""
LEAST_BATCHES: Final = 240
ROUNDS: Final = 12
"""Simulated batches, in rounds of all that are requested ahead, but at least ``LEAST_BATCHES`` batches."""


@dataclass(frozen=True, slots=True)
class Pipeline:
    """The measurements of a loader and its loop; times in seconds.

    ``fetch_s``, shape (batches,), is a worker's time for each batch if it always gets a CPU. The array
    ``step_s``, shape (steps,), is the loop's (or a known device's) time from a delivery to the next request.
    """

    fetch_s: Floats
    step_s: Floats
    handover_s: float = 0.0  # the loop's time to take a ready batch
    fetch_cpus: float = 0.0  # cores that a worker uses during a fetch
    step_cpus: float = 0.0  # cores that the training process uses during a step
    cpus: float = math.inf  # cores that all of them share


@dataclass(frozen=True, slots=True)
class Setting:
    """The settings of a DataLoader that decide when a batch is ready."""

    num_workers: int
    prefetch_factor: int = 2
    in_order: bool = True


def iteration_s(pipeline: Pipeline, setting: Setting, first: int = 0) -> float:
    """Return the mean seconds of an iteration after the loop's start; NaN without measurements.

    ``first`` is the measured batch (and step) to begin with. Measurements repeat as often as needed.
    """
    if not (pipeline.fetch_s.size and pipeline.step_s.size):
        return math.nan
    ahead = setting.num_workers * setting.prefetch_factor
    batches = max(LEAST_BATCHES, ROUNDS * ahead)
    # More batches are requested than taken: at an end, no other batch would pass a slow one.
    rows = np.arange(first, first + batches + ahead)
    fetch_s = pipeline.fetch_s[rows % pipeline.fetch_s.size]
    step_s = pipeline.step_s[rows % pipeline.step_s.size] + pipeline.handover_s
    if not setting.num_workers:
        return float(fetch_s.mean() + step_s.mean())
    taken_s = _Play(pipeline, setting, fetch_s.tolist(), step_s.tolist()).run(batches)
    # The first batches come when nothing is ready yet, as at an epoch's begin: this is not the steady state.
    warm = min(ahead, batches // 2)
    return (taken_s[-1] - taken_s[warm - 1]) / (batches - warm)


class _Play:
    """The workers and the loop, from event to event: a batch gets ready, or a step ends."""

    def __init__(
        self, pipeline: Pipeline, setting: Setting, fetch_s: list[float], step_s: list[float]
    ) -> None:
        self._pipeline, self._setting = pipeline, setting
        self._fetch_s, self._step_s = fetch_s, step_s
        self._queues: list[deque[int]] = [deque() for _ in range(setting.num_workers)]
        self._left_s: dict[int, float] = {}  # work left in each busy worker's batch, if it always gets a CPU
        # Ready batches, in the order in which they came, and their workers.
        self._ready: dict[int, int] = {}
        # Batches requested from each worker that the loop has not taken.
        self._outstanding = [0] * setting.num_workers
        self._sent, self._turn = 0, 0

    def run(self, batches: int) -> list[float]:
        """Return when the loop took each of so many batches, in seconds from its start."""
        now_s, step_left_s = 0.0, math.inf  # infinite: the loop is waiting
        taken: list[float] = []
        for _ in range(self._setting.num_workers * self._setting.prefetch_factor):
            self._send()
        while len(taken) < batches:
            if math.isinf(step_left_s) and self._take(len(taken)):
                step_left_s = self._step_s[len(taken)]
                taken.append(now_s)
                self._send()
            worker_rate, loop_rate = self._rates(stepping=not math.isinf(step_left_s))
            next_s = min(step_left_s / loop_rate, min(self._left_s.values(), default=math.inf) / worker_rate)
            now_s += next_s
            step_left_s -= next_s * loop_rate
            if step_left_s <= 1e-12:
                step_left_s = math.inf
            self._work(next_s * worker_rate)
        return taken

    def _send(self) -> None:
        """Request the next batch from the worker in turn; out of order, from the next one below its share."""
        if self._sent >= len(self._fetch_s):
            return
        for _ in self._queues:
            worker, self._turn = self._turn, (self._turn + 1) % len(self._queues)
            if self._setting.in_order or self._outstanding[worker] < self._setting.prefetch_factor:
                self._queues[worker].append(self._sent)
                self._outstanding[worker] += 1
                self._sent += 1
                self._begin(worker)
                return

    def _begin(self, worker: int) -> None:
        if worker not in self._left_s and self._queues[worker]:
            self._left_s[worker] = self._fetch_s[self._queues[worker][0]]

    def _work(self, done_s: float) -> None:
        """Let every busy worker do so many seconds of its work."""
        for worker in list(self._left_s):
            self._left_s[worker] -= done_s
            if self._left_s[worker] <= 1e-12:
                del self._left_s[worker]
                self._ready[self._queues[worker].popleft()] = worker
                self._begin(worker)

    def _take(self, number: int) -> bool:
        """Give the loop its next batch; return False if no batch is ready."""
        batch = number if self._setting.in_order else next(iter(self._ready), None)
        if batch is None or batch not in self._ready:
            return False
        self._outstanding[self._ready.pop(batch)] -= 1
        return True

    def _rates(self, *, stepping: bool) -> tuple[float, float]:
        """Return the speeds of workers and loop, 0 to 1, relative to always having a CPU.

        If they need more CPUs than there are, their CPU work is slower by that factor; their waits are not.
        """
        pipeline = self._pipeline
        wanted = len(self._left_s) * pipeline.fetch_cpus + (pipeline.step_cpus if stepping else 0.0)
        stretch = max(1.0, wanted / pipeline.cpus) - 1.0
        return 1 / (1 + stretch * min(1.0, pipeline.fetch_cpus)), 1 / (
            1 + stretch * min(1.0, pipeline.step_cpus)
        )
