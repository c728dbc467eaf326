"""The DataLoader's own options."""

from __future__ import annotations

import warnings
from collections import namedtuple
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import torch
from torch.utils.data import (
    BatchSampler,
    ChainDataset,
    ConcatDataset,
    DataLoader,
    Dataset,
    DistributedSampler,
    RandomSampler,
    Sampler,
    Subset,
    TensorDataset,
    WeightedRandomSampler,
    default_collate,
    get_worker_info,
    random_split,
)

from tests.compat.case import (
    ATTACHED,
    EVERYTHING,
    FORK,
    FORKSERVER,
    SPAWN,
    Watcher,
    batches,
    case,
    failure,
)
from tests.compat.datasets import Batched, SizedStream, Slow, Squares, Stream, about_worker, noisy_init

ALL: Final = (FORK, FORKSERVER, SPAWN)
OFTEN: Final = (FORK, SPAWN, ATTACHED, EVERYTHING)
IN_ORDER: Final = "in_order" in DataLoader.__init__.__code__.co_varnames  # torch >= 2.6


def workers(watch: Watcher) -> tuple[int, ...]:
    """How many to try: a spawned one takes seconds."""
    return (0, 1) if watch.method == SPAWN else (0, 1, 3)


@case(methods=ALL, quick=OFTEN)
def map_style(watch: Watcher) -> Any:
    return [batches(watch(DataLoader(Squares(), batch_size=5, num_workers=n))) for n in workers(watch)]


@case(methods=ALL)
def iterable(watch: Watcher) -> Any:
    return [batches(watch(DataLoader(Stream(), batch_size=4, num_workers=n))) for n in workers(watch)]


@case(methods=ALL)
def shuffled_twice(watch: Watcher) -> Any:
    loaders = [
        watch(DataLoader(Squares(), batch_size=5, shuffle=True, num_workers=n)) for n in workers(watch)
    ]
    return [(batches(loader), batches(loader), torch.rand(2)) for loader in loaders]


@case()
def without_batches(watch: Watcher) -> Any:
    return [
        batches(watch(DataLoader(dataset, batch_size=None, num_workers=n)))
        for dataset in (Squares(), Stream())
        for n in (0, 2)
    ]


@case()
def plain_sequences(watch: Watcher) -> Any:
    words = ["a", "b", "c", "d", "e"]
    return [
        batches(watch(DataLoader(words, batch_size=2))),  # type: ignore[arg-type]
        batches(watch(DataLoader({0: 1.5, 1: 2.5}, batch_size=2, num_workers=1))),  # type: ignore[arg-type]
        batches(watch(DataLoader(range(7), batch_size=3, num_workers=2))),  # type: ignore[arg-type]
        batches(watch(DataLoader(np.arange(6.0).reshape(3, 2), batch_size=2))),  # type: ignore[arg-type]
        batches(
            watch(DataLoader(TensorDataset(torch.arange(5), torch.ones(5, 2)), batch_size=2, num_workers=1))
        ),
    ]


class Keyed(Sampler[Any]):
    """Keys that are no integers, with a state that goes on from epoch to epoch."""

    def __init__(self) -> None:
        self.passes = 0

    def __iter__(self) -> Iterator[Any]:
        self.passes += 1
        yield from (("key", number, self.passes) for number in range(5))

    def __len__(self) -> int:
        return 5


class Echo(Dataset[Any]):
    """Gives back what it is asked for, with its type."""

    def __getitem__(self, index: Any) -> Any:
        return [str(type(index)), str(index)]

    def __len__(self) -> int:
        return 8


class Endless(Sampler[int]):
    """Never ends."""

    def __iter__(self) -> Iterator[int]:
        while True:
            yield int(torch.randint(0, 8, ()))


class Uneven(Sampler[Any]):
    """Batches of several kinds and sizes."""

    def __iter__(self) -> Iterator[Any]:
        yield [1, 2, 3]
        yield (4, 5)
        yield np.array([1])
        yield range(3)


def as_it_is(rows: Any) -> Any:
    return rows


