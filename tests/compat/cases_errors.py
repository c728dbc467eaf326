"""Errors, and ends of workers: what reaches the loop, with which text, and what is left afterwards."""

from __future__ import annotations

import ctypes
import os
import signal
import time
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils.data import DataLoader, IterableDataset, Sampler

from tests.compat.case import ATTACHED, FORK, FORKSERVER, SPAWN, Watcher, batches, case, described, failure
from tests.compat.datasets import Batched, Squares, Stream

ALL = (FORK, FORKSERVER, SPAWN)


class Awkward(Exception):
    """An error that cannot be made again from its text."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__(one, two)

    def __str__(self) -> str:
        return f"awkward {self.args}"


class Raising(Squares):
    """Raises what it was given, from a helper, with a cause."""

    def __init__(self, kind: str, at: int = 5) -> None:
        super().__init__(12)
        self.kind = kind
        self.at = at

    def __getitem__(self, index: int) -> torch.Tensor:
        if index != self.at:
            return super().__getitem__(index)
        try:
            self._fail()
        except ZeroDivisionError as error:
            raise RuntimeError("read failed") from error
        raise AssertionError(self.kind)

    def _fail(self) -> Any:
        if self.kind == "cause":
            return 1 // 0
        if self.kind == "awkward":
            raise Awkward(1, 2)
        if self.kind == "key":
            return dict[str, int]()["no such key"]
        if self.kind == "exit":
            raise SystemExit(3)
        if self.kind == "stop":
            raise StopIteration
        raise KeyboardInterrupt


@case(methods=ALL)
def sample_errors(watch: Watcher) -> Any:
    counts = (1,) if watch.method == SPAWN else (0, 1)
    return [batches(watch(DataLoader(Squares(24, bad=9), 4, num_workers=n))) for n in counts]


@case()
def sample_error_kinds(watch: Watcher) -> Any:
    return [
        failure(
            lambda kind=kind, n=n: list(  # type: ignore[misc]
                watch(DataLoader(Raising(kind), 4, num_workers=n))
            )
        )
        for n in (0, 1)
        for kind in ("cause", "awkward", "key", "stop")
    ]


@case()
def interrupts_in_datasets(watch: Watcher) -> Any:
    """Raised on the training thread, they are the loop's."""
    return [
        failure(lambda kind=kind: list(watch(DataLoader(Raising(kind), 4))))  # type: ignore[misc]
        for kind in ("exit", "interrupt")
    ]


@case()
def errors_without_batches(watch: Watcher) -> Any:
    return [
        batches(watch(DataLoader(dataset, batch_size=size, num_workers=n)))
        for n in (0, 1)
        for dataset, size in (
            (Squares(6, bad=2), None),
            (Batched(12, bad=7), 4),
            (Stumbling(), 2),
            (Stumbling(), None),
        )
    ]


class Stumbling(Stream):
    """A stream that fails under way."""

    def __iter__(self) -> Iterator[torch.Tensor]:
        for number, row in enumerate(super().__iter__()):
            if number == 5:
                raise OSError(5, "connection lost", "shard-3.tar")
            yield row


@case()
def goes_on_after_an_error(watch: Watcher) -> Any:
    seen = []
    for n in (0, 2):
        step = iter(watch(DataLoader(Squares(24, bad=9), 4, num_workers=n))).__next__
        seen += [failure(step) for _ in range(8)]
        del step
    return seen


def broken_collate(rows: Any) -> Any:
    raise KeyError("collate is broken")


def broken_init(worker: int) -> None:
    raise RuntimeError(f"init of worker {worker} is broken")


def broken_late(rows: Any) -> Any:
    if rows[0] > 30:
        raise TypeError("these rows do not fit")
    return torch.stack(rows)


@case(methods=ALL)
def collate_and_init_errors(watch: Watcher) -> Any:
    loaders = [
        DataLoader(Squares(), 4, num_workers=1, collate_fn=broken_collate),
        DataLoader(Squares(), 4, num_workers=1, worker_init_fn=broken_init),
        DataLoader(Squares(), 4, num_workers=2, collate_fn=broken_late),
    ]
    if watch.method != SPAWN:
        loaders += [
            DataLoader(Squares(), 4, collate_fn=broken_collate),
            DataLoader(Squares(), 4, num_workers=2, worker_init_fn=broken_init, persistent_workers=True),
            DataLoader(Stream(), 4, num_workers=1, worker_init_fn=broken_init),
        ]
    return [batches(watch(loader)) for loader in loaders]


class BrokenSampler(Sampler[int]):
    """Fails when it is begun, or under way, or when it is asked for its length."""

    def __init__(self, at: int) -> None:
        self.at = at

    def __iter__(self) -> Iterator[int]:
        if self.at < 0:
            raise LookupError("no indices today")
        return self._indices()

    def _indices(self) -> Iterator[int]:
        for number in range(12):
            if number == self.at:
                raise ArithmeticError(f"index {number}")
            yield number

    def __len__(self) -> int:
        raise NotImplementedError("nobody knows")


@case()
def sampler_errors(watch: Watcher) -> Any:
    seen = []
    for n in (0, 2):
        for at in (-1, 0, 1, 6):
            loader = watch(DataLoader(Squares(), 2, sampler=BrokenSampler(at), num_workers=n))
            seen += [batches(loader), failure(lambda: len(loader))]  # noqa: B023 - called at once
    return seen


class NoLength(Squares):
    """A map-style dataset that cannot say how long it is."""

    def __len__(self) -> int:
        raise ValueError("length is unknown")


