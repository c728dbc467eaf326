"""How loops use loaders: breaks, several at once, threads, references, attaching and detaching meanwhile."""

from __future__ import annotations

import gc
import itertools
import multiprocessing
import threading
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from torch.utils.data import DataLoader

from tests.compat.case import ATTACHED, EVERYTHING, FORK, FORKSERVER, RUN, Watcher, batches, case, failure
from tests.compat.datasets import Squares, Stream, Telling


def two(watch: Watcher) -> list[Any]:
    """One loader that works in this process, and one with workers."""
    return [watch(DataLoader(Squares(), 4, shuffle=True, num_workers=n)) for n in (0, 2)]


@case(methods=(FORK, FORKSERVER))
def early_break(watch: Watcher) -> Any:
    return [[batches(loader, most=2), batches(loader), batches(loader, most=1)] for loader in two(watch)]


@case()
def never_asked(watch: Watcher) -> Any:
    """Iterators that nobody goes through."""
    loaders = two(watch)
    for loader in loaders:
        iter(loader)
        one = iter(loader)
        next(one)
    return [batches(loader) for loader in loaders]


@case()
def past_the_end(watch: Watcher) -> Any:
    seen = []
    for loader in two(watch):
        iterator = iter(loader)
        seen += [len(list(iterator)), [next(iterator, None) for _ in range(3)], iter(iterator) is iterator]
        seen += [failure(lambda: next(iterator))]  # noqa: B023 - called at once
    return seen


@case()
def two_iterators(watch: Watcher) -> Any:
    seen = []
    for loader in two(watch):
        one, other = iter(loader), iter(loader)
        seen += [next(one), next(other), next(other), next(one), list(other), list(one)]
    return seen


@case()
def zipped(watch: Watcher) -> Any:
    first, second = two(watch)
    return [
        list(zip(first, second, strict=True)),
        list(zip(first, itertools.cycle(second), strict=False))[:9],
        list(itertools.islice(itertools.chain(second, first), 9)),
        list(map(torch.sum, second)),
    ]


@case()
def nested(watch: Watcher) -> Any:
    outer, inner = two(watch)
    return [(batch, [other for other, _ in zip(inner, range(2), strict=False)]) for batch in outer]


class Inside(Squares):
    """A dataset that goes through a loader of its own."""

    def __init__(self, loader: Any) -> None:
        super().__init__(4)
        self.loader = loader

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.cat(list(self.loader)) + index


@case()
def loader_inside_a_dataset(watch: Watcher) -> Any:
    """In this process, and in a worker, where the inner one is not watched."""
    inner = watch(DataLoader(Squares(6), 4))
    return [batches(watch(DataLoader(Inside(inner), 2, num_workers=n))) for n in (0, 1)]


@case()
def attach_inside_a_worker(watch: Watcher) -> Any:
    def attaching(worker: int) -> None:
        info: Any = torch.utils.data.get_worker_info()
        info.dataset.loader = watch(DataLoader(Squares(6), 3))

    return batches(watch(DataLoader(Inside(None), 2, num_workers=1, worker_init_fn=attaching)))


@case()
def background_thread(watch: Watcher) -> Any:
    seen: list[Any] = []
    for loader in two(watch):
        thread = threading.Thread(target=lambda loader=loader: seen.append(batches(loader)))
        thread.start()
        thread.join(60)
        seen.append(batches(loader))
    return seen


@case()
def moved_between_threads(watch: Watcher) -> Any:
    """Begun here, gone on there, finished here."""
    seen = []
    for loader in two(watch):
        iterator = iter(loader)
        seen.append(next(iterator))
        with ThreadPoolExecutor(1) as pool:
            seen += [pool.submit(next, iterator).result(60) for _ in range(2)]
        seen += list(iterator)
    return seen