@case()
def samplers(watch: Watcher) -> Any:
    seen = []
    for n in (0, 2):
        keyed = Keyed()
        loader = watch(DataLoader(Echo(), batch_size=2, sampler=keyed, num_workers=n, collate_fn=as_it_is))
        seen += [batches(loader), batches(loader), keyed.passes]
        weighted = WeightedRandomSampler([0.1, 0.9, 0.5], 6)
        seen += [batches(watch(DataLoader(Squares(), sampler=weighted, num_workers=n)))]
        replaced = RandomSampler(Squares(), replacement=True, num_samples=7)
        seen += [batches(watch(DataLoader(Squares(), 3, sampler=replaced, num_workers=n)))]
        seen += [batches(watch(DataLoader(Squares(), 3, sampler=[5, 3, 1, 0], num_workers=n)))]
        keys: Any = [[5, 3], 1]
        lists = DataLoader(Echo(), batch_size=None, sampler=keys, num_workers=n)
        seen += [batches(watch(lists))]
    return seen


@case()
def endless_sampler(watch: Watcher) -> Any:
    seen = []
    for n in (0, 2):
        loader = watch(DataLoader(Echo(), batch_size=3, sampler=Endless(), num_workers=n))
        seen += [batches(loader, most=5), batches(loader, most=2)]
    return seen


@case()
def batch_samplers(watch: Watcher) -> Any:
    seen = []
    for n in (0, 2):
        blocks = BatchSampler(RandomSampler(Squares()), 5, drop_last=True)
        seen += [batches(watch(DataLoader(Squares(), batch_sampler=blocks, num_workers=n)))]
        seen += [
            batches(watch(DataLoader(Echo(), batch_sampler=Uneven(), num_workers=n, collate_fn=as_it_is)))
        ]
        seen += [batches(watch(DataLoader(Batched(), batch_sampler=[[1, 2], [3]], num_workers=n)))]
    return seen


@case()
def distributed_sampler(watch: Watcher) -> Any:
    sampler: Any = DistributedSampler(Squares(), num_replicas=3, rank=1, shuffle=True, seed=4)
    loader = watch(DataLoader(Squares(), batch_size=3, sampler=sampler, num_workers=1))
    seen = [batches(loader), batches(loader)]
    for epoch in range(3):
        sampler.set_epoch(epoch)
        seen += [batches(loader), sampler.epoch]
    return seen


class Listed(Batched):
    """Sees exactly what PyTorch hands to ``__getitems__``."""

    def __getitems__(self, indices: list[int]) -> Any:
        return [[str(type(indices)), index] for index in indices]


@case()
def getitems(watch: Watcher) -> Any:
    return [
        batches(watch(DataLoader(dataset, batch_size=4, num_workers=n, collate_fn=as_it_is)))
        for dataset in (Batched(), Listed(), Subset(Batched(), [3, 2, 1, 0, 7]))
        for n in (0, 1)
    ]


Pair = namedtuple("Pair", ["first", "second"])


class Custom:
    """A batch of the user's own class."""

    def __init__(self, rows: Any) -> None:
        self.rows = torch.stack(rows)
        self.nbytes = "not a number"

    def __repr__(self) -> str:
        return f"Custom({self.rows.tolist()})"

    def pin_memory(self) -> Custom:
        """DataLoader calls this."""
        return self

    def __len__(self) -> int:
        raise RuntimeError("nobody may ask")

    def __bool__(self) -> bool:
        raise RuntimeError("nobody may ask")

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("nobody may ask")


def as_pair(rows: Any) -> Any:
    return Pair(default_collate(rows), len(rows))


def as_dict(rows: Any) -> Any:
    return {"rows": default_collate(rows), 3: [None, "text", (1.5, b"bytes")], "set": {1}}


def as_nothing(rows: Any) -> Any:
    return None


def as_generator(rows: Any) -> Any:
    return (row for row in rows)


class Lazy:
    """Raises when anything looks at it."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise RuntimeError(f"{name} was looked at")


def as_lazy(rows: Any) -> Any:
    return Lazy()


class CollateObject:
    """A collator with a state of its own."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, rows: Any) -> Any:
        self.calls += 1
        return self.calls, rows


