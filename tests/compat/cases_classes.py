"""Loaders as objects: copies, pickles, all kinds of subclasses, readers of class sources and attributes."""

from __future__ import annotations

import copy
import inspect
import pickle
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils.data import DataLoader, IterDataPipe, graph_settings
from torch.utils.data.datapipes.iter import IterableWrapper

from tests.compat.case import ATTACHED, EVERYTHING, FORK, RUN, Watcher, batches, case, failure
from tests.compat.datasets import Squares


@case()
def copies(watch: Watcher) -> Any:
    seen = []
    for n in (0, 1):
        loader = watch(DataLoader(Squares(), 5, shuffle=True, num_workers=n))
        for other in (copy.copy(loader), copy.deepcopy(loader), pickle.loads(pickle.dumps(loader))):
            seen += [
                type(other) is DataLoader,
                other.dataset is loader.dataset,
                sorted(vars(other)),
                batches(other),
            ]
        seen += [batches(loader)]
    return seen


@case(unwatched=True)
def pickled_bytes(watch: Watcher) -> Any:
    """The pickle of an attached loader is read where loaderwatch is not installed."""
    loader = watch(DataLoader(Squares(), 5, num_workers=1))
    texts = [pickle.dumps(loader, protocol) for protocol in range(6)]
    again = [pickle.loads(text) for text in texts]
    return [
        [b"loaderwatch" in text for text in texts],
        [(type(one) is DataLoader, sorted(vars(one))) for one in again],
        pickle.dumps(loader.dataset).hex(),
    ]


@case()
def copied_under_way(watch: Watcher) -> Any:
    loader = watch(DataLoader(Squares(), 5, num_workers=1, persistent_workers=True))
    iterator = iter(loader)
    seen = [
        next(iterator),
        failure(lambda: copy.copy(iterator))[:2],
        failure(lambda: pickle.dumps(loader))[:1],
    ]
    return [*seen, list(iterator), batches(loader)]


@case()
def looks(watch: Watcher) -> Any:
    """All that can be asked of a loader and of its class."""
    loader = watch(DataLoader(Squares(), 4))
    kind = type(loader)
    return [
        [kind.__name__, kind.__qualname__, kind.__module__, kind.__doc__ == DataLoader.__doc__],
        [isinstance(loader, DataLoader), issubclass(kind, DataLoader), loader.__class__ == kind],
        [len(loader), bool(loader), loader == loader, hash(loader) == id(loader) >> 4 or hash(loader) != 0],
        str(type(iter(loader))),
        repr(loader)[:46],
        sorted(vars(loader)),
        sorted(set(dir(loader))),
        str(inspect.signature(kind)),
        [loader.batch_size, loader.num_workers, loader.sampler, loader.worker_init_fn, loader.generator],
        failure(lambda: hasattr(loader, "__next__")),
        batches(loader),
    ]


class Doubling(DataLoader[Any]):
    """An ``__iter__`` of its own, and attributes set before PyTorch's ``__init__``."""

    def __init__(self, *arguments: Any, factor: int, **options: Any) -> None:
        self.factor = factor
        super().__init__(*arguments, **options)

    def __iter__(self) -> Any:
        for batch in super().__iter__():
            yield batch * self.factor

    def __len__(self) -> int:
        return 2 * super().__len__()


class Slotted(DataLoader[Any]):
    """Slots beside the dictionary."""

    __slots__ = ("extra",)