@case()
def training_threads(watch: Watcher) -> Any:
    """Four threads train at the same time, each with its loader.

    Not in a ThreadPoolExecutor. A process forked by one of its threads joins that thread, itself, as it ends,
    and leaves with exit code 1 (CPython). PyTorch may take that for a death, with us and without.
    """
    loaders = [watch(DataLoader(Squares(), 3, num_workers=n)) for n in (0, 0, 1, 1)]
    seen: list[Any] = [None] * len(loaders)

    def train(number: int) -> None:
        seen[number] = [batches(loaders[number]), batches(loaders[number])]

    threads = [threading.Thread(target=train, args=(number,)) for number in range(len(loaders))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return seen


@case()
def shared_iterator(watch: Watcher) -> Any:
    """Threads that take turns with one iterator, under a lock of their own."""
    iterator, lock = iter(watch(DataLoader(Squares(), 2, num_workers=1))), threading.Lock()

    def take() -> list[Any]:
        taken: list[Any] = []
        while True:
            with lock:
                batch = next(iterator, None)
            if batch is None:
                return taken
            taken.append(batch.tolist())

    with ThreadPoolExecutor(3) as pool:
        return sorted(itertools.chain(*pool.map(lambda _: take(), range(3))))


@case()
def collecting(watch: Watcher) -> Any:
    seen = []
    for loader in two(watch):
        for batch in loader:
            gc.collect()
            seen.append(batch)
    return seen


@case()
def references(watch: Watcher) -> Any:
    """The last reference frees iterator, workers, loader and dataset, without a garbage collection."""
    seen = []
    for n, persistent in ((0, False), (2, False), (2, True)):
        dataset = Squares()
        loader = watch(DataLoader(dataset, 4, num_workers=n, persistent_workers=persistent))
        iterator = iter(loader)
        next(iterator)
        refs = [weakref.ref(one) for one in (iterator, loader, dataset)]
        workers = list(getattr(iterator, "_workers", ()))
        del iterator
        seen.append([ref() is None for ref in refs])
        del loader
        seen.append([ref() is None for ref in refs])
        del dataset
        seen.append([ref() is None for ref in refs])
        seen.append([worker.is_alive() for worker in workers])
    return seen


@case()
def batches_are_let_go(watch: Watcher) -> Any:
    """Nobody keeps a batch that the loop has dropped."""
    seen = []
    for loader in two(watch):
        refs = []
        for batch in loader:
            refs.append(weakref.ref(batch))
            del batch
            seen.append([ref() is None for ref in refs])
    return seen


@case()
def detached_under_way(watch: Watcher) -> Any:
    seen = []
    for loader in two(watch):
        iterator = iter(loader)
        seen += [next(iterator), next(iterator)]
        watch.detach(loader)
        seen += [list(iterator), batches(loader)]
        watch(loader)
        seen += [batches(loader)]
    return seen


@case()
def attached_under_way(watch: Watcher) -> Any:
    seen = []
    for n in (0, 2):
        loader = DataLoader(Squares(), 4, num_workers=n)
        iterator = iter(loader)
        seen += [next(iterator)]
        watch(loader)
        seen += [list(iterator), batches(loader)]
    return seen


@case()
def attached_twice(watch: Watcher) -> Any:
    loader = DataLoader(Squares(), 4, num_workers=1)
    same = [watch(loader) is loader, watch(loader, name="again") is loader, watch(watch(loader)) is loader]
    seen = [*same, batches(loader)]
    watch.detach(loader)
    watch.detach(loader)
    # attach() without a loader watches it again
    return [*seen, batches(loader), type(loader) is DataLoader or watch.way in (EVERYTHING, RUN)]


@case(ways=(ATTACHED,))
def detached_altogether(watch: Watcher) -> Any:
    loaders = two(watch)
    iterators = [iter(loader) for loader in loaders]
    seen = [next(iterator) for iterator in iterators]
    watch.detach()
    seen += [list(iterator) for iterator in iterators]
    return [
        *seen,
        [type(loader) is DataLoader for loader in loaders],
        [batches(loader) for loader in loaders],
    ]


@case()
def changed_between_epochs(watch: Watcher) -> Any:
    """Attributes that may be set on a loader, and those that may not."""
    loader = watch(DataLoader(Squares(), 4))
    seen = [
        batches(loader),
        failure(lambda: setattr(loader, "batch_size", 8)),
        failure(lambda: setattr(loader, "dataset", 1)),
    ]
    loader.num_workers = 1
    loader.prefetch_factor = 2
    loader.collate_fn = len
    loader.own = "attribute"
    seen += [batches(loader), loader.own, sorted(set(vars(loader)))]  # type: ignore[attr-defined]
    del loader.own  # type: ignore[attr-defined]
    return [*seen, failure(lambda: loader.own), failure(lambda: loader.nothing)]  # type: ignore[attr-defined]


def generated(loader: Any) -> Iterator[Any]:
    yield from loader


@case()
def generators_of_the_users(watch: Watcher) -> Any:
    """A generator around the loader, left early, and thrown into."""
    seen: list[Any] = []
    for loader in two(watch):
        seen += [list(generated(loader))]
        one: Any = generated(loader)
        seen += [next(one), failure(lambda: one.throw(KeyError("thrown"))), one.close()]  # noqa: B023
    return seen


@case(ways=(ATTACHED,))
def other_iterables(watch: Watcher) -> Any:
    """What is no DataLoader comes back in a wrapper that only ``type()`` distinguishes."""

    class Pipeline:
        """A loader that somebody wrote."""

        def __init__(self) -> None:
            self.epoch = 0

        def __iter__(self) -> Iterator[int]:
            self.epoch += 1
            return iter(range(4))

        def __len__(self) -> int:
            return 4

        def __getitem__(self, index: int) -> int:
            return index * 2

    pipeline = Pipeline()
    loader: Any = watch(pipeline)
    seen = [list(loader), len(loader), loader[3], list(zip(loader, loader, strict=True)), loader.epoch]
    loader.epoch = 9
    seen += [pipeline.epoch, isinstance(loader, Pipeline), failure(lambda: loader.missing)[:2], bool(loader)]
    numbers = watch(iter(range(3)))
    return [*seen, list(numbers), list(numbers), list(watch([1, 2])), watch([1, 2]) == [1, 2]]


@case()
def stays_quick(watch: Watcher) -> Any:
    """Prefetching goes on while the loop works: a wait for a slow sample is hidden as before."""
    read = multiprocessing.Event()
    iterator = iter(watch(DataLoader(Telling(12, 8, read), 2, num_workers=1, prefetch_factor=4)))
    first = next(iterator)
    in_time = read.wait(60)  # nobody has asked for that batch
    return first, in_time, list(iterator), batches(watch(DataLoader(Stream(), 4, num_workers=1)))
