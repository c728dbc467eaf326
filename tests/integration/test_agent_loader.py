"""Real DataLoaders with real workers, watched from this process; what the rings hold afterwards."""

from __future__ import annotations

import contextlib
import copy
import gc
import inspect
import os
import pickle
import random
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

# Else the worker imports it, while collected garbage of earlier tests imports, too. Python < 3.12 does not
# survive that (a KeyError in the import lock).
import numpy.random  # noqa: F401 - for the reason above
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, Subset, TensorDataset

import loaderwatch
from loaderwatch.agent.launcher import ondemand
from loaderwatch.core.records import UNKNOWN, EndedBy, IterKind, Phase, RecordKind
from tests.conftest import RingFolder
from tests.waiting import PATIENCE_S, Stopwatch, wait_until

pytestmark = [
    pytest.mark.usefixtures("data_dir", "no_streamer"),
    pytest.mark.filterwarnings("ignore:.*use of fork.*:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning"),
]

START_METHODS = ("fork", "forkserver", "spawn")


class Squares(Dataset[torch.Tensor]):
    """Numbers with one slow one, and one that fails."""

    def __init__(self, length: int = 64, slow: int = -1, slow_s: float = 0.2, bad: int = -1) -> None:
        self.length = length
        self.slow = slow
        self.slow_s = slow_s
        self.bad = bad

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> torch.Tensor:
        if index == self.slow:
            time.sleep(self.slow_s)
        if index == self.bad:
            raise ValueError(f"sample {index} is broken")
        return torch.tensor([index * index])


class Batched(Squares):
    """Reads a whole batch at once."""

    def __getitems__(self, indices: list[int]) -> list[torch.Tensor]:
        assert type(indices) is list
        return [self[index] for index in indices]


class Stream(IterableDataset[torch.Tensor]):
    """A stream, split over the workers."""

    def __init__(self, length: int = 40) -> None:
        self.length = length

    def __iter__(self) -> Iterator[torch.Tensor]:
        info = torch.utils.data.get_worker_info()
        worker, workers = (info.id, info.num_workers) if info else (0, 1)
        for number in range(worker, self.length, workers):
            yield torch.tensor([number])


def broken_collate(samples: list[torch.Tensor]) -> torch.Tensor:
    raise KeyError("collate is broken")


def broken_init(worker: int) -> None:
    raise RuntimeError(f"init of worker {worker} is broken")


def batches(loader: Any) -> list[Any]:
    return [batch.tolist() if isinstance(batch, torch.Tensor) else batch for batch in loader]


@pytest.mark.parametrize("workers", [0, 2])
def test_a_slow_sample_of_a_split_is_named(workers: int, rings: RingFolder) -> None:
    """By its place in the split, as the loader asks for it."""
    split = Subset(Squares(48, slow=40), list(range(47, 7, -1)))
    loader = DataLoader(split, batch_size=4, num_workers=workers)
    plain = batches(DataLoader(split, batch_size=4))
    loaderwatch.attach(loader)
    assert batches(loader) == plain
    fetches = [fetch for ring in rings.workers() or rings.mains() for fetch in ring.of(RecordKind.FETCH)]
    (slowest,) = (fetch for fetch in fetches if fetch["slow_ns"] >= 200e6)
    assert (slowest["slow_index"], slowest["samples"]) == (7, 4)


def test_samples_of_a_split_of_a_split_are_not_told_apart(rings: RingFolder) -> None:
    split = Subset(Subset(Squares(48), list(range(47, 7, -1))), list(range(20)))
    loader = DataLoader(split, batch_size=4)
    plain = batches(loader)
    loaderwatch.attach(loader)
    assert batches(loader) == plain
    assert {(one["slow_index"], one["samples"]) for one in rings.main().of(RecordKind.FETCH)} == {
        (UNKNOWN, 4)
    }


