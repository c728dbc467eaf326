"""The loops that ``benchmarks/instructions.py`` counts; runs under callgrind and dumps one profile for each.

    valgrind --tool=callgrind ... python -m benchmarks.counted REQUESTS.so [LOOP...]

Each loop is warmed up first, while Python specializes its bytecode. Then the counters start at zero, and
after ``STEPS`` iterations they are dumped under the loop's name. Start-up, imports and forks are not counted.
Each loop runs in a process forked from one that has imported PyTorch, which takes a minute under callgrind.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterable
from typing import Any, Final

import torch
from torch.utils.data import DataLoader, Dataset

from benchmarks.bare import hook_nothing, record_events
from benchmarks.steps import ROWS, WIDTH, ReadyLoader, Rows, Training
from loaderwatch.demo.virtual_gpu import VirtualGpu

WARM: Final = 24
STEPS: Final = 64
"""Iterations that are counted; one in sixteen looks closely, so a multiple of sixteen."""
MORE: Final = 8
"""Behind them, so that nothing of an epoch's end is counted."""
BATCHES: Final = WARM + STEPS + MORE
WORKERS: Final = 2


class Counters:
    """Callgrind's, by its client requests; ``path`` is the library that spells them out."""

    def __init__(self, path: str) -> None:
        self._requests = ctypes.CDLL(path)

    def start(self) -> None:
        """Be ready to count; until here the program ran several times faster."""
        self._requests.start()

    def zero(self) -> None:
        """Begin a count."""
        self._requests.zero()

    def dump(self, name: str) -> None:
        """End it: write it under this name."""
        self._requests.dump(name.encode())


class Samples(Dataset[torch.Tensor]):
    """Samples without work. In worker 0 the first and last sample start and end the worker's count."""

    def __init__(self, counters: Counters, name: str) -> None:
        self.counters = counters
        self.name = name
        self.sample = torch.zeros(WIDTH)
        self.marks = (0, WARM * ROWS, (WARM + STEPS) * ROWS)
        self.read = 0

    def __len__(self) -> int:
        return BATCHES * ROWS * WORKERS

    def __getitem__(self, index: int) -> torch.Tensor:
        if self.read in self.marks:
            self._mark()
        self.read += 1
        return self.sample

    def _mark(self) -> None:
        info = torch.utils.data.get_worker_info()
        if info is None or info.id:
            return
        mark = self.marks.index(self.read)
        if mark == 0:
            self.counters.start()
        elif mark == 1:
            self.counters.zero()
        else:
            self.counters.dump(self.name)


def count(counters: Counters, name: str, batches: Iterable[Any], training: Training | None) -> None:
    """Go through the batches, with a training's step or none, and dump the count of ``STEPS`` of them."""
    first, last = WARM, WARM + STEPS
    for number, batch in enumerate(batches):
        if number == 0:
            counters.start()
        elif number == first:
            counters.zero()
        elif number == last:
            counters.dump(name)
        if training is not None:
            training.step(batch)


def ready_loader() -> ReadyLoader:
    """Batches that wait already."""
    return ReadyLoader(Rows(torch.zeros(BATCHES * ROWS, WIDTH)), batch_size=ROWS)


def count_ready(counters: Counters, loop: str, *, watched: bool) -> None:
    """Batches that are ready: nothing but the hooks, or the hooks around the step of a model.

    "empty" has compiled functions that do nothing in place of our hooks: the cost of calling any hook.
    "events" uses the virtual GPU. Its events have a cost too, so the bare loop uses the same events.
    """
    import loaderwatch

    loader = ready_loader()
    training = Training(loader, None)
    if loop.startswith("events"):
        gpu = VirtualGpu()
        gpu.install(lambda name, new: setattr(torch.cuda, name, new))
        if not watched:
            record_events(training, gpu, with_seams=loop.endswith("step"))
    if watched and loop.startswith("empty"):
        hook_nothing(training)
    elif watched and loop.startswith("phases"):
        loaderwatch.attach(loader, model=training.model, optimizer=training.optimizer)
    elif watched:
        loaderwatch.attach(loader)
    count(counters, named(loop, watched=watched), loader, training if loop.endswith("step") else None)


def count_fetches(counters: Counters, loop: str, *, watched: bool) -> None:
    """Batches of trivial samples that are fetched: by the training process itself, or by two real workers."""
    import loaderwatch

    workers = WORKERS if loop == "workers" else 0
    method = "fork" if workers else None
    samples = Samples(counters, named(f"{loop}, in a worker", watched=watched))
    loader = DataLoader(samples, batch_size=ROWS, num_workers=workers, multiprocessing_context=method)
    if watched:
        loaderwatch.attach(loader)
    count(counters, named(loop, watched=watched), loader, None)


def named(loop: str, *, watched: bool) -> str:
    """The name of a profile."""
    return f"{loop}; {'watched' if watched else 'bare'}"


LOOPS: Final = {
    "loader": count_ready,
    "loader, step": count_ready,
    "phases, step": count_ready,
    "empty, step": count_ready,
    "events": count_ready,
    "events, step": count_ready,
    "no workers": count_fetches,
    "workers": count_fetches,
}


def main(library: str, loops: list[str]) -> None:
    """Count each of them bare and watched, in a process of its own that all begin alike."""
    torch.set_num_threads(1)
    counters = Counters(library)
    training = Training(ready_loader(), None)
    for batch in training.loader:  # imports what is imported once
        training.step(batch)
        break
    for loop in loops or LOOPS:
        for watched in (False, True):
            child = os.fork()
            if not child:
                LOOPS[loop](counters, loop, watched=watched)
                sys.exit(0)
            _, status = os.waitpid(child, 0)
            if status:
                sys.exit(f"{named(loop, watched=watched)} ended with status {status}")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
