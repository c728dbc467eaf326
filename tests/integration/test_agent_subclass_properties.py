"""Generated subclasses of DataLoader: watched, they give the same batches, errors, numbers and calls."""

from __future__ import annotations

import random
import sys
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Final

import pytest
import torch
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from torch.utils.data import DataLoader, Dataset, dataloader

import loaderwatch
from loaderwatch.agent.guard import guard
from loaderwatch.agent.launcher import ondemand
from loaderwatch.agent.session import current_session
from loaderwatch.core.records import RecordKind
from tests.conftest import RingFolder, close_agent

pytestmark = [
    pytest.mark.usefixtures("data_dir", "no_streamer"),
    pytest.mark.filterwarnings("ignore:.*use of fork.*:DeprecationWarning"),
]
OURS: Final = str(Path(loaderwatch.__file__).parent)
MOST: Final = 9  # batches of what may never end
BARE: Final = "bare"


class Noisy(Dataset[torch.Tensor]):
    """Draws a random number for each sample; one cannot be read."""

    def __init__(self, bad: int) -> None:
        self.bad = bad

    def __len__(self) -> int:
        return 6

    def __getitem__(self, index: int) -> torch.Tensor:
        if index == self.bad:
            raise ValueError(f"sample {index} is broken")
        return torch.tensor([index + random.random() + torch.rand(()).item()])


class Repeating:
    """Restarts its sampler forever."""

    def __init__(self, sampler: Any) -> None:
        self.sampler = sampler

    def __iter__(self) -> Iterator[Any]:
        while True:
            yield from self.sampler


@dataclass(frozen=True)
class Shape:
    """What a generated class overrides, and how."""

    init: str | None = None
    iter: str | None = None
    length: str | None = None
    get: str | None = None
    init_below: str | None = None  # of a class between it and DataLoader
    iter_below: str | None = None


INITS = ("plain", "super", "parent", "get", "repeat", "own")
ITERS = ("plain", "generator", "mapped", "kept", "lazy", "itself", "get", "twice", "raises")
LENGTHS = ("super", "half", "raises", "draws")
GETS = ("super", "generator", "raises")


def init_of(how: str, base: Any) -> Callable[..., None]:
    def __init__(self: Any, *arguments: Any, **options: Any) -> None:
        self.log.append("init")
        base.__init__(self, *arguments, **options)
        if how == "repeat":
            object.__setattr__(self, "batch_sampler", Repeating(self.batch_sampler))
        if how in ("super", "repeat"):
            self.kept = super(base, self).__iter__() if base is not DataLoader else base.__iter__(self)
        elif how == "parent":
            self.kept = DataLoader.__iter__(self)
        elif how == "get":
            self.kept = self._get_iterator()
        elif how == "own":
            self.kept = iter(self)

    return __init__


def iter_of(how: str, base: Any) -> Callable[[Any], Any]:
    def plain(self: Any) -> Any:
        self.log.append("iter")
        return base.__iter__(self)

    def generator(self: Any) -> Any:
        self.log.append("iter")
        for batch in base.__iter__(self):
            yield batch + random.random()

    def mapped(self: Any) -> Any:
        self.log.append("iter")
        return map(torch.neg, base.__iter__(self))

    def kept(self: Any) -> Any:
        self.log.append("iter")
        for _ in range(3):
            yield next(self.kept)

    def lazy(self: Any) -> Any:
        self.log.append("iter")
        if not hasattr(self, "kept"):
            self.kept = base.__iter__(self)
        return self.kept

    def itself(self: Any) -> Any:
        self.log.append("iter")
        self.inside = base.__iter__(self)
        return self

    def get(self: Any) -> Any:
        self.log.append("iter")
        return self._get_iterator()

    def twice(self: Any) -> Any:
        self.log.append("iter")
        yield from base.__iter__(self)
        yield from DataLoader.__iter__(self)

    def raises(self: Any) -> Any:
        self.log.append("iter")
        base.__iter__(self)
        raise LookupError("no iterator today")

    return {one.__name__: one for one in (plain, generator, mapped, kept, lazy, itself, get, twice, raises)}[
        how
    ]


def length_of(how: str, base: Any) -> Callable[[Any], int]:
    def __len__(self: Any) -> int:
        if how == "raises":
            raise TypeError("has no length")
        if how == "draws":
            return 1 + int(random.random() * 5)
        return int(base.__len__(self)) // (2 if how == "half" else 1)

    return __len__