@pytest.mark.parametrize("method", START_METHODS)
def test_worker_processes(method: str, rings: RingFolder) -> None:
    loader = DataLoader(Squares(48, slow=20), batch_size=4, num_workers=2, multiprocessing_context=method)
    assert loaderwatch.attach(loader, name="numbers") is loader
    assert batches(loader) == batches(DataLoader(Squares(48), batch_size=4))

    main = rings.main()
    steps = main.of(RecordKind.STEP)
    assert [step["batch"] for step in steps] == list(range(12))
    assert all(step["awaited_worker"] == step["batch"] % 2 for step in steps)
    (begin,) = main.of(RecordKind.EPOCH_BEGIN)
    assert (begin["iter_kind"], begin["workers"], begin["drained"]) == (IterKind.STARTED, 2, 0)
    assert 0 < begin["sampler_ns"] < begin["iter_ns"]
    (end,) = main.of(RecordKind.EPOCH_END)
    assert (end["batches"], end["ended_by"]) == (12, EndedBy.EXHAUSTED)
    assert main.span is not None
    assert (main.span.phase, main.span.batches, main.span.steps) == (Phase.OUTSIDE, 12, 12)

    workers = rings.workers()
    assert sorted(ring.worker for ring in workers) == [0, 1]
    fetches = [fetch for ring in workers for fetch in ring.of(RecordKind.FETCH)]
    assert len(fetches) == 12
    (slowest,) = (fetch for fetch in fetches if fetch["slow_index"] == 20)
    assert (slowest["samples"], slowest["bytes"]) == (4, 4 * 8)
    assert slowest["fetch_ns"] >= slowest["slow_ns"] >= 200e6
    assert slowest["cpu_ns"] < slowest["fetch_ns"] - 100e6  # it slept
    waited = steps[5]  # for that sample, until it was there
    assert waited["request_ns"] + waited["wait_ns"] > slowest["request_ns"] + slowest["fetch_ns"]
    assert all(0 <= fetch["collate_ns"] < fetch["fetch_ns"] for fetch in fetches)
    assert all(ring.span is not None and ring.span.phase is Phase.IDLE for ring in workers)
    assert all(ring.status.finished for ring in workers)
    (info,) = rings.processes()
    assert (info.loaders[0].name, info.loaders[0].start_method) == ("numbers", method)


def test_same_batches_shuffled() -> None:
    def epochs(attach: bool, workers: int, **options: Any) -> list[Any]:
        torch.manual_seed(7)
        loader = DataLoader(Squares(), batch_size=5, shuffle=True, num_workers=workers, **options)
        if attach:
            loaderwatch.attach(loader)
        return [batches(loader), batches(loader), torch.rand(1).item()]

    for workers, options in ((0, {}), (2, {}), (2, {"persistent_workers": True})):
        assert epochs(True, workers, **options) == epochs(False, workers, **options)


def test_eager_sampler_draws_the_same_numbers() -> None:
    class Eager(torch.utils.data.Sampler[int]):
        def __iter__(self) -> Iterator[int]:
            return iter(torch.randperm(12).tolist())

        def __len__(self) -> int:
            return 12

    def epoch(attach: bool) -> list[Any]:
        torch.manual_seed(3)
        loader = DataLoader(Squares(12), batch_size=None, sampler=Eager(), num_workers=1)
        if attach:
            loaderwatch.attach(loader)
        return [batches(loader), torch.rand(1).item()]

    assert epoch(True) == epoch(False)