class Delegating(DataLoader[Any]):
    """Falls back to its dataset for what it does not have."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "dataset":
            raise AttributeError(name)
        return getattr(self.dataset, name)


class Frozen(DataLoader[Any]):
    """Refuses attributes that it does not know."""

    def __setattr__(self, name: str, value: Any) -> None:
        if "loaderwatch" in name or name == "new":
            raise AttributeError(f"{name} is not an option")
        super().__setattr__(name, value)


class Looking(DataLoader[Any]):
    """Notes each attribute that is read."""

    def __getattribute__(self, name: str) -> Any:
        if name == "forbidden" or "loaderwatch" in name:
            raise RuntimeError(name)
        return super().__getattribute__(name)


class Mixin:
    """From beside DataLoader, in front of it."""

    def __iter__(self) -> Iterator[Any]:
        yield from enumerate(super().__iter__())  # type: ignore[misc]

    def describe(self) -> str:
        """Its class, as it sees it."""
        return type(self).__name__


class Mixed(Mixin, DataLoader[Any]):  # type: ignore[misc] # what people write
    """Multiple inheritance."""


class Meta(type):
    """Notes the classes it makes."""

    made: list[str] = []  # noqa: RUF012 - that is what is looked at

    def __new__(mcs, name: str, bases: Any, namespace: Any, **options: Any) -> Any:
        mcs.made.append(name)
        return super().__new__(mcs, name, bases, namespace)


class Fetching(DataLoader[Any]):
    """Gets its iterator in a way of its own."""

    def _get_iterator(self) -> Any:
        iterator: Any = super()._get_iterator()
        iterator.mark = "mine"
        return iterator


class Property(DataLoader[Any]):
    """``worker_init_fn`` and the dataset are computed."""

    @property
    def worker_init_fn(self) -> Any:
        """Its own."""
        return self.__dict__.get("init")

    @worker_init_fn.setter
    def worker_init_fn(self, function: Any) -> None:
        self.__dict__["init"] = function


class Registered(DataLoader[Any]):
    """Keeps a list of its subclasses."""

    known: list[str] = []  # noqa: RUF012 - that is what is looked at

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.known.append(cls.__name__)


@case()
def subclasses(watch: Watcher) -> Any:
    seen: list[Any] = []
    for n in (0, 1):
        loaders: list[Any] = [
            Doubling(Squares(), 5, factor=3, num_workers=n),
            Slotted(Squares(), 5, num_workers=n),
            Delegating(Squares(), 5, num_workers=n),
            Frozen(Squares(), 5, num_workers=n),
            Looking(Squares(), 5, num_workers=n),
            Mixed(Squares(), 5, num_workers=n),
            Fetching(Squares(), 5, num_workers=n, persistent_workers=bool(n)),
            Property(Squares(), 5, num_workers=n),
        ]
        for loader in loaders:
            before = type(loader)
            watch(loader)
            seen += [batches(loader), batches(loader, most=2), len(loader), isinstance(loader, before)]
            seen += [type(loader).__name__, sorted(vars(loader))]
            # the class of a generator cannot be swapped: it is wrapped, which type() shows
            seen += [
                str(type(iter(loader))) if not isinstance(loader, (Doubling, Mixed)) else next(iter(loader))
            ]
        loaders[1].extra = 5
        seen += [
            loaders[1].extra,
            loaders[2].length,
            failure(lambda: setattr(loaders[3], "new", 1)),  # noqa: B023
        ]
        seen += [loaders[5].describe(), loaders[6]._iterator.mark if n else None]
        seen += [copy.copy(loaders[0]).factor, type(pickle.loads(pickle.dumps(loaders[5]))) is Mixed]
    return seen


class Repeating:
    """Restarts its sampler forever."""

    def __init__(self, sampler: Any) -> None:
        self.sampler = sampler

    def __iter__(self) -> Iterator[Any]:
        while True:
            yield from self.sampler


class Everlasting(DataLoader[Any]):
    """Its workers outlive the epochs, as timm's and YOLOv5's do."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        object.__setattr__(self, "batch_sampler", Repeating(self.batch_sampler))
        self.iterator = super().__iter__()

    def __len__(self) -> int:
        repeating: Any = self.batch_sampler
        return len(repeating.sampler)

    def __iter__(self) -> Any:
        for _ in range(len(self)):
            yield next(self.iterator)