def get_of(how: str, base: Any) -> Callable[[Any], Any]:
    def __getter(self: Any) -> Any:
        self.log.append("get")
        if how == "raises":
            raise LookupError("none to get")
        iterator = base._get_iterator(self)
        return (batch for batch in iterator) if how == "generator" else iterator

    return __getter


def made(shape: Shape) -> Any:
    """The class, made anew."""
    base: Any = DataLoader
    for init, iterate, length, get in (
        (shape.init_below, shape.iter_below, None, None),
        (shape.init, shape.iter, shape.length, shape.get),
    ):
        body: dict[str, Any] = {}
        if init is not None:
            body["__init__"] = init_of(init, base)
        if iterate is not None:
            body["__iter__"] = iter_of(iterate, base)
            if iterate == "itself":
                body["__next__"] = lambda self: next(self.inside)
        if length is not None:
            body["__len__"] = length_of(length, base)
        if get is not None:
            body["_get_iterator"] = get_of(get, base)
        base = type("Generated", (base,), body)
    return base


@dataclass(frozen=True)
class Trial:
    """A generated class, its options, and what a script does with it."""

    shape: Shape
    workers: int
    persistent: bool
    shuffle: bool
    bad: int  # the sample that cannot be read; -1: none
    uses: tuple[str, ...]
    way: str
    late: int  # it is attached after so many of the uses


USES = (
    "whole",
    "some",
    "keep",
    "next",
    "share",
    "enter",
    "direct",
    "parent",
    "length",
    "drop",
    "inside",
    "generic",
)


def told(error: BaseException) -> Any:
    """The error as a person sees it, without frames of ours below Python 3.11, which brings them back."""
    frames = [
        (frame.filename, frame.name, frame.lineno)
        for frame in traceback.extract_tb(error.__traceback__)
        if sys.version_info >= (3, 11) or not frame.filename.startswith(OURS)
    ]
    traceback.clear_frames(error.__traceback__)
    return type(error).__name__, str(error), frames


class Script:
    """Does with a loader what a trial says, and notes all that it sees."""

    def __init__(self, trial: Trial, attach: bool) -> None:
        self.trial = trial
        self.attach = attach
        self.seen: list[Any] = []
        self.log: list[str] = []
        self.kept: list[Any] = []
        self.batches = 0

    def run(self) -> None:
        random.seed(5)
        torch.manual_seed(5)
        trial = self.trial
        kind = made(trial.shape)
        kind.log = self.log
        dataset = Noisy(trial.bad)
        how = {"num_workers": trial.workers, "persistent_workers": trial.persistent, "shuffle": trial.shuffle}
        self.note(lambda: self.kept.append(kind(dataset, batch_size=2, **how)))
        if not self.kept:
            return
        loader = self.kept.pop()
        other = DataLoader(dataset, batch_size=3)
        for number, use in enumerate(trial.uses):
            if self.attach and number == trial.late:
                assert loaderwatch.attach(loader) is loader
                loaderwatch.attach(other)
            self.note(lambda use=use: getattr(self, use)(loader, other))  # type: ignore[misc]
            self.seen.append((use, list(self.log), random.random(), torch.rand(()).item()))
        self.kept.clear()
        for name in ("kept", "inside"):
            vars(loader).pop(name, None)

    def note(self, call: Callable[[], Any]) -> None:
        try:
            call()
        except Exception as error:
            self.seen.append(told(error))

    def take(self, batch: Any) -> None:
        self.batches += 1
        self.seen.append(batch.tolist() if isinstance(batch, torch.Tensor) else repr(type(batch)))

    def whole(self, loader: Any, _: Any) -> None:
        for batch in islice(loader, MOST):
            self.take(batch)

    def some(self, loader: Any, _: Any) -> None:
        for batch in loader:
            self.take(batch)
            break

    def keep(self, loader: Any, _: Any) -> None:
        self.kept.append(iter(loader))

    def next(self, _: Any, __: Any) -> None:
        if self.kept:
            self.take(next(self.kept[-1]))

    def share(self, loader: Any, _: Any) -> None:
        iterator = iter(loader)
        for batch in islice(iterator, 2):
            self.take(batch)
        for batch in islice(iterator, MOST):
            self.take(batch)

    def enter(self, loader: Any, _: Any) -> None:
        for batch in islice(loader, 2):
            self.take(batch)
            for again in islice(loader, 2):
                self.take(again)

    def direct(self, loader: Any, _: Any) -> None:
        if hasattr(loader, "kept"):
            self.take(next(loader.kept))

    def parent(self, loader: Any, _: Any) -> None:
        iterator = DataLoader.__iter__(loader)
        if isinstance(
            iterator, dataloader._BaseDataLoaderIter
        ):  # any other may be wrapped, as by iter(loader)
            self.seen.append(str(type(iterator)))
        self.take(next(iterator))

    def length(self, loader: Any, _: Any) -> None:
        self.seen.append(len(loader))

    def drop(self, _: Any, __: Any) -> None:
        self.kept[:] = self.kept[1:]

    def inside(self, loader: Any, other: Any) -> None:
        for outer in other:
            self.take(outer)
            for batch in islice(loader, 2):
                self.take(batch)

    def generic(self, loader: Any, _: Any) -> None:
        self.seen.append(
            [
                type(loader).__name__,
                isinstance(loader, DataLoader),
                sorted(vars(loader)),
                loader.worker_init_fn,
            ]
        )