@pytest.mark.parametrize(
    "make",
    [
        lambda: DataLoader(Squares(16, bad=9), batch_size=4, num_workers=1),
        lambda: DataLoader(Batched(16, bad=9), batch_size=4, num_workers=1),
        lambda: DataLoader(Squares(16, bad=9), batch_size=None, num_workers=1),
        lambda: DataLoader(Squares(16), batch_size=4, num_workers=1, collate_fn=broken_collate),
        lambda: DataLoader(Squares(16), batch_size=4, num_workers=1, worker_init_fn=broken_init),
        lambda: DataLoader(Squares(16, bad=9), batch_size=4),
        lambda: DataLoader(Squares(16), batch_size=4, collate_fn=broken_collate),
    ],
    ids=["sample", "getitems", "single", "collate", "init", "in-process", "in-process collate"],
)
def test_errors_are_the_users_own(make: Callable[[], DataLoader[Any]], rings: RingFolder) -> None:
    def failure(loader: DataLoader[Any]) -> tuple[type[BaseException], str, int]:
        seen = 0
        try:
            for _ in loader:
                seen += 1
        except (ValueError, KeyError, RuntimeError) as error:
            told = type(error), str(error), seen
            # PyTorch's raise makes a cycle; ending its iterator's workers at a collection takes 5 s each.
            traceback.clear_frames(error.__traceback__)
            return told
        raise AssertionError("no error")

    bare = failure(make())
    assert failure(loaderwatch.attach(make())) == bare
    (end,) = rings.main().of(RecordKind.EPOCH_END)
    assert (end["ended_by"], end["batches"]) == (EndedBy.ERROR, bare[2])


def test_epoch_goes_on_after_an_error(rings: RingFolder) -> None:
    iterator = iter(loaderwatch.attach(DataLoader(Squares(12, bad=4), batch_size=4, num_workers=1)))
    next(iterator)
    with pytest.raises(ValueError, match="sample 4 is broken"):
        next(iterator)
    next(iterator)
    assert next(iterator, None) is None
    assert [end["ended_by"] for end in rings.main().of(RecordKind.EPOCH_END)] == [
        EndedBy.ERROR,
        EndedBy.EXHAUSTED,
    ]


class Deadly(Dataset[int]):
    """Its last sample kills who reads it."""

    def __init__(self) -> None:
        self.due = torch.multiprocessing.Event()

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> int:
        if index == 7:
            self.due.wait(PATIENCE_S)
            os.kill(os.getpid(), signal.SIGKILL)
        return index


@pytest.mark.parametrize("leaves", [False, True])
def test_a_pass_says_that_a_worker_of_it_died(rings: RingFolder, leaves: bool) -> None:
    """PyTorch raises wherever the script is: in ``next``, or in a step, after which it drops the iterator."""
    deadly = Deadly()
    iterator = iter(loaderwatch.attach(DataLoader(deadly, batch_size=4, num_workers=1)))
    training = threading.get_ident()

    def kill_once_it_is_there() -> None:
        place = "a_step" if leaves else "_get_data"
        wait_until(
            f"the script is in {place}",
            lambda: any(
                frame.f_code.co_name == place
                for frame, _ in traceback.walk_stack(sys._current_frames()[training])
            ),
        )
        deadly.due.set()

    def a_step() -> None:
        time.sleep(PATIENCE_S)

    def two_batches(batches: Iterator[Any]) -> None:
        next(batches)
        killer.start()
        if leaves:
            a_step()
        next(batches)

    killer = threading.Thread(target=kill_once_it_is_there)
    with pytest.raises(RuntimeError, match="DataLoader worker") as caught:
        two_batches(iterator)
    killer.join()
    traceback.clear_frames(caught.tb)
    del iterator, caught
    gc.collect()
    (end,) = rings.main().of(RecordKind.EPOCH_END)
    assert end["ended_by"] == (EndedBy.LEFT_AFTER_DEATH if leaves else EndedBy.WORKER_DIED)


def test_break_ends_the_epoch_and_the_workers(rings: RingFolder) -> None:
    loader = loaderwatch.attach(DataLoader(Squares(), batch_size=4, num_workers=2))
    gc.collect()  # workers of an error before: where PyTorch raises it again it makes a cycle
    gc.disable()  # a reference cycle of ours would keep the workers alive
    try:
        for _ in loader:
            break
        assert not torch.multiprocessing.active_children()
    finally:
        gc.enable()
    (end,) = rings.main().of(RecordKind.EPOCH_END)
    assert (end["ended_by"], end["batches"]) == (EndedBy.BREAK, 1)
    assert end["teardown_ns"] > 0
    (step,) = rings.main().of(RecordKind.STEP)
    assert step["step_ns"] > 0