@case()
def collate_functions(watch: Watcher) -> Any:
    seen: list[Any] = []
    for n in (0, 1):
        for collate in (as_pair, as_dict, as_nothing, Custom, as_it_is, CollateObject()):
            seen += [batches(watch(DataLoader(Squares(7), 3, collate_fn=collate, num_workers=n)))]
            assert n or not isinstance(collate, CollateObject) or collate.calls == 3
    generators = watch(DataLoader(Squares(7), 3, collate_fn=as_generator))
    seen += [[list(rows) for rows in generators]]
    # a worker cannot send one: PyTorch says so on its stderr, and waits
    sent = watch(DataLoader(Squares(7), 3, collate_fn=as_generator, num_workers=1, timeout=0.5))
    seen += [batches(sent)]
    seen += [[type(one).__name__ for one in watch(DataLoader(Squares(7), 3, collate_fn=as_lazy))]]
    return seen


@case()
def drop_last(watch: Watcher) -> Any:
    seen = []
    for dataset in (Squares(11), Stream(11)):
        loader = watch(DataLoader(dataset, batch_size=4, drop_last=True, num_workers=1))
        seen += [batches(loader), loader.drop_last]
    return [
        *seen,
        batches(watch(DataLoader(Squares(0), 4))),
        batches(watch(DataLoader(Squares(3), 4, drop_last=True))),
    ]


@case(methods=ALL)
def persistent_workers(watch: Watcher) -> Any:
    seen = []
    for n in workers(watch)[1:]:
        loader = watch(DataLoader(Squares(), 4, shuffle=True, num_workers=n, persistent_workers=True))
        seen += [
            batches(loader),
            batches(loader, most=2),
            batches(loader),
            next(iter(loader)),
            batches(loader),
        ]
        pids = [worker.pid for worker in loader._iterator._workers]  # type: ignore[union-attr]
        seen += [len(set(pids)), batches(loader)]
        assert pids == [worker.pid for worker in loader._iterator._workers]  # type: ignore[union-attr]
        del loader
    stream = watch(
        DataLoader(Stream(), 4, num_workers=2 if watch.method == FORK else 1, persistent_workers=True)
    )
    return [*seen, batches(stream), batches(stream)]


@case()
def in_any_order(watch: Watcher) -> Any:
    options: dict[str, Any] = {"in_order": False} if IN_ORDER else {}
    loader = watch(DataLoader(Slow(24, slow=2, seconds=0.2), 4, num_workers=3, **options))
    one = watch(DataLoader(Stream(), 4, num_workers=1, **options))
    many = watch(DataLoader(Stream(), 4, num_workers=3, **options))
    return [sorted(str(batch) for batch in batches(each)) for each in (loader, loader, many)] + [batches(one)]


@case()
def timeout(watch: Watcher) -> Any:
    slow = watch(DataLoader(Slow(8, slow=4, seconds=1.0), 2, num_workers=1, timeout=0.3))
    quick = watch(DataLoader(Squares(), 4, num_workers=1, timeout=60))
    return [batches(slow), batches(quick)]


@case()
def pin_memory(watch: Watcher) -> Any:
    loaders = [watch(DataLoader(Squares(), 4, num_workers=n, pin_memory=True)) for n in (0, 1)]
    return [[(batch, batch.is_pinned()) for batch in loader] for loader in loaders]


@case()
def prefetch_factor(watch: Watcher) -> Any:
    return [
        batches(watch(DataLoader(Squares(), 4, num_workers=n, prefetch_factor=factor)))
        for n, factor in ((1, 1), (1, 7), (3, 3))
    ]


@case(methods=ALL)
def worker_init_function(watch: Watcher) -> Any:
    options: dict[str, Any] = {"collate_fn": about_worker, "num_workers": 1 if watch.method == SPAWN else 2}
    loader = watch(DataLoader(Squares(12), 3, worker_init_fn=noisy_init, **options))
    seen = [batches(loader), batches(loader)]
    assert loader.worker_init_fn is noisy_init
    later = watch(DataLoader(Squares(12), 3, **options))
    later.worker_init_fn = noisy_init
    return [*seen, loader.worker_init_fn.__name__, batches(later)]


