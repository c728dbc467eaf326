"""One training loop for every compared tool: the same model, the same batches, a fixed number of steps.

    python benchmarks/steps.py bare|hooks|phases|traceml|gpuprof OUT.json

Imports no loaderwatch, since the peers run in an environment without it. Writes for each block of steps the
CPU time of the training thread, the CPU time of the whole training process, and the wall time.
"""

from __future__ import annotations

import json
import multiprocessing
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, Final

import torch
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.dataloader import _BaseDataLoaderIter

ROWS: Final = 64
WIDTH: Final = 64
PADS_NS: Final = {"tiny": 0, "5ms": 4_850_000}
"""Spinning at the end of a step, as a loop that waits for its GPU. It is subtracted from CPU times, because
the spinning speed of the processor says nothing about a tool."""

BLOCKS: Final = {"tiny": (400, 40), "5ms": (25, 20)}
"""Steps of a block, and blocks of a run."""

SETTLE_S: Final = 6.0
"""Steps are taken for this long before any is counted: helper processes and threads start meanwhile."""

Clocks = tuple[int, int, int]
"""CPU of this thread, CPU of this process, wall; nanoseconds."""


def clocks() -> Clocks:
    """Now, by each of the three clocks."""
    return time.thread_time_ns(), time.process_time_ns(), time.perf_counter_ns()


def since(began: Clocks) -> Clocks:
    """What has passed by each of the three clocks."""
    now = clocks()
    return now[0] - began[0], now[1] - began[1], now[2] - began[2]


class Rows(TensorDataset):
    """Samples that need no work."""

    def __getitem__(self, index: int) -> Any:
        return self.tensors[0][index]


class ReadyIterator(_BaseDataLoaderIter):
    """What PyTorch's multiprocess iterator shows while its workers are ahead, without their noise."""

    def __init__(self, loader: Any, batches: list[Any]) -> None:
        super().__init__(loader)
        self._worker_result_queue: Any = multiprocessing.Queue()
        self._worker_result_queue.put(None)
        self._task_info = {0: (0,), 1: (1,)}
        self._tasks_outstanding = 2
        self._rcvd_idx, self._send_idx, self._in_order = 0, 2, True
        self._batches = iter(batches)

    def _next_data(self) -> Any:
        return next(self._batches)


class ReadyLoader(DataLoader[Any]):
    """A DataLoader whose batches are always waiting: nothing but the hooks is left to measure."""

    iterator_class = ReadyIterator

    def _get_iterator(self) -> Any:
        data = self.dataset.tensors[0]  # type: ignore[attr-defined]
        return self.iterator_class(self, list(data.reshape(-1, ROWS, WIDTH)))


def rows(batches: int) -> Rows:
    """The dataset of that many batches."""
    return Rows(torch.randn(batches * ROWS, WIDTH))


class Training:
    """A small network and its steps. ``around`` gives the context manager that a tool needs around a step."""

    def __init__(self, loader: Any, around: Callable[[Any], AbstractContextManager[Any]] | None) -> None:
        torch.manual_seed(0)
        self.loader = loader
        self.model = torch.nn.Sequential(torch.nn.Linear(WIDTH, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-3)
        self._around = around

    def block(self, step: str) -> Clocks:
        """One epoch; its first batch is not counted."""
        pad_ns, padded_ns = PADS_NS[step], 0
        batches = iter(self.loader)
        next(batches)
        began = clocks()
        if self._around is None:
            for batch in batches:
                padded_ns += self.step(batch, pad_ns)
        else:  # in one loop, a "with" that does nothing would be part of every other tool's step, too
            for batch in batches:
                with self._around(self.model):
                    padded_ns += self.step(batch, pad_ns)
        thread, process, wall = since(began)
        return thread - padded_ns, process - padded_ns, wall

    def iterations(self, step: str) -> Iterator[int]:
        """One epoch; the CPU nanoseconds of this thread per iteration, but the first. ``none``: no step."""
        clock, exhausted = time.thread_time_ns, object()
        pad_ns, padded_ns = PADS_NS.get(step, 0), 0
        batches = iter(self.loader)
        next(batches)
        while True:
            began = clock()
            batch = next(batches, exhausted)
            if batch is exhausted:
                return
            if step != "none":
                padded_ns = self.step(batch, pad_ns)
            yield clock() - began - padded_ns

    def step(self, batch: Any, pad_ns: int = 0) -> int:
        """A step, and what it spun."""
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.model(batch).square().mean()
        loss.backward()
        self.optimizer.step()
        return _spin(pad_ns) if pad_ns else 0


def _spin(pad_ns: int) -> int:
    """Burn that much CPU; what it really was."""
    began = now = time.thread_time_ns()
    end = began + pad_ns
    while now < end:
        now = time.thread_time_ns()
    return now - began


def run(tool: str) -> dict[str, list[Clocks]]:
    """Train under one tool, set up as its documentation says; by kind of step, the clocks of each block."""
    torch.set_num_threads(1)
    session: AbstractContextManager[Any] = nullcontext()
    around: Callable[[Any], AbstractContextManager[Any]] | None = None
    if tool == "traceml":
        import traceml_ai

        traceml_ai.init(mode="auto")
        around = traceml_ai.trace_step
    elif tool == "gpuprof":
        import gpuprof

        session = gpuprof.profile("overhead")
    trainings = {
        step: Training(ReadyLoader(rows(steps + 1), batch_size=ROWS), around)
        for step, (steps, _) in BLOCKS.items()
    }
    if tool in ("hooks", "phases"):
        import loaderwatch

        for step, training in trainings.items():
            if tool == "phases":
                loaderwatch.attach(
                    training.loader, name=step, model=training.model, optimizer=training.optimizer
                )
            else:
                loaderwatch.attach(training.loader, name=step)
    measured: dict[str, list[Clocks]] = {}
    with session:
        for step, (steps, blocks) in BLOCKS.items():
            training = trainings[step]
            settled = time.monotonic() + (SETTLE_S if not measured else 0.5)
            while time.monotonic() < settled:
                training.block(step)
            measured[step] = [
                tuple(clock // steps for clock in training.block(step))  # type: ignore[misc]
                for _ in range(blocks)
            ]
    return measured


if __name__ == "__main__":
    result = run(sys.argv[1])
    Path(sys.argv[2]).write_text(json.dumps(result))