def test_persistent_reset_after_break_counts_what_it_drains(rings: RingFolder) -> None:
    loader = DataLoader(Squares(), batch_size=4, num_workers=2, prefetch_factor=3, persistent_workers=True)
    loaderwatch.attach(loader)
    for number, _ in enumerate(loader):
        if number == 1:
            break
    assert len(batches(loader)) == 16
    main = rings.main()
    first, second = main.of(RecordKind.EPOCH_BEGIN)
    assert (first["iter_kind"], second["iter_kind"]) == (IterKind.STARTED, IterKind.RESET)
    assert second["drained"] == 6
    assert [end["ended_by"] for end in main.of(RecordKind.EPOCH_END)] == [
        EndedBy.BREAK,
        EndedBy.EXHAUSTED,
    ]
    assert main.of(RecordKind.EPOCH_END)[0]["teardown_ns"] == UNKNOWN
    assert len({ring.pid for ring in rings.workers()}) == 2
    del loader


def test_getitems_gets_the_plain_list(rings: RingFolder) -> None:
    loader = loaderwatch.attach(DataLoader(Batched(16), batch_size=4, num_workers=1))
    assert len(batches(loader)) == 4
    fetches = rings.workers()[0].of(RecordKind.FETCH)
    assert {fetch["samples"] for fetch in fetches} == {4}
    assert {fetch["slow_index"] for fetch in fetches} == {UNKNOWN}
    assert all(fetch["collate_ns"] > 0 for fetch in fetches)


@pytest.mark.parametrize("workers", [0, 2])
def test_iterable_dataset(workers: int, rings: RingFolder) -> None:
    loader = DataLoader(Stream(), batch_size=4, num_workers=workers)
    expected = batches(DataLoader(Stream(), batch_size=4, num_workers=workers))
    assert batches(loaderwatch.attach(loader)) == expected
    main = rings.main()
    assert len(main.of(RecordKind.STEP)) == len(expected) == 10
    fetches = [fetch for ring in [main, *rings.workers()] for fetch in ring.of(RecordKind.FETCH)]
    assert sum(fetch["samples"] for fetch in fetches) == 40
    assert all(0 <= fetch["slow_index"] < 40 for fetch in fetches)
    assert rings.processes()[0].loaders[0].iterable_dataset is True


def test_in_process_fetches(rings: RingFolder) -> None:
    loaderwatch.attach(loader := DataLoader(Squares(12, slow=5), batch_size=4))
    assert len(batches(loader)) == 3
    main = rings.main()
    assert [step["ready"] for step in main.of(RecordKind.STEP)] == [UNKNOWN] * 3
    assert main.of(RecordKind.EPOCH_BEGIN)[0]["iter_kind"] == IterKind.IN_PROCESS
    fetches = main.of(RecordKind.FETCH)
    assert [fetch["worker"] for fetch in fetches] == [-1] * 3
    assert [fetch["ordinal"] for fetch in fetches] == [0, 1, 2]
    assert fetches[1]["slow_index"] == 5
    assert fetches[1]["slow_ns"] > 150e6
    # a wait with hardly any CPU time in it: blocked, not busy
    slow = main.of(RecordKind.STEP)[1]
    assert slow["wait_ns"] > 150e6


def test_open_span_names_the_sample_being_read(rings: RingFolder) -> None:
    seen: list[Any] = []

    class Looks(Squares):
        def __getitem__(self, index: int) -> torch.Tensor:
            if index == 6:
                seen.append(rings.main().span)
            return super().__getitem__(index)

    batches(loaderwatch.attach(DataLoader(Looks(8), batch_size=4)))
    (span,) = seen
    assert (span.phase, span.batch, span.sample_index) == (Phase.WAIT, 1, 6)
    assert span.since_ns <= span.sample_since_ns


