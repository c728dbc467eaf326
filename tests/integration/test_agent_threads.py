"""A loader that a thread reads for the loop: what the rings hold, with real threads, queues and futures."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import gc
import os
import queue
import selectors
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

import loaderwatch
from loaderwatch.core.records import UNKNOWN, EndedBy, ReadBy, RecordKind
from tests.conftest import RingFolder
from tests.waiting import PATIENCE_S, Stopwatch, wait_until

pytestmark = [
    pytest.mark.usefixtures("data_dir", "no_streamer"),
    pytest.mark.filterwarnings("ignore:.*use of fork.*:DeprecationWarning"),
]
BATCHES = 24
READ_S, STEP_S = 0.06, 0.02


class Samples(Dataset[Tensor]):
    """Each takes ``seconds``; the one numbered ``bad`` cannot be read."""

    def __init__(self, seconds: float, bad: int = -1) -> None:
        self.seconds, self.bad = seconds, bad

    def __len__(self) -> int:
        return BATCHES

    def __getitem__(self, index: int) -> Tensor:
        if index == self.bad:
            raise OSError(f"sample {index} is truncated")
        time.sleep(self.seconds)
        return torch.ones(4)


class Model:
    """A model with its optimizer, and a step that takes a while."""

    def __init__(self, step_s: float) -> None:
        self.model, self.step_s = nn.Linear(4, 1), step_s
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def step(self, batch: Tensor) -> None:
        time.sleep(self.step_s)
        self.model(batch).sum().backward()
        self.optimizer.step()
        self.optimizer.zero_grad()


class Fill:
    """Reads a loader in a thread, into a queue; None is the end, or an error that nobody hands on."""

    def __init__(self, loader: Any, batches: Any) -> None:
        self.loader, self.batches = loader, batches
        self.thread = threading.Thread(target=self.fill, daemon=True)
        self.thread.start()

    def fill(self) -> None:
        try:
            for batch in self.loader:
                self.batches.put(batch)
        except OSError:
            pass
        self.batches.put(None)


def by_queue(loader: Any, waits: Stopwatch, batches: Any = None) -> Iterator[Tensor]:
    fill = Fill(loader, queue.Queue(maxsize=3) if batches is None else batches)
    while True:
        with waits():
            batch = fill.batches.get()
        if batch is None:
            fill.thread.join(PATIENCE_S)
            return
        yield batch


def by_patient_queue(loader: Any, waits: Stopwatch) -> Iterator[Tensor]:
    """As those do that look whether the thread still lives."""

    class Patient(queue.Queue[Any]):
        def get(self, block: bool = True, timeout: float | None = None) -> Any:
            while True:
                try:
                    return super().get(block, 0.01)
                except queue.Empty:
                    continue

    return by_queue(loader, waits, Patient(maxsize=3))


def by_future(loader: Any, waits: Stopwatch) -> Iterator[Tensor]:
    with ThreadPoolExecutor(1) as pool:
        batches = iter(loader)
        coming = pool.submit(next, batches, None)
        while True:
            with waits():
                batch = coming.result()
            if batch is None:
                return
            coming = pool.submit(next, batches, None)
            yield batch


def by_polling(loader: Any, waits: Stopwatch) -> Iterator[Tensor]:
    """The loop looks again and again whether a thread has put something into its list."""

    class Polled(collections.deque[Any]):
        put = collections.deque.append

        def get(self) -> Any:
            while not self:
                time.sleep(0.004)
            return self.popleft()

    return by_queue(loader, waits, Polled())


def by_asyncio(loader: Any, waits: Stopwatch) -> Iterator[Tensor]:
    """A coroutine awaits a batch that a thread reads while the loop works on the one before."""
    batches = iter(loader)
    with ThreadPoolExecutor(1) as pool, contextlib.closing(asyncio.new_event_loop()) as events:

        def ask() -> asyncio.Future[Any]:
            return events.run_in_executor(pool, next, batches, None)

        coming = ask()
        while True:
            with waits():
                batch = events.run_until_complete(coming)
            if batch is None:
                return
            coming = ask()
            yield batch


WAYS = pytest.mark.parametrize("way", [by_queue, by_patient_queue, by_future, by_polling, by_asyncio])
Way = Callable[[Any, Stopwatch], Iterator[Tensor]]


def steps_of(rings: RingFolder) -> list[dict[str, int]]:
    return rings.main().of(RecordKind.STEP)


def total(steps: list[dict[str, int]], column: str) -> int:
    return sum(step[column] for step in steps if step[column] != UNKNOWN)


@WAYS
@pytest.mark.parametrize("workers", [0, 1])
def test_the_loop_waits_for_the_thread(rings: RingFolder, way: Way, workers: int) -> None:
    loader = loaderwatch.attach(DataLoader(Samples(READ_S), num_workers=workers))
    model, waits = Model(STEP_S), Stopwatch()
    for batch in way(loader, waits):
        model.step(batch)
    steps = steps_of(rings)
    ahead = [step for step in steps if step["off_main_thread"] == ReadBy.AHEAD]
    assert len(steps) == BATCHES
    assert (
        len(ahead) >= BATCHES / 2
    )  # from when the loop was woken for the first time; its first step may take long
    waited = total(ahead, "wait_ns")
    assert waited <= waits.total_ns
    assert waited >= 0.5 * sum(waits.taken_ns[BATCHES // 2 : -1])
    assert all(step["wait_cpu_ns"] <= step["wait_ns"] for step in ahead)


@WAYS
def test_records_and_steps_add_up_to_the_time_that_passed(rings: RingFolder, way: Way) -> None:
    loader = loaderwatch.attach(DataLoader(Samples(READ_S)))
    model, waits, whole = Model(STEP_S), Stopwatch(), Stopwatch()
    with whole():
        for batch in way(loader, waits):
            model.step(batch)
    steps = steps_of(rings)
    told = total(steps, "wait_ns") + total(steps, "step_ns") + total(steps, "nested_ns")
    assert 0.7 * whole.total_ns <= told <= whole.total_ns
    assert total(steps, "optimizer_steps") >= BATCHES / 2  # not the first, nor what the thread does not see


@WAYS
def test_a_thread_that_is_ahead_costs_nothing(rings: RingFolder, way: Way) -> None:
    loader = loaderwatch.attach(DataLoader(Samples(0.0)))
    model, waits = Model(0.1), Stopwatch()
    for batch in way(loader, waits):
        model.step(batch)
    ahead = [step for step in steps_of(rings) if step["off_main_thread"] == ReadBy.AHEAD]
    assert total(ahead, "wait_ns") <= waits.total_ns


def test_steps_that_sleep_while_no_batch_comes_are_no_waits(rings: RingFolder) -> None:
    """The loop uses its queue while the thread reads a slow sample: equal sleeps without a batch between.

    For the first slow sample the loop does wait, and from then on its waits are known.
    """

    class Hiccup(Samples):
        def __getitem__(self, index: int) -> Tensor:
            time.sleep(1.5 if index in (2, BATCHES // 2) else 0.0)
            return torch.ones(4)

    loader = loaderwatch.attach(DataLoader(Hiccup(0.0)))
    waits = Stopwatch()
    for _ in by_queue(loader, waits, queue.Queue(maxsize=8)):
        time.sleep(0.05)
    ahead = [step for step in steps_of(rings) if step["off_main_thread"] == ReadBy.AHEAD]
    assert ahead
    assert total(ahead, "wait_ns") <= waits.total_ns


def test_what_the_loop_waits_for_may_be_something_else(rings: RingFolder) -> None:
    """The thread gets one batch after the other, and the loop does not wake up for them."""
    loader = loaderwatch.attach(DataLoader(Samples(0.02)))
    done = threading.Event()

    def read() -> None:
        for _ in loader:
            pass
        done.set()

    threading.Thread(target=read, daemon=True).start()
    assert done.wait(PATIENCE_S)
    assert {step["off_main_thread"] for step in steps_of(rings)} == {ReadBy.THREAD}


def test_recording_that_begins_in_the_reading_thread_is_of_the_loop(rings: RingFolder) -> None:
    """As under ``loaderwatch run``, which begins with the first use of a loader."""

    class FirstUse:
        def __iter__(self) -> Iterator[Tensor]:
            return iter(loaderwatch.attach(DataLoader(Samples(READ_S))))

    model, waits = Model(STEP_S), Stopwatch()
    for batch in by_queue(FirstUse(), waits):
        model.step(batch)
    steps = steps_of(rings)
    ahead = [step for step in steps if step["off_main_thread"] == ReadBy.AHEAD]
    assert len(steps) == BATCHES
    assert len(ahead) >= BATCHES / 2
    assert 0 < total(ahead, "wait_ns") <= waits.total_ns


def test_a_loop_that_sleeps_on_purpose_does_not_poll(rings: RingFolder) -> None:
    """A throttle: one sleep for each batch, while the thread reads the next."""
    loader = loaderwatch.attach(DataLoader(Samples(0.03)))
    for _ in by_queue(loader, Stopwatch(), queue.SimpleQueue()):
        time.sleep(0.05)
    assert {step["off_main_thread"] for step in steps_of(rings)} == {ReadBy.THREAD}


def test_a_wait_in_c_is_not_known(rings: RingFolder) -> None:
    loader = loaderwatch.attach(DataLoader(Samples(0.02)))
    model = Model(0.0)
    for batch in by_queue(loader, Stopwatch(), queue.SimpleQueue()):
        model.step(batch)
    assert {step["off_main_thread"] for step in steps_of(rings)} == {ReadBy.THREAD}


def test_the_thread_that_trains_reads_for_itself(rings: RingFolder) -> None:
    loader = loaderwatch.attach(DataLoader(Samples(READ_S)))

    def train() -> None:
        model = Model(STEP_S)
        for _ in range(2):
            for batch in loader:
                model.step(batch)

    thread = threading.Thread(target=train)
    thread.start()
    thread.join()
    steps = steps_of(rings)
    assert len(steps) == 2 * BATCHES
    own = [step for step in steps if step["off_main_thread"] == ReadBy.LOOP]
    assert len(own) >= len(steps) - 2
    assert all(step["wait_ns"] >= READ_S * 1e9 for step in own)
    assert total(own, "optimizer_steps") == len(own)


def test_a_loader_with_a_thread_of_its_own(rings: RingFolder) -> None:
    """Its own iterator is what the loop waits for; what its thread reads is not reported twice."""

    class Threaded(DataLoader[Tensor]):
        def __iter__(self) -> Any:
            inner = super().__iter__()
            return by_queue(inner, Stopwatch())

    loader = loaderwatch.attach(Threaded(Samples(READ_S)))
    model = Model(STEP_S)
    for batch in loader:
        model.step(batch)
    steps = steps_of(rings)
    assert [step["off_main_thread"] for step in steps] == [ReadBy.LOOP] * BATCHES
    assert total(steps, "wait_ns") > 0.5 * BATCHES * (READ_S - STEP_S) * 1e9


def test_the_thread_and_its_end_are_named(rings: RingFolder) -> None:
    loader = loaderwatch.attach(DataLoader(Samples(0.0, bad=7)))
    model = Model(0.0)
    for batch in by_queue(loader, Stopwatch()):
        model.step(batch)
    (process,) = rings.processes()
    (info,) = process.loaders
    assert (info.reader, info.reader_error) == ("fill", "OSError")
    assert any(call.function == "test_the_thread_and_its_end_are_named" for call in process.calls)
    (end,) = rings.main().of(RecordKind.EPOCH_END)
    assert end["ended_by"] == EndedBy.ERROR


def test_a_new_pass_begins_without_the_error(rings: RingFolder) -> None:
    dataset = Samples(0.0, bad=7)
    loader = loaderwatch.attach(DataLoader(dataset))
    list(by_queue(loader, Stopwatch()))
    dataset.bad = -1
    assert len(list(by_queue(loader, Stopwatch()))) == BATCHES
    assert rings.processes()[0].loaders[0].reader_error is None


def test_a_thread_that_dies_of_its_own_work_is_named(
    rings: RingFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[threading.ExceptHookArgs] = []
    monkeypatch.setattr(threading, "excepthook", told.append)
    loader = loaderwatch.attach(DataLoader(Samples(0.0)))

    def normalize() -> None:
        for batch in loader:
            raise ZeroDivisionError(batch)

    def leave() -> None:
        for _ in loader:
            sys.exit()

    def drop() -> None:
        with contextlib.suppress(ZeroDivisionError):
            normalize()

    own = threading.excepthook
    for work, error in ((normalize, "ZeroDivisionError"), (leave, ""), (drop, "")):
        thread = threading.Thread(target=work, name="prefetcher")
        thread.start()
        thread.join()
        wait_until("its end", lambda: rings.processes()[0].loaders[0].reader_error is not None)
        (info,) = rings.processes()[0].loaders
        assert (info.reader, info.reader_error) == (work.__name__, error)
    assert [args.exc_type for args in told] == [ZeroDivisionError, SystemExit]  # as without us
    assert threading.excepthook is not own
    loaderwatch.detach(None)
    assert threading.excepthook is own


def test_a_thread_that_comes_to_the_end_of_its_pass_is_not_told(rings: RingFolder) -> None:
    """Neither as it ends, nor as a forked process drops what the thread had stored."""
    loader = loaderwatch.attach(DataLoader(Samples(0.0), num_workers=0))
    half, go_on = threading.Event(), threading.Event()

    def read() -> None:
        for number, _ in enumerate(loader):
            if number == 1:
                half.set()
                go_on.wait()

    thread = threading.Thread(target=read)
    thread.start()
    half.wait()
    child = os.fork()
    if not child:
        gc.collect()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert rings.processes()[0].loaders[0].reader_error is None
    go_on.set()
    thread.join()
    assert rings.processes()[0].loaders[0].reader_error is None


def test_the_death_of_another_thread_with_the_same_identifier_is_not_its_own(
    rings: RingFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threading, "excepthook", lambda args: None)
    loader = loaderwatch.attach(DataLoader(Samples(0.0)))
    idents = []

    def read() -> None:
        idents.append(threading.get_ident())
        assert len(list(loader)) == BATCHES

    def other() -> None:
        idents.append(threading.get_ident())
        raise ValueError("of its own")

    for _ in range(100):  # the system gives identifiers out again, as a rule to the very next thread
        for work in (read, other):
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
        if idents[-1] == idents[-2]:
            break
    else:
        pytest.skip("this system gives each thread a new identifier")
    assert rings.processes()[0].loaders[0].reader_error is None


def test_conditions_are_given_back(rings: RingFolder) -> None:
    own = threading.Condition.wait
    others = time.sleep, selectors.EpollSelector.select
    loader = loaderwatch.attach(DataLoader(Samples(0.0)))
    assert threading.Condition.wait is own
    list(by_queue(loader, Stopwatch()))
    assert not {time.sleep, selectors.EpollSelector.select} & set(others)
    assert threading.Condition.wait is not own
    assert threading.Condition.wait.__name__ == "wait"
    child = os.fork()
    if not child:
        os._exit(int(threading.Condition.wait is not own))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    loaderwatch.detach(None)
    assert threading.Condition.wait is own
    assert (time.sleep, selectors.EpollSelector.select) == others


def test_somebody_else_may_replace_it_too(rings: RingFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    loader = loaderwatch.attach(DataLoader(Samples(0.0)))
    list(by_queue(loader, Stopwatch()))
    ours = threading.Condition.wait

    def theirs(self: threading.Condition, timeout: float | None = None) -> bool:
        return ours(self, timeout)

    with monkeypatch.context() as patch:
        patch.setattr(threading.Condition, "wait", theirs)
        loaderwatch.detach(None)
        assert threading.Condition.wait is theirs
        assert len(list(by_queue(DataLoader(Samples(0.0)), Stopwatch()))) == BATCHES
    loaderwatch.attach(loader)
    loaderwatch.detach(None)


def test_interrupts_pass(rings: RingFolder) -> None:
    loader = loaderwatch.attach(DataLoader(Samples(0.02)))
    list(by_queue(loader, Stopwatch()))
    with pytest.raises(queue.Empty):
        queue.Queue[int]().get(timeout=0.01)
    with pytest.raises(RuntimeError, match="un-acquired"):
        threading.Condition().wait()