def watched(trial: Trial) -> Script:
    """As it goes watched; nothing of ours may have failed on the way."""
    if trial.way == "run":
        before = vars(DataLoader)["__iter__"], vars(DataLoader).get("__init_subclass__")
        ondemand.install()
    elif trial.way == "everything":
        loaderwatch.attach()
    script = Script(trial, trial.way == "attach")
    try:
        script.run()
        session = current_session()
        assert session is None or not session.recorder.depth
    finally:
        close_agent()
        if trial.way == "run":  # a script that iterates nothing leaves it there
            DataLoader.__iter__ = before[0]  # type: ignore[method-assign]
            if before[1] is None and "__init_subclass__" in vars(DataLoader):
                del DataLoader.__init_subclass__
    faults = guard.reset()
    if faults:
        raise faults[0]
    return script


def compare(trial: Trial, rings: RingFolder) -> None:
    bare = Script(trial, attach=False)
    bare.run()
    ours = watched(trial)
    assert ours.seen == bare.seen
    mains = rings.mains()
    if not mains:
        return
    (main,) = mains
    main.path.unlink()
    steps = main.of(RecordKind.STEP)
    assert len(steps) <= ours.batches, "a batch was counted twice"
    assert all(one["wait_ns"] >= 0 for one in steps)
    begun = [(one["loader"], one["epoch"]) for one in main.of(RecordKind.EPOCH_BEGIN)]
    assert len(begun) == len(set(begun))
    assert all(one["batches"] or one["ended_by"] != 2 for one in main.of(RecordKind.EPOCH_END)), "never asked"


def either(*choices: str) -> st.SearchStrategy[str | None]:
    return st.none() | st.sampled_from(choices)


SHAPES = st.builds(
    Shape, either(*INITS), either(*ITERS), either(*LENGTHS), either(*GETS), either(*INITS), either(*ITERS)
).filter(
    lambda shape: shape.iter is None or shape.iter_below != "itself"
)  # that one iterates itself without end


def trials(workers: int) -> st.SearchStrategy[Trial]:
    return st.builds(
        Trial,
        SHAPES,
        st.just(workers),
        st.booleans() if workers else st.just(False),
        st.booleans(),
        st.sampled_from([-1, -1, 0, 3]),
        st.lists(st.sampled_from(USES), min_size=1, max_size=5 if workers else 8).map(tuple),
        st.sampled_from(["attach", "everything", "run"]),
        st.integers(0, 3),
    )


HOW: Final = {
    "deadline": None,
    "database": None,
    "derandomize": True,
    "phases": [Phase.explicit, Phase.generate],
    "report_multiple_bugs": False,
    "suppress_health_check": list(HealthCheck),
}


def test_in_process(rings: RingFolder) -> None:
    @settings(max_examples=60, **HOW)  # type: ignore[arg-type]
    @given(trials(0))
    def check(trial: Trial) -> None:
        compare(trial, rings)

    check()


def test_with_workers(rings: RingFolder) -> None:
    @settings(max_examples=8, **HOW)  # type: ignore[arg-type]
    @given(trials(2))
    def check(trial: Trial) -> None:
        compare(trial, rings)

    check()