def test_loader_inside_a_dataset_is_not_counted_twice(rings: RingFolder) -> None:
    inner = loaderwatch.attach(DataLoader(Squares(2, slow=1), batch_size=1), role="eval")

    class Outer(Dataset[int]):
        def __len__(self) -> int:
            return 2

        def __getitem__(self, index: int) -> int:
            return len(batches(inner))

    loader = loaderwatch.attach(DataLoader(Outer(), batch_size=1))
    third = loaderwatch.attach(DataLoader(Squares(1), batch_size=1), name="third")
    around = Stopwatch()
    for _ in third:
        with around():
            batches(loader)
    (step,) = [step for step in rings.main().of(RecordKind.STEP) if step["loader"] == 2]
    waits = sum(s["wait_ns"] for s in rings.main().of(RecordKind.STEP) if s["loader"] == 1)
    assert 0.4e9 <= waits <= step["nested_ns"] <= around.total_ns


def test_other_thread_is_marked(rings: RingFolder) -> None:
    loader = loaderwatch.attach(DataLoader(Squares(8), batch_size=2))
    thread = threading.Thread(target=batches, args=(loader,))
    thread.start()
    thread.join()
    assert [step["off_main_thread"] for step in rings.main().of(RecordKind.STEP)] == [1] * 4


def test_detach_restores_everything(rings: RingFolder) -> None:
    def init(worker: int) -> None: ...

    loader = DataLoader(Squares(8), batch_size=2, worker_init_fn=init)
    before = dict(vars(loader))
    loaderwatch.attach(loader)
    loaderwatch.attach(loader)
    assert type(loader) is not DataLoader
    assert isinstance(loader, DataLoader)
    assert (type(loader).__name__, type(loader).__module__) == (
        DataLoader.__name__,
        DataLoader.__module__,
    )
    assert (len(loader), loader.worker_init_fn) == (4, init)
    iterator = iter(loader)
    next(iterator)
    assert loaderwatch.detach(loader) is loader
    assert type(loader) is DataLoader
    assert vars(loader) == before
    assert type(iterator).__bases__ != (type(iterator),)
    assert len(list(iterator)) == 3
    assert len(batches(loader)) == 4
    assert len(rings.main().of(RecordKind.STEP)) == 1
    assert len(rings.processes()[0].loaders) == 1


def test_user_can_set_worker_init_while_watched() -> None:
    loader = loaderwatch.attach(DataLoader(Squares(8), batch_size=2, num_workers=1))
    loader.worker_init_fn = broken_init
    with pytest.raises(RuntimeError, match="init of worker 0 is broken"):
        batches(loader)
    loaderwatch.detach(loader)
    assert loader.worker_init_fn is broken_init


def test_copies_and_pickles_are_plain() -> None:
    loader = loaderwatch.attach(DataLoader(Squares(8), batch_size=2))
    for other in (copy.copy(loader), copy.deepcopy(loader), pickle.loads(pickle.dumps(loader))):
        assert type(other) is DataLoader
        assert batches(other) == batches(loader)


def test_loader_subclass_with_a_generator(rings: RingFolder) -> None:
    class Doubling(DataLoader[Any]):
        def __iter__(self) -> Any:
            for batch in super().__iter__():
                yield batch * 2

    loader = loaderwatch.attach(Doubling(Squares(8), batch_size=2, num_workers=2))
    assert batches(loader) == [[[0], [2]], [[8], [18]], [[32], [50]], [[72], [98]]]
    main = rings.main()
    assert len(main.of(RecordKind.STEP)) == 4
    assert main.of(RecordKind.EPOCH_BEGIN)[0]["iter_kind"] == IterKind.STARTED
    assert main.of(RecordKind.STEP)[-1]["awaited_worker"] == 1
    assert len(rings.workers()) == 2


