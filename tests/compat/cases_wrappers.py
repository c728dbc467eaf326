"""Loops that do not iterate the loader itself: prefetchers, generators, itertools."""

from __future__ import annotations

import itertools
import queue
import threading
from collections.abc import Generator, Iterable, Iterator
from typing import Any

import torch

from tests.compat.case import Watcher, case
from tests.compat.training import data, setup, state, train


class NextInput:
    """NVIDIA's ``data_prefetcher`` as it is copied from example to example, without its CUDA stream."""

    def __init__(self, loader: Iterable[Any]) -> None:
        self.loader = iter(loader)
        self.preload()

    def preload(self) -> None:
        try:
            self.next_input, self.next_target = next(self.loader)
        except StopIteration:
            self.next_input = self.next_target = None
            return
        self.next_input = self.next_input.float() - 0.5

    def next(self) -> tuple[Any, Any]:
        given = self.next_input, self.next_target
        self.preload()
        return given


class Background(threading.Thread):
    """A thread that keeps the next batches in a queue."""

    def __init__(self, loader: Iterable[Any], ahead: int = 2) -> None:
        super().__init__(daemon=True)
        self.loader = loader
        self.queue: queue.Queue[Any] = queue.Queue(ahead)
        self.start()

    def run(self) -> None:
        for batch in self.loader:
            self.queue.put(batch)
        self.queue.put(None)

    def __iter__(self) -> Iterator[Any]:
        while (batch := self.queue.get()) is not None:
            yield batch
        self.join()


class Infinite:
    """Restarts the loader when it ends."""

    def __init__(self, loader: Iterable[Any]) -> None:
        self.loader = loader
        self.iterator = iter(loader)

    def __iter__(self) -> Infinite:
        return self

    def __next__(self) -> Any:
        try:
            return next(self.iterator)
        except StopIteration:
            self.iterator = iter(self.loader)
            return next(self.iterator)


def _doubled(loader: Iterable[Any]) -> Generator[Any, None, None]:
    for x, y in loader:
        yield x * 2, y
    yield from ((x, y * 2) for x, y in loader)


@case()
def data_prefetcher(watch: Watcher) -> Any:
    seen: list[Any] = []
    for workers in (0, 2):
        model, optimizer, _ = setup(watch)
        ahead = NextInput(watch(data(num_workers=workers), model=model, optimizer=optimizer))
        x, y = ahead.next()
        while x is not None:
            seen.append(train(model, optimizer, [(x, y)]))
            x, y = ahead.next()
        seen.append(state(model))
    return seen


@case()
def background_thread(watch: Watcher) -> Any:
    seen: list[Any] = []
    for workers in (0, 2):
        model, optimizer, _ = setup(watch)
        loader = watch(data(num_workers=workers, shuffle=False), model=model, optimizer=optimizer)
        seen += [train(model, optimizer, Background(loader)) for _ in range(2)]
    return seen


@case()
def endless(watch: Watcher) -> Any:
    seen: list[Any] = []
    for options in ({}, {"num_workers": 1}, {"num_workers": 1, "persistent_workers": True}):
        model, optimizer, _ = setup(watch)
        endless = Infinite(watch(data(8, **options), model=model, optimizer=optimizer))
        seen.append(train(model, optimizer, endless, most=7))
        endless.iterator = iter(())
    return seen


@case()
def generators_over_it(watch: Watcher) -> Any:
    model, optimizer, loader = setup(watch)
    seen: list[Any] = [train(model, optimizer, _doubled(loader))]
    abandoned = _doubled(loader)
    next(abandoned)
    abandoned.close()
    thrown = _doubled(loader)
    next(thrown)
    try:
        thrown.throw(KeyError("by the user"))
    except KeyError as error:
        seen.append(error)
    return [seen, train(model, optimizer, (one for one in loader)), state(model)]


@case()
def iterated_by_tools(watch: Watcher) -> Any:
    model, optimizer, loader = setup(watch)
    one, two = itertools.tee(loader)
    return [
        train(model, optimizer, itertools.islice(loader, 2)),
        train(model, optimizer, itertools.islice(loader, 1, None, 2)),
        train(model, optimizer, itertools.islice(itertools.cycle(loader), 9)),
        train(model, optimizer, itertools.chain(loader, reversed(list(loader)))),
        train(model, optimizer, (batch for _, batch in enumerate(loader, 5))),
        train(model, optimizer, map(list, loader)),
        train(model, optimizer, (first for first, _ in zip(one, two, strict=True))),
        train(model, optimizer, itertools.takewhile(lambda pair: bool(pair[0].sum() < 100), loader)),
        sorted(len(x) for x, _ in loader),
        max(float(x.max()) for x, _ in loader),
        len(list(filter(None, (len(x) for x, _ in loader)))),
        state(model),
    ]


@case()
def progress_bar(watch: Watcher) -> Any:
    """What tqdm does with it: ``len``, ``iter``, a generator with a ``finally``, attributes."""

    class Bar:
        def __init__(self, loader: Any) -> None:
            self.loader, self.total, self.said = loader, len(loader), 0

        def __iter__(self) -> Iterator[Any]:
            try:
                for batch in self.loader:
                    yield batch
                    self.said += 1
            finally:
                self.said += 100

    model, optimizer, loader = setup(watch)
    bar = Bar(loader)
    return [
        train(model, optimizer, bar),
        bar.said,
        train(model, optimizer, bar, 2),
        bar.said,
        bar.total,
        bool(loader),
    ]


@case()
def function_with_finally(watch: Watcher) -> Any:
    model, optimizer, loader = setup(watch)
    said: list[Any] = []

    def run(bad: int) -> Any:
        try:
            for number, (x, _y) in enumerate(loader):
                if number == bad:
                    raise LookupError(f"in step {number}")
                said.append(train(model, optimizer, [(x, _y)]))
            else:
                said.append("to its end")
            return "returned"
        finally:
            said.append("finally")

    for bad in (2, 99):
        try:
            said.append(run(bad))
        except LookupError as error:
            said.append(error)
    return [said, state(model), torch.is_grad_enabled()]