@case(quick=(FORK, ATTACHED, EVERYTHING, RUN))
def iterators_that_outlive_the_epochs(watch: Watcher) -> Any:
    seen: list[Any] = []
    for n in (0, 2):
        loader = watch(Everlasting(Squares(), 5, num_workers=n, shuffle=True))
        seen += [str(type(loader.iterator)), sorted(vars(loader)), len(loader)]
        seen += [batches(loader), batches(loader, most=2), next(loader.iterator), batches(loader)]
    return seen


@case(ways=(ATTACHED,))
def class_registries(watch: Watcher) -> Any:
    """A class that is swapped in is no class of the user's: registries do not hear of it twice."""

    class Made(DataLoader[Any], metaclass=Meta):
        pass

    class Known(Registered):
        pass

    return [
        batches(watch(Made(Squares(), 5))),
        batches(watch(Known(Squares(), 5))),
        Meta.made,
        Registered.known,
    ]


@case()
def abstract_and_defaulted(watch: Watcher) -> Any:
    """Keyword arguments of class statements, class attributes, ``super()`` in methods, a local class."""

    class Base(DataLoader[Any]):
        color = "red"

        def __init_subclass__(cls, color: str = "blue", **options: Any) -> None:
            super().__init_subclass__(**options)
            cls.color = color

    class Green(Base, color="green"):
        def first(self) -> Any:
            return next(super().__iter__())

    loader = watch(Green(Squares(), 5, num_workers=1))
    return [loader.color, loader.first(), batches(loader), Base.color]


class Words(IterDataPipe[str]):
    """A datapipe of the user's."""

    def __init__(self, source: Any) -> None:
        self.source = source

    def __iter__(self) -> Iterator[str]:
        for word in self.source:
            yield f"word {word}"


@case(methods=("fork", "forkserver"))
def datapipes(watch: Watcher) -> Any:
    """Shuffling is switched on and off by DataLoader, sharding done in its workers."""
    seen = []
    for n in (0, 2):
        for shuffle in (None, True, False):
            pipe = Words(IterableWrapper(range(12)).shuffle().sharding_filter())
            loader = watch(DataLoader(pipe, batch_size=3, shuffle=shuffle, num_workers=n))
            seen += [batches(loader), batches(loader), str(type(loader.dataset))]
        # DataLoader's own functions that walk the graph
        seen += [type(graph_settings.apply_random_seed(pipe, torch.Generator().manual_seed(1))).__name__]
        seen += [type(graph_settings.apply_shuffle_settings(pipe, shuffle=True)).__name__, batches(loader)]
    chained = IterableWrapper(range(10)).map(str).batch(4)
    return [*seen, batches(watch(DataLoader(chained, batch_size=None, num_workers=1)))]


class Counter(torch.utils.data.IterableDataset[Any]):
    """A stream that knows where it stands."""

    def __init__(self) -> None:
        self.at = 0

    def __iter__(self) -> Iterator[Any]:
        while self.at < 32:
            self.at += 1
            yield torch.tensor([self.at])

    def state_dict(self) -> dict[str, int]:
        """Where it stands."""
        return {"at": self.at}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Go there."""
        self.at = state["at"]


@case(needs=("torchdata",))
def stateful(watch: Watcher) -> Any:
    """The state after some batches and after an epoch, and how a loader goes on with that state."""
    from torchdata.stateful_dataloader import StatefulDataLoader

    seen: list[Any] = []
    for n in (0, 2):
        for make in (
            lambda n=n: StatefulDataLoader(Squares(), 4, shuffle=True, num_workers=n),
            lambda n=n: StatefulDataLoader(Counter(), 4, num_workers=n, snapshot_every_n_steps=2),
        ):
            for most in (3, 100):
                loader = watch(make())  # type: ignore[no-untyped-call]
                seen += [batches(loader, most), state := loader.state_dict()]
                resumed = watch(make())  # type: ignore[no-untyped-call]
                resumed.load_state_dict(state)
                seen += [batches(resumed), resumed.state_dict(), batches(loader, 2), type(loader).__name__]
    return seen