@pytest.mark.skipif(
    "in_order" not in inspect.signature(DataLoader).parameters, reason="this PyTorch loads in order only"
)
def test_any_order_and_prefetch_are_read(rings: RingFolder) -> None:
    loader = loaderwatch.attach(DataLoader(Squares(32, slow=0), batch_size=4, num_workers=2, in_order=False))
    assert len(batches(loader)) == 8
    steps = rings.main().of(RecordKind.STEP)
    assert {step["awaited_worker"] for step in steps} == {UNKNOWN}
    assert all(step["cached"] == 0 for step in steps)


def test_cached_batches_behind_a_slow_one(rings: RingFolder) -> None:
    read_on = torch.multiprocessing.Event()

    class Behind(Squares):
        def __getitem__(self, index: int) -> torch.Tensor:
            if index == 0:
                assert read_on.wait(PATIENCE_S)
            if index == 12:  # the other worker's second batch: its first one is on its way
                read_on.set()
            return super().__getitem__(index)

    loader = loaderwatch.attach(DataLoader(Behind(32, slow=0, slow_s=0.5), batch_size=4, num_workers=2))
    batches(iter(loader))
    steps = rings.main().of(RecordKind.STEP)
    (slow,) = (
        fetch for ring in rings.workers() for fetch in ring.of(RecordKind.FETCH) if fetch["slow_index"] == 0
    )
    assert steps[0]["request_ns"] + steps[0]["wait_ns"] > slow["request_ns"] + slow["fetch_ns"]
    assert steps[1]["cached"] >= 1  # the other worker's batches came first


def test_everything_is_watched_without_a_loader(rings: RingFolder) -> None:
    before = DataLoader.__iter__
    loader = DataLoader(Squares(8), batch_size=2, shuffle=True)
    assert loaderwatch.attach() is None
    with torch.no_grad():
        batches(DataLoader(TensorDataset(torch.arange(4)), batch_size=2, shuffle=True))
    batches(loader)
    info = rings.processes()[0]
    assert [(one.name, one.role) for one in info.loaders] == [
        ("validation loader (TensorDataset)", "eval"),
        ("training loader (Squares)", "train"),
    ]
    assert len(rings.main().of(RecordKind.STEP)) == 6
    loaderwatch.detach()
    assert DataLoader.__iter__ is before
    assert type(loader) is DataLoader


def test_a_training_loader_that_is_built_anew_still_trains(rings: RingFolder) -> None:
    """Not shuffled, and so like a validation loader but for what it reads."""
    loaderwatch.attach()
    for _ in range(3):
        batches(DataLoader(Squares(8), batch_size=2))
        batches(DataLoader(Squares(4), batch_size=2))
    infos = rings.processes()[0].loaders
    assert [one.role for one in infos] == ["train", "eval"]


def test_loaders_of_several_threads_get_numbers_and_names_of_their_own(rings: RingFolder) -> None:
    loaderwatch.attach()
    start = threading.Barrier(8)

    kept = []

    def train(_: int) -> int:
        loader = DataLoader(Squares(6), batch_size=2)
        kept.append(loader)
        start.wait(PATIENCE_S)
        return len(batches(loader))

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(train, range(8))) == [3] * 8
    infos = rings.processes()[0].loaders
    assert [one.loader for one in infos] == list(range(8))
    assert len({one.name for one in infos}) == 8


def test_an_iter_from_beside_dataloader_runs_once(rings: RingFolder) -> None:
    class Doubling:
        """A mixin: its ``__iter__`` is neither DataLoader's nor a subclass's own."""

        def __iter__(self) -> Iterator[Any]:
            for batch in super().__iter__():  # type: ignore[misc]
                yield batch * 2

    class Doubled(Doubling, DataLoader[Any]):  # type: ignore[misc] # what people write
        pass

    loaderwatch.attach()
    assert batches(
        Doubled(
            TensorDataset(torch.arange(4)),
            batch_size=2,
            collate_fn=lambda rows: torch.stack([row for (row,) in rows]),
        )
    ) == [[0, 2], [4, 6]]
    assert len(rings.main().of(RecordKind.STEP)) == 2
    loaderwatch.detach()
    assert "__iter__" not in vars(Doubled)