@case(unwatched=True)
def length_errors(watch: Watcher) -> Any:
    loader = watch(DataLoader(NoLength(), 4, num_workers=1))
    return [failure(lambda: len(loader)), failure(lambda: list(loader)), failure(lambda: next(iter(loader)))]


@case()
def iterator_errors(watch: Watcher) -> Any:
    """Errors out of ``iter(dataset)`` and ``iter(loader)``."""

    class Refusing(IterableDataset[int]):
        def __iter__(self) -> Iterator[int]:
            raise PermissionError(13, "not yours", "/data/shard")

    refusing = [batches(watch(DataLoader(Refusing(), 2, num_workers=n))) for n in (0, 1)]
    return [*refusing, batches(watch(DataLoader(Squares(), 4)))]


@case(long=True, methods=(SPAWN,))
def what_cannot_be_sent(watch: Watcher) -> Any:
    class Local(Squares):
        pass

    local = watch(DataLoader(Local(), 4, num_workers=1))
    unsent = watch(DataLoader(Squares(), 4, num_workers=1, collate_fn=lambda rows: rows))
    return [batches(local), batches(unsent), batches(watch(DataLoader(Squares(), 4, num_workers=1)))]


class Dying(Squares):
    """A worker that ends in the middle of its work."""

    def __init__(self, how: str) -> None:
        super().__init__(24)
        self.how = how

    def __getitem__(self, index: int) -> torch.Tensor:
        if index == 13:
            time.sleep(0.1)  # the main process has come to wait
            if self.how == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            if self.how == "exit":
                os._exit(3)
            if self.how == "leave":
                raise SystemExit(4)
            ctypes.string_at(0)
        return super().__getitem__(index)


def without_frames(seen: list[Any]) -> list[Any]:
    """Type and number of batches. Chance decides whether a signal handler or a poll notices the death."""
    return [[str(type(one)), one[0] if isinstance(one, list) else one] for one in seen]


@case(methods=(FORK, FORKSERVER))
def worker_death(watch: Watcher) -> Any:
    seen = []
    for how in ("kill", "exit", "segfault"):
        loader = watch(DataLoader(Dying(how), 4, num_workers=1, prefetch_factor=1))
        seen += [without_frames(batches(loader)), batches(watch(DataLoader(Squares(8), 4, num_workers=1)))]
    return seen


@case(alone=True, long=True)
def worker_death_uncaught(watch: Watcher) -> Any:
    """The exit code of a job whose worker was killed."""
    try:
        list(watch(DataLoader(Dying("kill"), 4, num_workers=1, prefetch_factor=1)))
    except RuntimeError as error:
        raise SystemExit(f"{type(error).__name__}: {str(error)[:17]}") from None


@case(alone=True)
def error_uncaught(watch: Watcher) -> Any:
    """The traceback on stderr, and exit code 1."""
    list(watch(DataLoader(Squares(24, bad=9), 4, num_workers=1)))


@case(alone=True, long=True)
def error_uncaught_in_process(watch: Watcher) -> Any:
    for _ in watch(DataLoader(Raising("cause"), 4)):
        pass


@case(alone=True, long=True)
def error_in_the_loop(watch: Watcher) -> Any:
    for number, _ in enumerate(watch(DataLoader(Squares(), 4, num_workers=2))):
        if number == 2:
            raise ArithmeticError("loss is NaN")


@case(alone=True, long=True)
def exit_in_the_loop(watch: Watcher) -> Any:
    for number, _ in enumerate(watch(DataLoader(Squares(), 4, num_workers=2, persistent_workers=True))):
        if number == 2:
            raise SystemExit(17)


@case(alone=True, long=True)
def interrupt_in_the_loop(watch: Watcher) -> Any:
    """Ctrl-C between two batches: the traceback, and the exit code of SIGINT."""
    for number, _ in enumerate(watch(DataLoader(Squares(), 4, num_workers=2))):
        if number == 2:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(1)


class Interrupting(Squares):
    """A sample during which somebody presses Ctrl-C."""

    def __getitem__(self, index: int) -> torch.Tensor:
        if index == 9:
            time.sleep(0.2)
            os.kill(os.getppid(), signal.SIGINT)
            time.sleep(0.5)
        return super().__getitem__(index)


@case()
def interrupt_while_waiting(watch: Watcher) -> Any:
    """Ctrl-C while ``next`` waits; then the notebook goes on with another loader."""
    loader = watch(DataLoader(Interrupting(), 4, num_workers=1, prefetch_factor=1))
    seen: list[Any] = []
    try:
        for batch in loader:
            seen.append(batch)
    except KeyboardInterrupt as error:
        seen.append(described(error)[:2])
    return [seen, batches(watch(DataLoader(Squares(), 4, num_workers=1)))]


class Late(Exception):
    """What the alarm raises."""


@case(ways=(ATTACHED,))
def alarms(watch: Watcher) -> Any:
    """A signal handler that raises: each one is the loop's to catch, also in the middle of our lines."""
    raised = [0]

    def late(signum: int, frame: Any) -> None:
        raised[0] += 1
        raise Late

    class Counting:
        """Its iterator has no state that an error could spoil."""

        def __iter__(self) -> Iterator[int]:
            return iter(int, 1)

    caught = 0
    before = signal.signal(signal.SIGALRM, late)
    end = time.monotonic() + 1.0
    iterator = iter(watch(Counting()))
    try:
        while time.monotonic() < end:
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.0002)
                while True:
                    next(iterator)
            except Late:
                caught += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    return raised[0] - caught, caught > 100