@case(methods=(FORK, FORKSERVER))
def seeds_of_generators(watch: Watcher) -> Any:
    """The base seed that workers are given, and each generator's state after an epoch."""
    seen = []
    for n in (0, 2):
        generator = torch.Generator().manual_seed(5)
        loader = watch(
            DataLoader(Squares(), 4, True, num_workers=n, generator=generator, collate_fn=about_worker)
        )
        seen += [batches(loader), generator.get_state().sum(), batches(loader), generator.get_state().sum()]
        own = RandomSampler(Squares(), generator=torch.Generator().manual_seed(6))
        other = watch(DataLoader(Squares(), 4, sampler=own, num_workers=n, collate_fn=about_worker))
        seen += [batches(other), torch.rand(1), getattr(iter(other), "_base_seed", None)]
    return seen


@case()
def generators_after_an_epoch(watch: Watcher) -> Any:
    """``attach``, an epoch, a break, ``detach``: the random generators of the main process are unaffected."""
    from tests.compat.case import generators

    loader = watch(DataLoader(Squares(), 4, shuffle=True, num_workers=1))
    seen = [generators()]
    for most in (100, 2):
        seen += [batches(loader, most), generators()]
    watch.detach(loader)
    return [*seen, batches(loader), generators()]


@case()
def contexts(watch: Watcher) -> Any:
    """``multiprocessing_context`` as an object and as a name."""
    import multiprocessing

    one = watch(DataLoader(Squares(), 4, num_workers=1, multiprocessing_context="fork"))
    other = watch(
        DataLoader(Squares(), 4, num_workers=1, multiprocessing_context=multiprocessing.get_context("fork"))
    )
    seen = [batches(one), batches(other), str(type(one.multiprocessing_context))]
    one.multiprocessing_context = None
    return [*seen, batches(one), failure(lambda: setattr(one, "multiprocessing_context", "nothing"))]


@case()
def composed_datasets(watch: Watcher) -> Any:
    halves = random_split(Squares(10), [6, 4])
    joined: Any = ConcatDataset([Squares(3), Subset(Squares(9), [8, 1])])
    chained = ChainDataset([Stream(5), Stream(4)])
    return [
        batches(watch(DataLoader(dataset, batch_size=3, num_workers=n, shuffle=shuffle)))
        for n in (0, 2)
        for dataset, shuffle in ((halves[0], True), (halves[1], False), (joined, True), (chained, False))
    ]


class AboutDataset(Stream):
    """Tells what a worker sees of itself and of its dataset."""

    def __iter__(self) -> Iterator[Any]:
        info = get_worker_info()
        if info is None:
            yield "no worker"
            return
        assert info.dataset is self
        yield [
            info.id,
            info.num_workers,
            info.seed - torch.initial_seed(),
            str(type(info.dataset)),
            type(info).__name__,
            repr(info).count("AboutDataset"),
            sorted(vars(info.dataset)),
        ]


@case(methods=(FORK, FORKSERVER))
def worker_info(watch: Watcher) -> Any:
    seen = [batches(watch(DataLoader(AboutDataset(), batch_size=None, num_workers=n))) for n in (0, 2)]
    seen += [batches(watch(DataLoader(Squares(4), 2, num_workers=2, collate_fn=about_worker)))]
    return [*seen, get_worker_info() is None]


@case()
def lengths(watch: Watcher) -> Any:
    """``len`` and what it warns of when a stream is longer, or shorter, than it said."""
    exact, short = (watch(DataLoader(SizedStream(23, said), 4, num_workers=2)) for said in (23, 9))
    plain, unsized = watch(DataLoader(Squares(), 5)), watch(DataLoader(Stream(), 4))
    seen = [len(one) for one in (exact, short, plain)]
    seen += [len(list(one)) for one in (exact, short, plain, unsized)]
    return [*seen, failure(lambda: len(unsized)), len(iter(plain)), len(short)]


@case()
def warnings_as_errors(watch: Watcher) -> Any:
    """What PyTorch warns of raises where it did; nothing of ours does."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        over = failure(lambda: watch(DataLoader(SizedStream(23, 9), 4, num_workers=1)) and None)
        loader = watch(DataLoader(Squares(), 4, num_workers=1))
        short = watch(DataLoader(SizedStream(23, 9), 4))
        len(short)
        return [over, batches(loader), batches(loader), batches(short)]