def test_hooks_in_front_of_each_other_come_out_in_any_order(rings: RingFolder) -> None:
    """``loaderwatch run`` of a script that attaches by itself, by name or not."""
    before = DataLoader.__iter__
    ondemand.install()
    loader = DataLoader(Squares(8), batch_size=2)
    loaderwatch.attach()
    loaderwatch.attach(loader)
    assert len(batches(loader)) == 4
    assert len(batches(DataLoader(Squares(8), batch_size=2))) == 4
    main = rings.main()
    assert [(one["loader"], one["batches"]) for one in main.of(RecordKind.EPOCH_END)] == [(0, 4), (1, 4)]
    assert len(main.of(RecordKind.STEP)) == 8
    loaderwatch.detach()
    assert len(batches(loader)) == 4
    assert len(main.of(RecordKind.STEP)) == 8
    DataLoader.__iter__ = before  # type: ignore[method-assign] # what the first hook left behind is inert
    del DataLoader.__init_subclass__


def test_other_iterables_are_wrapped(rings: RingFolder) -> None:
    class Pipeline:
        def __init__(self) -> None:
            self.speed = 3

        def __iter__(self) -> Iterator[int]:
            return iter(range(5))

        def __len__(self) -> int:
            return 5

    pipeline = Pipeline()
    watched = loaderwatch.attach(pipeline)
    assert isinstance(watched, Pipeline)
    assert (len(watched), watched.speed) == (5, 3)
    watched.speed = 4
    assert pipeline.speed == 4
    assert loaderwatch.attach(watched) is watched
    assert list(watched) == list(range(5)) == list(watched)
    assert loaderwatch.detach(watched) is pipeline
    list(watched)
    main = rings.main()
    assert [begin["epoch"] for begin in main.of(RecordKind.EPOCH_BEGIN)] == [0, 1]
    assert main.of(RecordKind.EPOCH_BEGIN)[1]["gap_ns"] > 0
    assert len(main.of(RecordKind.STEP)) == 10


def test_generators_and_iterators_are_wrapped(rings: RingFolder) -> None:
    def endless() -> Iterator[int]:
        yield from range(3)

    watched = loaderwatch.attach(endless())
    assert next(watched) == 0
    assert list(watched) == [1, 2]
    assert next(watched, None) is None
    assert [step["batch"] for step in rings.main().of(RecordKind.STEP)] != []
    assert len(rings.main().of(RecordKind.STEP)) == 3


def test_phases(rings: RingFolder) -> None:
    loader = loaderwatch.attach(DataLoader(Squares(4), batch_size=2))

    @loaderwatch.phase("log")
    def log() -> None:
        time.sleep(0.01)

    spans = []
    for _ in loader:
        with loaderwatch.phase("checkpoint"):
            spans.append(rings.main().span)
            log()
    names = rings.processes()[0].phase_names
    assert names == ["checkpoint", "log"]
    records = rings.main().of(RecordKind.PHASE)
    assert [names[record["name"]] for record in records] == ["log", "checkpoint"] * 2
    assert all(record["duration_ns"] >= 10e6 for record in records)
    assert spans[0] is not None
    assert (spans[0].phase, spans[0].phase_name) == (Phase.USER, 0)


def test_worker_rings_are_bounded(rings: RingFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("loaderwatch.agent.workers.probe.MAX_WORKER_RINGS", 3)
    for _ in range(3):
        batches(loaderwatch.attach(DataLoader(Squares(8), batch_size=2, num_workers=2)))
    # two workers may look at the same time
    assert 3 <= len(rings.workers()) <= 4


def test_unwritable_directory_is_said_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    obstacle = tmp_path / "file"
    obstacle.write_text("")
    monkeypatch.setattr(
        "loaderwatch.core.config.Settings.rings_dir", property(lambda self: obstacle / "rings")
    )
    loader = DataLoader(Squares(8), batch_size=2)
    assert loaderwatch.attach(loader) is loader
    assert type(loader) is DataLoader
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert str(obstacle) in said
    assert "training goes on unwatched" in said


def test_an_iterator_in_two_threads_of_which_one_waits() -> None:
    """The training thread uses the hot path meanwhile; the other thread's earlier call counts as no fault."""
    waiting, go_on = threading.Event(), threading.Event()

    class Slow(Dataset[int]):
        def __len__(self) -> int:
            return 50

        def __getitem__(self, index: int) -> int:
            if threading.current_thread() is not threading.main_thread():
                waiting.set()
                assert go_on.wait(PATIENCE_S)
            return index

    iterator: Any = iter(loaderwatch.attach(DataLoader(Slow(), batch_size=None)))
    seen = [next(iterator)]
    other = threading.Thread(target=lambda: seen.append(next(iterator)))
    other.start()
    assert waiting.wait(PATIENCE_S)
    seen += [next(iterator) for _ in range(10)]
    assert iterator._loaderwatch.thread  # on the hot path
    go_on.set()
    other.join(PATIENCE_S)
    seen += list(iterator)
    assert sorted(seen) == list(range(50))  # and conftest raises what the guard swallowed


class Interrupt(BaseException):
    """What a signal handler raises."""


# Python itself drops what is raised inside a __del__: PyTorch's iterators have one too.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("raised", [Interrupt, TimeoutError])
def test_interrupts_anywhere_leave_the_watching_whole(raised: type[BaseException], rings: RingFolder) -> None:
    """People stop and restart loops in a notebook; an alarm may interrupt our own lines."""
    numbers: Any = list(range(200))
    outer = loaderwatch.attach(DataLoader(numbers, batch_size=4))
    inner = loaderwatch.attach(DataLoader(numbers[:8], batch_size=4), name="inner")

    def late(*_: object) -> None:
        raise raised

    before = signal.signal(signal.SIGALRM, late)
    chance = random.Random(7)
    try:
        for _ in range(300):
            with contextlib.suppress(raised):
                try:
                    signal.setitimer(signal.ITIMER_REAL, chance.uniform(1e-5, 2e-3))
                    for _ in outer:
                        list(inner)
                finally:
                    signal.setitimer(signal.ITIMER_REAL, 0)
    finally:
        signal.signal(signal.SIGALRM, before)
    seen = []
    for _ in outer:
        span = rings.main().span
        assert span is not None
        seen.append((span.phase, span.batch))
    assert seen == [(Phase.STEP, batch) for batch in range(50)]
    steps = rings.main().of(RecordKind.STEP)[-50:]
    assert [step["batch"] for step in steps] == list(range(50))
    assert {(step["loader"], step["nested_ns"]) for step in steps} == {(0, 0)}


class OwnIterator:
    """An iterator whose unknown attributes raise something of their own."""

    def __init__(self, numbers: Iterator[int]) -> None:
        self._numbers = numbers

    def __iter__(self) -> OwnIterator:
        return self

    def __next__(self) -> int:
        return next(self._numbers)

    def __getattr__(self, name: str) -> Any:
        raise KeyError(name)


class OwnIteration(DataLoader[int]):
    """Iterates by itself."""

    def __iter__(self) -> Any:
        return OwnIterator(iter([1, 2, 3]))


def test_an_iterator_that_cannot_be_asked_for_attributes_is_no_fault() -> None:
    loader = loaderwatch.attach(OwnIteration([0]))  # type: ignore[arg-type]
    assert [list(loader) for _ in range(2)] == [[1, 2, 3], [1, 2, 3]]
