"""The hot path, compiled and in Python: the same records, words and refusals."""

from __future__ import annotations

import ast
import contextlib
import copy
import gc
import itertools
import mmap
import os
import shutil
import struct
import subprocess
import sys
import sysconfig
import threading
import time
import types
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic_ns
from typing import Any, ClassVar

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from loaderwatch.agent import hot
from loaderwatch.agent.guard import guard
from loaderwatch.agent.hot import in_python
from loaderwatch.agent.hot.layout import (
    AT_ONCE,
    CPU_CLOCK_ABOVE_NS,
    EACH,
    EACH_COUNTED,
    ENDING,
    LOOK_EVERY,
    LOOK_WITHIN_NS,
    ONE,
    ONE_COUNTED,
    Part,
)
from loaderwatch.core.records import RECORD_FIELDS, SLOT_FIELDS, UNKNOWN, Phase, RecordKind
from loaderwatch.core.ring import MAIN_CAPACITY, RingIdentity, RingReader, RingWriter
from loaderwatch.core.ring.span import words_of
from tests.waiting import PATIENCE_S, Stopwatch

try:
    from loaderwatch.agent.hot import _hot as compiled
except ImportError:
    compiled = None  # type: ignore[assignment]

needs_compiled = pytest.mark.skipif(compiled is None, reason="installed without a C compiler")
BOTH = [
    pytest.param(in_python, id="python"),
    pytest.param(compiled, id="compiled", marks=needs_compiled),
]
either = pytest.mark.parametrize("module", BOTH)


class Recorder:
    """What the hot path asks of the recorder."""

    def __init__(self) -> None:
        self.cooled = 0

    def cool(self) -> None:
        self.cooled += 1


class Ready:
    """An iterator with its batches waiting, as PyTorch's shows it."""

    def __init__(self) -> None:
        self._task_info: Any = {7: (3,), 8: (0, "batch"), 9: (1,)}
        self._tasks_outstanding: Any = 2
        self._rcvd_idx: Any = 7


@pytest.fixture
def ring(tmp_path: Path) -> Iterator[RingWriter]:
    """A ring to write."""
    writer = RingWriter(tmp_path / "main-1.ring", RingIdentity(1, 1, -1, -1, 0), MAIN_CAPACITY)
    writer.set_span(Phase.STEP, 1, loader=2, epoch=5, batch=10, step=10, batches=11, steps=10, follows=3)
    yield writer
    gc.collect()
    writer.close()


def make_pass(module: Any, ring: RingWriter, recorder: Any = None, phases: Any = None) -> Any:
    """A pass on the hot path, its eleventh batch at hand."""

    class Epoch(module.Pass):  # type: ignore[misc]
        told: ClassVar[list[str]] = []

        def request(self, iterator: Any, now: int) -> None:
            self.told.append("request")

        def deliver(self) -> None:
            self.told.append("deliver")

        def fail(self, error: BaseException) -> None:
            self.told.append(type(error).__name__)

    one = Epoch(recorder or Recorder(), phases, ring.numbers, another_reader, 2, 5)
    Epoch.told = []
    one.batch, one.delivered_ns, one.step_ahead, one.armed = 10, 1_000, 100, False
    one.limit, one.free = 32, lambda: 28
    one.memory = ring.memory
    one.thread = threading.get_ident()
    return one


def another_reader(iterator: object) -> tuple[int, int, int]:
    """The answer of an iterator of another kind."""
    return 6, UNKNOWN, 1


def make_clock(module: Any, ring: RingWriter, note: Callable[[Exception], None] | None = None) -> Any:
    """A clock whose callbacks of the engine are gathered."""

    def unexpected(fault: Exception) -> None:
        raise fault

    class Clock(module.PhaseClock):  # type: ignore[misc]
        callbacks: ClassVar[list[Callable[[], None]]] = []
        seen: ClassVar[list[str]] = []
        launched: ClassVar[list[int]] = []

        def moved(self, inputs: Any) -> None:
            self.seen.append("moved")

        def look_at_output(self, module: Any, output: Any) -> None:
            self.seen.append(output)

        def launches(self, part: int) -> None:
            self.launched.append(part)

    Clock.launched = []
    Clock.callbacks, Clock.seen = [], []
    queue = Clock.callbacks.append
    return Clock(ring.memory, OnHost, lambda: True, queue, note or unexpected)


class OnHost:
    """A plain tensor."""

    is_cpu = True


def steps_of(ring: RingWriter) -> list[dict[str, int]]:
    """The step records, as a streamer reads them."""
    reader = RingReader(ring.path)
    try:
        drained = reader.drain(0)
    finally:
        reader.close()
    assert not drained.lost
    return [
        dict(zip(RECORD_FIELDS[RecordKind.STEP], row, strict=True))
        for row in drained.records.get(RecordKind.STEP, [])
    ]


def span_of(ring: RingWriter) -> Any:
    """The open span, as a streamer reads it."""
    reader = RingReader(ring.path)
    try:
        return reader.span()
    finally:
        reader.close()


@either
def test_a_step_is_recorded_and_the_wait_is_open(module: Any, ring: RingWriter) -> None:
    one = make_pass(module, ring)
    one.wait_since_ns, one.wait_ns, one.wait_cpu_ns = 500, 300, 200
    one.ready, one.cached, one.awaited = 1, 2, 3
    assert one.enter(Ready()) is True
    (step,) = steps_of(ring)
    told = {name: step[name] for name in ("loader", "epoch", "batch", "step", "request_ns", "wait_ns")}
    assert told == {"loader": 2, "epoch": 5, "batch": 10, "step": 110, "request_ns": 500, "wait_ns": 300}
    assert (step["wait_cpu_ns"], step["ready"], step["cached"], step["awaited_worker"]) == (200, 1, 2, 3)
    assert step["step_ns"] == one.wait_since_ns - 1_000
    assert (step["forward_ns"], step["nested_ns"], step["collective_ns"]) == (UNKNOWN, 0, UNKNOWN)
    span = span_of(ring)
    assert (span.phase, span.since_ns, span.awaited_worker) == (Phase.WAIT, one.wait_since_ns, 3)
    assert (span.batch, span.batches) == (11, 11)
    assert (one.ready, one.cached, one.awaited) == (4, 1, 3)
    one.leave()
    span = span_of(ring)
    assert (span.phase, span.batch, span.batches) == (Phase.STEP, 11, 12)
    assert (one.batch, one.wait_cpu_ns) == (11, UNKNOWN)
    assert one.delivered_ns == one.wait_since_ns + one.wait_ns == span.since_ns
    assert one.told == []


@either
def test_an_iterator_without_tasks_ends(module: Any, ring: RingWriter) -> None:
    one, iterator = make_pass(module, ring), Ready()
    iterator._task_info, iterator._tasks_outstanding = {}, 0
    one.enter(iterator)
    assert span_of(ring).phase is Phase.TEARDOWN
    assert one.awaited == ENDING


@either
def test_a_long_wait_and_an_empty_queue_ask_for_the_cpu_clock(module: Any, ring: RingWriter) -> None:
    recorder = Recorder()
    one = make_pass(module, ring, recorder)
    one.free, one.armed = (lambda: 32), False
    one.enter(Ready())
    assert one.cpu_ns > 0
    one.wait_since_ns -= 2 * CPU_CLOCK_ABOVE_NS
    one.leave()
    assert one.cpu_ns == 0
    assert one.wait_cpu_ns >= 0
    assert one.armed
    one.free = lambda: 28
    one.enter(Ready())
    assert one.cpu_ns > 0
    one.leave()
    one.armed = False
    one.enter(Ready())
    assert one.cpu_ns == 0
    assert (one.told, recorder.cooled) == ([], 0)  # such waits stay on the hot path


@either
def test_another_kind_of_iterator_is_asked(module: Any, ring: RingWriter) -> None:
    one = make_pass(module, ring)
    one.free = None
    one.enter(object())
    assert (one.ready, one.cached, one.awaited) == (6, UNKNOWN, 1)


@either
def test_what_is_special_takes_the_long_way(module: Any, ring: RingWriter) -> None:
    one = make_pass(module, ring)
    answers: list[bool] = []
    other = threading.Thread(target=lambda: answers.append(one.enter(Ready())))
    other.start()
    other.join(PATIENCE_S)
    one.thread = 0
    answers.append(one.enter(Ready()))
    one.leave()
    assert answers == [False, False]
    assert one.told == ["request", "request", "deliver"]
    assert steps_of(ring) == []


@either
def test_a_fault_of_the_reader_costs_no_record(module: Any, ring: RingWriter) -> None:
    """The step had ended: it is recorded once, and the wait is the new one's."""
    one = make_pass(module, ring)
    one.free = None
    one.read = lambda _: 1 / 0
    before = monotonic_ns()
    with pytest.raises(ZeroDivisionError):
        one.enter(Ready())
    assert one.wait_since_ns >= before
    assert one.delivered_ns == 0
    assert [step["batch"] for step in steps_of(ring)] == [10]


@either
def test_something_else_is_published_while_the_iterator_is_read(module: Any, ring: RingWriter) -> None:
    """By a signal handler or another thread: that is no fault, and its word stands."""
    one = make_pass(module, ring)
    one.free = None

    def read(_: object) -> tuple[int, int, int]:
        assert one.delivered_ns == 0  # so that Epoch.cool knows that it is inside next()
        one.thread, one.memory = 0, None
        ring.set_span(Phase.OUTSIDE, 7)
        return 6, UNKNOWN, 1

    one.read = read
    assert one.enter(Ready()) is True
    one.leave()
    assert one.told == ["deliver"]
    assert (span_of(ring).phase, span_of(ring).since_ns) == (Phase.OUTSIDE, 7)
    assert [step["batch"] for step in steps_of(ring)] == [10]


@either
def test_what_is_called_may_take_itself_away(module: Any, ring: RingWriter) -> None:
    class Once:
        def __init__(self, holder: Any, name: str, answer: Any) -> None:
            self.holder, self.name, self.answer = holder, name, answer

        def __call__(self, *_: Any) -> Any:
            setattr(self.holder, self.name, None)
            gc.collect()
            return self.answer

    one = make_pass(module, ring)
    for name, answer in (("free", 28), ("read", (6, 0, 1))):
        setattr(one, name, Once(one, name, answer))
        assert one.enter(Ready())
        one.leave()


@either
def test_tasks_change_while_they_are_read(module: Any, ring: RingWriter) -> None:
    class Worker:
        """A number that is no int, and empties the tasks when it is asked for its value."""

        def __index__(self) -> int:
            iterator._task_info.clear()
            gc.collect()
            return 3

    one, iterator = make_pass(module, ring), Ready()
    iterator._task_info[7] = (Worker(),)
    one.enter(iterator)
    assert span_of(ring).awaited_worker == 3


@either
def test_records_go_round(module: Any, ring: RingWriter) -> None:
    one = make_pass(module, ring)
    iterator = Ready()
    for _ in range(MAIN_CAPACITY + 3):
        assert one.enter(iterator)
        one.leave()
    reader = RingReader(ring.path)
    drained = reader.drain(0)
    reader.close()
    batches = [row[2] for row in drained.records[RecordKind.STEP]]
    # Three were written over; the oldest may be, at this moment, as far as the reader knows.
    assert (drained.lost, batches) == (4, list(range(14, 13 + MAIN_CAPACITY)))


@either
def test_phases_of_a_step(module: Any, ring: RingWriter) -> None:
    clock = make_clock(module, ring)
    clock.has_model = clock.has_optimizer = True
    one = make_pass(module, ring, phases=clock)
    clock.steps = clock.steps_finished = 40
    clock.forward_began(None, (OnHost(),))
    assert span_of(ring).phase is Phase.FORWARD
    clock.forward_began(None, (OnHost(),))  # inside
    clock.forward_ended(None, (), "inner")
    clock.forward_ended(None, (), "output")
    assert clock.seen == ["output"]
    clock.gradient_came("gradient")
    clock.gradient_came()
    assert span_of(ring).phase is Phase.BACKWARD
    (callback,) = clock.callbacks
    callback()
    clock.optimizer_began()
    assert span_of(ring).phase is Phase.OPTIMIZER
    clock.optimizer_ended()
    one.enter(Ready())
    (step,) = steps_of(ring)
    assert min(step["forward_ns"], step["backward_ns"], step["optimizer_ns"]) > 0
    assert (step["step"], step["optimizer_steps"]) == (41, 1)
    assert (step["h2d_ns"], step["collective_ns"]) == (UNKNOWN, UNKNOWN)
    assert clock.take()[1:5] == (0, 0, 0, 0)


@either
def test_steps_of_another_optimizer_are_timed_and_not_counted(module: Any, ring: RingWriter) -> None:
    clock = make_clock(module, ring)
    clock.has_optimizer = True
    clock.other_optimizer_ended()  # it began before anybody listened
    clock.optimizer_began()
    clock.other_optimizer_ended()
    assert span_of(ring).phase is not Phase.OPTIMIZER
    _, _, _, optimizer_ns, optimizer_steps, _ = clock.take()
    assert optimizer_ns > 0
    assert (optimizer_steps, clock.steps_finished) == (0, 0)


@either
def test_gradients_that_others_wait_for(module: Any, ring: RingWriter) -> None:
    clock = make_clock(module, ring)
    clock.has_model = clock.exchanges = True
    clock.forward_began(None, ())
    clock.forward_ended(None, (), None)
    clock.gradient_came()
    clock.callbacks.pop()()
    clock.callbacks.pop()()  # queued behind DDP's own
    assert clock.callbacks == []
    taken = clock.take()
    assert taken[2] >= taken[5] > 0
    assert taken[4] == UNKNOWN


@either
def test_what_is_not_watched_is_unknown(module: Any, ring: RingWriter) -> None:
    assert make_clock(module, ring).take() == (UNKNOWN,) * 6


@either
def test_an_input_elsewhere_is_looked_at(module: Any, ring: RingWriter) -> None:
    clock = make_clock(module, ring)
    elsewhere = OnHost()
    elsewhere.is_cpu = False
    for inputs in ((elsewhere,), ("no tensor",)):
        clock.take()
        clock.forward_began(None, inputs)
    assert clock.seen == ["moved", "moved"]
    clock.forward_began(None, ())
    assert clock.seen == ["moved", "moved"]


def _step(clock: Any, *, looked_at: bool, head_s: float = 0.0, parameter: bool = True) -> tuple[int, ...]:
    """A step of the model; its record's phases."""
    del clock.seen[:]
    clock.forward_began(None, (OnHost(),))
    clock.forward_ended(None, (), "output")
    assert clock.seen == ["output"] * looked_at
    if looked_at:
        clock.gradient_came()
    time.sleep(head_s)
    if parameter:
        clock.parameter_came()
    for callback in clock.callbacks:
        callback()
    del clock.callbacks[:]
    return _take(clock)


def _take(clock: Any, *, looked_ago_ns: int = 0) -> tuple[int, ...]:
    """A step's phases, so long after the end of the last step that was looked at closely."""
    clock.looked_ns = monotonic_ns() - looked_ago_ns
    return clock.take()  # type: ignore[no-any-return]


@either
def test_one_step_of_many_is_looked_at_closely(module: Any, ring: RingWriter) -> None:
    """It tells how long before the last parameter's gradient the backward passes of the others began."""
    clock = make_clock(module, ring)
    clock.has_model = True
    assert _step(clock, looked_at=True, head_s=0.3)[2] >= 300_000_000  # a first step takes longer
    around = Stopwatch()
    with around():
        assert _step(clock, looked_at=True, head_s=0.01)[2] >= 10_000_000
    head = clock.head_ns
    assert 10_000_000 <= head <= around.total_ns
    for _ in range(LOOK_EVERY - 2):
        assert _step(clock, looked_at=False, head_s=head / 5e8)[2] >= head
    around = Stopwatch()
    with around():
        assert _step(clock, looked_at=True)[2] > 0
    assert clock.head_ns <= around.total_ns
    _step(clock, looked_at=False)


@either
def test_where_steps_are_long_one_a_second_is_looked_at_closely(module: Any, ring: RingWriter) -> None:
    clock = make_clock(module, ring)
    _take(clock)
    assert clock.until_look == LOOK_EVERY - 1
    _take(clock, looked_ago_ns=LOOK_WITHIN_NS // 2)
    assert clock.until_look == LOOK_EVERY - 2
    _take(clock, looked_ago_ns=LOOK_WITHIN_NS)
    assert clock.until_look == 0
    began = monotonic_ns()
    _take(clock, looked_ago_ns=LOOK_WITHIN_NS)
    assert clock.until_look == LOOK_EVERY - 1
    assert clock.looked_ns >= began, "the step that is over is the last one"


@either
def test_backward_begins_after_the_model_was_left(module: Any, ring: RingWriter) -> None:
    clock = make_clock(module, ring)
    clock.has_model = True
    for _ in range(2):
        _step(clock, looked_at=True, head_s=0.02)
    began = time.monotonic_ns()
    backward = _step(clock, looked_at=False)[2]
    assert 0 < backward <= time.monotonic_ns() - began


@either
def test_a_parameter_that_has_no_part_in_a_step(module: Any, ring: RingWriter) -> None:
    """Then that step's backward is unknown, and every step is looked at until the parameter tells again."""
    clock = make_clock(module, ring)
    clock.has_model = True
    for _ in range(2):
        _step(clock, looked_at=True)
    assert _step(clock, looked_at=False, parameter=False)[2] == UNKNOWN
    for _ in range(3):
        assert _step(clock, looked_at=True, parameter=False)[2] > 0
    assert _step(clock, looked_at=True)[2] > 0
    assert _step(clock, looked_at=False)[2] > 0


@either
def test_where_the_input_lies_is_asked_again(module: Any, ring: RingWriter) -> None:
    clock = make_clock(module, ring)
    elsewhere = OnHost()
    elsewhere.is_cpu = False
    for _ in range(LOOK_EVERY):
        clock.forward_began(None, (OnHost(),))
        _take(clock)
    assert clock.on_host
    for _ in range(3):
        clock.forward_began(None, (elsewhere,))
        _take(clock)
    assert clock.seen == ["moved"] * 3
    assert not clock.on_host


@either
def test_faults_in_the_phases_go_to_the_guard(module: Any, ring: RingWriter) -> None:
    noted: list[Exception] = []
    clock = make_clock(module, ring, noted.append)

    class Broken(OnHost):
        @property
        def is_cpu(self) -> bool:  # type: ignore[override]
            raise RuntimeError("no device")

    clock.moved = None  # calling it is a TypeError
    clock.forward_began(None, (Broken(),))
    clock.look_at_output = None
    clock.forward_ended(None, (), None)
    assert [type(fault) for fault in noted] == [TypeError, TypeError]


@either
@pytest.mark.parametrize("exchanges", [False, True])
def test_the_seams_of_a_step_are_told_where_it_is_looked_at_closely(
    module: Any, ring: RingWriter, exchanges: bool
) -> None:
    """Backward ends when this rank has computed its gradients; DDP's wait afterwards is not part of it."""
    noted: list[BaseException] = []
    clock = make_clock(module, ring, noted.append)
    clock.has_model, clock.exchanges = True, exchanges
    for step in range(2 * LOOK_EVERY):
        clock.gradient_came()
        while clock.callbacks:
            clock.callbacks.pop(0)()
        clock.optimizer_began()
        clock.optimizer_began()  # one inside the other is one step
        clock.optimizer_ended() if step % 2 else clock.other_optimizer_ended()
        _take(clock)
    assert clock.launched == [Part.BACKWARD, Part.OTHER, Part.OPTIMIZER, Part.OTHER] * 2
    clock.launches = None  # calling it is a TypeError
    clock.optimizer_began()
    clock.optimizer_ended()
    assert [type(fault) for fault in noted] == [TypeError, TypeError]


@either
def test_what_is_no_fault_is_raised(module: Any, ring: RingWriter) -> None:
    """An interrupt; and what the guard says was a signal handler's."""

    def interrupt() -> bool:
        raise KeyboardInterrupt

    def refuse(fault: Exception) -> None:
        raise fault

    clock = module.PhaseClock(ring.memory, OnHost, interrupt, print, refuse)
    with pytest.raises(KeyboardInterrupt):
        clock.forward_began(None, ())
    clock = module.PhaseClock(ring.memory, OnHost, lambda: 1 / 0, print, refuse)
    with pytest.raises(ZeroDivisionError):
        clock.forward_began(None, ())


def make_samples(module: Any, ring: RingWriter, worker: int = 0) -> Any:
    """The clock of a fetching process; every batch weighs 7 bytes."""
    return module.SampleClock(ring, 2, worker, lambda batch: 7)


def fetches_of(ring: RingWriter) -> list[dict[str, int]]:
    """The fetch records, as a streamer reads them."""
    reader = RingReader(ring.path)
    try:
        drained = reader.drain(0)
    finally:
        reader.close()
    assert not drained.lost
    return [
        dict(zip(RECORD_FIELDS[RecordKind.FETCH], row, strict=True))
        for row in drained.records.get(RecordKind.FETCH, [])
    ]


@either
def test_the_slowest_sample_is_named(module: Any, ring: RingWriter) -> None:
    clock = make_samples(module, ring)
    shown = []
    indices: Any = [5, 2**70, 7, "key"]
    around = Stopwatch()
    with around():
        for index in clock.begin(EACH, indices):
            shown.append(span_of(ring).sample_index)
            time.sleep(0.5 if index == 7 else 0)
    assert shown == [5, UNKNOWN, 7, UNKNOWN]
    assert (clock.count, clock.slow_index) == (4, 7)
    assert 500e6 <= clock.slow_ns <= around.total_ns
    clock.end("batch")
    assert list(clock.begin(EACH_COUNTED, [None, None])) == [None, None]
    assert clock.slow_index in (4, 5)
    assert span_of(ring).sample_index == 5
    assert clock.sample_since_ns == span_of(ring).sample_since_ns


@either
def test_the_sample_that_failed_is_not_counted(module: Any, ring: RingWriter) -> None:
    clock = make_samples(module, ring)
    handed = []

    class Fetcher:
        _loaderwatch, _loaderwatch_reads = clock, EACH

        def fetch(self, indices: Any) -> None:
            handed.append(indices)
            walk = iter(indices)
            next(walk)
            next(walk)
            assert (clock.count, clock.slow_index) == (1, 3)
            raise ValueError("truncated")

    def refuse(clock: Any, error: BaseException) -> None:
        raise error

    with pytest.raises(ValueError, match="truncated"):
        module.timed_fetch(Fetcher.fetch, types.SimpleNamespace(tripped=False), refuse)(Fetcher(), [3, 4])
    (indices,) = handed
    assert (indices.first, indices.done) == (0, 1), "the next one is the sample that failed"
    assert list(clock.begin(EACH, [])) == []
    assert clock.count == 0
    assert clock.samples == 1
    assert fetches_of(ring) == []


@either
def test_an_error_of_the_indices_is_raised(module: Any, ring: RingWriter) -> None:
    with pytest.raises(ZeroDivisionError):
        list(make_samples(module, ring).walk((1 // number for number in (1, 0)), False))


@either
def test_a_worker_says_what_it_does(module: Any, ring: RingWriter) -> None:
    ring.set_span(Phase.STARTING, 1, 2)
    clock = make_samples(module, ring, worker=3)
    clock.idle()
    assert (span_of(ring).phase, span_of(ring).samples) == (Phase.IDLE, 0)
    before = monotonic_ns()
    handed = clock.begin(EACH, [8, 9])
    assert handed == [8, 9]
    assert (span_of(ring).phase, span_of(ring).sample_index) == (Phase.FETCH, UNKNOWN)
    for index in handed:
        assert (span_of(ring).phase, span_of(ring).sample_index) == (Phase.FETCH, index)
    clock.collate()
    span = span_of(ring)
    assert (span.phase, span.sample_index, span.samples, span.batches) == (Phase.COLLATE, UNKNOWN, 2, 0)
    clock.end("batch")
    span = span_of(ring)
    assert (span.phase, span.sample_index, span.samples, span.batches) == (Phase.IDLE, UNKNOWN, 2, 1)
    (row,) = fetches_of(ring)
    told = [row[name] for name in ("loader", "worker", "ordinal", "samples", "bytes")]
    assert told == [2, 3, 0, 2, 7]
    assert row["slow_index"] in (8, 9)
    assert row["request_ns"] >= before
    assert row["fetch_ns"] >= row["collate_ns"] > 0
    assert min(row["cpu_ns"], row["idle_ns"], row["slow_ns"]) > 0


@either
def test_the_training_thread_keeps_its_own_span(module: Any, ring: RingWriter) -> None:
    clock, before = make_samples(module, ring, worker=-1), span_of(ring)
    clock.begin(ONE, 6)
    assert (span_of(ring).phase, span_of(ring).sample_index) == (before.phase, 6)
    clock.collate()
    clock.end("batch")
    assert span_of(ring) == before
    (row,) = fetches_of(ring)
    assert (row["slow_index"], row["samples"], row["cpu_ns"] > 0) == (6, 1, True)
    clock.begin(ONE, 6)
    clock.end("batch")
    before_was_short = row["fetch_ns"] <= CPU_CLOCK_ABOVE_NS
    assert (fetches_of(ring)[1]["cpu_ns"] == UNKNOWN) == before_was_short


@either
def test_a_forked_child_writes_into_its_own_memory(module: Any, ring: RingWriter) -> None:
    clock = make_samples(module, ring)
    clock.begin(AT_ONCE, [1])
    clock.end("batch")
    mapped = ring.memory
    before = bytes(mapped)
    ring.mute()
    clock.begin(AT_ONCE, [1])
    clock.end("batch")
    assert bytes(mapped) == before
    assert isinstance(mapped, mmap.mmap)
    mapped.close()


@either
def test_indices_are_a_list(module: Any, ring: RingWriter) -> None:
    clock = make_samples(module, ring)
    timed = clock.begin(EACH, [1, [2]])
    assert isinstance(timed, list)
    assert (timed, len(timed), timed[-1], list(reversed(timed))) == ([1, [2]], 2, [2], [[2], 1])
    for twin in (copy.copy(timed), copy.deepcopy(timed), timed[:], timed * 1):
        assert (twin, type(twin)) == ([1, [2]], list)
        assert list(iter(twin)) == [1, [2]]
    timed.append(timed)
    gone = weakref.ref(clock) if module is in_python else None
    clock.idle()
    del clock, timed, twin
    gc.collect()
    assert gone is None or gone() is None
    for other in ((1, 2), range(2), {3: 4}, "key", None):
        assert make_samples(module, ring).begin(EACH, other) is other


@either
def test_a_walk_that_outlives_its_fetch_says_nothing(module: Any, ring: RingWriter) -> None:
    clock = make_samples(module, ring)
    walk = iter(clock.begin(EACH, [1, 2, 3]))
    next(walk)
    clock.end("batch")
    before = span_of(ring)
    assert list(walk) == [2, 3]
    assert span_of(ring) == before


class MemoryRing:
    """A ring in memory of its own."""

    capacity = 16
    append = RingWriter.append
    set_sample = RingWriter.set_sample

    def __init__(self) -> None:
        self.memory = bytearray(4096 + self.capacity * SLOT_FIELDS * 8)
        self.words = words_of(self.memory)
        self.numbers = itertools.count(1)


FETCH_CALLS = st.lists(
    st.one_of(
        st.tuples(st.just("begin"), st.integers(EACH, ONE_COUNTED), st.integers(-2, 4)),
        st.tuples(st.sampled_from(["collate", "end", "idle", "read", "mute"]), st.just(0), st.just(0)),
    ),
    max_size=30,
)


def _told(memory: bytearray, place: int) -> list[int]:
    """A fetch's record; for times and for the slowest sample only whether they are known.

    The CPU time is left out: it is measured after a long fetch, and on a busy machine any may be long.
    """
    slot = struct.unpack_from(f"<{SLOT_FIELDS}q", memory, 4096 + place * SLOT_FIELDS * 8)
    return [
        field if column not in (5, 6, 7, 9, 11, 12) else field == UNKNOWN
        for column, field in enumerate(slot)
        if column != 8
    ]


@needs_compiled
@settings(deadline=None)
@given(calls=FETCH_CALLS, worker=st.integers(-1, 1))
def test_fetches_are_told_alike(calls: list[tuple[str, int, int]], worker: int) -> None:
    """In any order: the same words and records, but for the times."""
    outcomes: list[Any] = []
    for module in (in_python, compiled):
        ring: Any = MemoryRing()
        clock = make_samples(module, ring, worker)
        seen: list[Any] = []
        handed: Any = []
        for call, reads, size in calls:
            if call == "begin":
                handed = clock.begin(reads, list(range(size)) if size >= 0 else "key")
                seen.append((type(handed) is list, handed))
            elif call == "read":
                seen.append(list(itertools.islice(handed, 3)))
            elif call == "mute":
                ring.memory = bytearray(len(ring.memory))
                ring.words = words_of(ring.memory)
                handed = []  # a forked child does not read on in its parent's batch
            else:
                getattr(clock, call)(*(["batch"] if call == "end" else []))
            head = struct.unpack("<32q", ring.memory[128:384])
            seen.append([word if word < 1000 else "time" for word in head])
            seen.extend(_told(ring.memory, place) for place in range(16))
            seen.append((clock.samples, clock.count, clock.ordinal, clock.sample_since_ns > 0))
        outcomes.append(seen)
    slow, fast = outcomes
    assert slow == fast


@either
def test_nothing_is_written_without_memory(module: Any, ring: RingWriter) -> None:
    one, clock = make_pass(module, ring), make_clock(module, ring)
    before = bytes(ring.memory)
    one.memory = clock.memory = None
    clock.forward_began(None, ())
    clock.optimizer_began()
    clock.optimizer_ended()
    assert one.enter(Ready()) is False
    assert bytes(ring.memory) == before
    assert clock.steps == 1


@either
def test_memory_is_let_go(module: Any, ring: RingWriter) -> None:
    """A mapped file cannot be unmapped while somebody may write to it."""
    one, clock = make_pass(module, ring), make_clock(module, ring)
    assert one.memory is ring.memory
    assert clock.memory is ring.memory
    one.memory = clock.memory = None
    ring.close()


@either
def test_cycles_are_collected(module: Any, ring: RingWriter) -> None:
    clock = make_clock(module, ring)
    one = make_pass(module, ring, phases=clock)
    one.read = lambda _, own=one: own
    gone = weakref.ref(type(one))
    del clock, one
    gc.collect()
    assert gone() is None


@either
def test_nothing_is_left_behind(module: Any, ring: RingWriter) -> None:
    """A reference kept in every step would be gigabytes in a week."""
    clock = make_clock(module, ring, lambda fault: None)
    clock.has_model = clock.has_optimizer = True
    one, iterator, samples = make_pass(module, ring, phases=clock), Ready(), make_samples(module, ring)
    inputs, broken = (OnHost(),), Ready()
    del broken._rcvd_idx

    def step() -> None:
        one.enter(iterator)
        one.leave()
        clock.forward_began(None, inputs)
        clock.forward_ended(None, (), inputs)
        clock.gradient_came(inputs)
        clock.parameter_came(inputs)
        clock.callbacks.pop()()
        clock.parameter_came()
        clock.callbacks.pop()()
        clock.optimizer_began()
        clock.optimizer_ended()
        clock.seen.clear()
        for _ in samples.begin(EACH, [2**40, 2**41]):
            pass
        samples.collate()
        samples.end(inputs)
        one.free = None
        one.enter(iterator)
        one.free = free
        with contextlib.suppress(AttributeError):
            one.enter(broken)
        clock.forward_began(None, (None,))
        clock.take()

    free = one.free
    counts = []
    for _ in range(3):
        for _ in range(2_000):
            step()
        gc.collect()
        counts.append((sys.getallocatedblocks(), sys.getrefcount(iterator), sys.getrefcount(None)))
    blocks, references, nones = (max(column) - min(column) for column in zip(*counts, strict=True))
    assert blocks < 500
    assert references == 0
    assert nones < 500


# ---- __next__


@pytest.fixture(params=BOTH)
def module(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The hot path, and ``timed_next`` on it."""
    monkeypatch.setattr(hot, "_chosen", request.param)
    return request.param


def make_iterator(module: Any, ring: RingWriter, call: Callable[[Any], Any]) -> Any:
    """An iterator with ``call`` as its own ``__next__``, on the hot path."""

    class Watched(Ready):
        __next__ = hot.timed_next(call)

        def __iter__(self) -> Any:
            return self

    iterator: Any = Watched()
    iterator._loaderwatch = make_pass(module, ring)
    return iterator


def test_a_batch_is_timed(module: Any, ring: RingWriter) -> None:
    iterator = make_iterator(module, ring, lambda self: "batch")
    epoch = iterator._loaderwatch
    assert next(iterator) == iterator.__next__() == "batch"
    assert (epoch.batch, epoch.told) == (12, [])
    epoch.thread = 0
    assert next(iterator) == "batch"
    assert epoch.told == ["request", "deliver"]


@pytest.mark.parametrize("kind", [StopIteration, ValueError, KeyboardInterrupt])
def test_an_error_stays_the_users(module: Any, ring: RingWriter, kind: type[BaseException]) -> None:
    def broken(self: Any) -> None:
        raise error

    error = kind("theirs")
    iterator = make_iterator(module, ring, broken)
    with pytest.raises(kind) as caught:
        iterator.__next__()
    assert caught.value is error
    assert (error.__cause__, error.__context__) == (None, None)
    assert [entry.name for entry in caught.traceback] == ["test_an_error_stays_the_users", "broken"]
    assert iterator._loaderwatch.told == [kind.__name__]


@pytest.mark.parametrize("where", ["request", "deliver", "fail"])
def test_a_fault_of_ours_costs_no_batch(module: Any, ring: RingWriter, where: str) -> None:
    def broken(self: Any, *_: Any) -> None:
        raise ZeroDivisionError("ours")

    def call(self: Any) -> str:
        if where == "fail":
            raise StopIteration
        return "batch"

    iterator = make_iterator(module, ring, call)
    setattr(type(iterator._loaderwatch), where, broken)
    iterator._loaderwatch.thread = 0
    assert next(iterator, "over") == ("over" if where == "fail" else "batch")
    assert [type(fault) for fault in guard.reset()] == [ZeroDivisionError]


@pytest.mark.parametrize("where", ["request", "deliver", "fail"])
def test_an_interrupt_in_our_lines_ends_the_wait(module: Any, ring: RingWriter, where: str) -> None:
    def interrupted(self: Any, *_: Any) -> None:
        raise KeyboardInterrupt

    def call(self: Any) -> str:
        if where == "fail":
            raise StopIteration
        return "batch"

    iterator = make_iterator(module, ring, call)
    epoch = iterator._loaderwatch
    setattr(type(epoch), where, interrupted)
    epoch.thread = 0
    with pytest.raises(KeyboardInterrupt):
        next(iterator)
    assert epoch.told[-1:] == (["request"] if where == "fail" else ["KeyboardInterrupt"])
    assert hot.nexts_on_the_stack() == 0


def test_calls_are_counted_by_thread(module: Any, ring: RingWriter) -> None:
    counts: list[int] = []

    def outer_next(self: Any) -> None:
        other = threading.Thread(target=lambda: counts.append(hot.nexts_on_the_stack()))
        other.start()
        other.join()
        counts.append(hot.nexts_on_the_stack())
        next(inner, None)

    def inner_next(self: Any) -> None:
        counts.append(hot.nexts_on_the_stack())
        raise StopIteration

    inner = make_iterator(module, ring, inner_next)
    next(make_iterator(module, ring, outer_next))
    assert [*counts, hot.nexts_on_the_stack()] == [0, 1, 2, 0]


def test_batches_and_errors_leave_nothing_behind(module: Any, ring: RingWriter) -> None:
    def call(self: Any) -> Any:
        if next(number) % 3 == 0:
            raise StopIteration
        return batch

    number, batch = itertools.count(), object()
    iterator = make_iterator(module, ring, call)
    counts = []
    for _ in range(3):
        for _ in range(3_000):
            next(iterator, None)
            iterator._loaderwatch.told.clear()
        gc.collect()
        counts.append((sys.getallocatedblocks(), sys.getrefcount(batch), sys.getrefcount(iterator)))
    blocks, batches, iterators = (max(column) - min(column) for column in zip(*counts, strict=True))
    assert blocks < 500
    assert batches == iterators == 0


@needs_compiled
def test_a_next_that_is_called_wrongly_raises(ring: RingWriter) -> None:
    def failed(epoch: object, error: BaseException) -> None:
        raise KeyError("in the seam")

    with pytest.raises(TypeError):
        compiled.timed_next(next)  # type: ignore[call-arg]
    blank = compiled.timed_next.__new__(compiled.timed_next)
    with pytest.raises(TypeError):
        blank(Ready())
    timed = compiled.timed_next(lambda self: next(iter(())), failed, failed)
    with pytest.raises(AttributeError, match="_loaderwatch"):
        timed(Ready())
    for arguments, names in (((), {}), ((Ready(), 1), {}), ((Ready(),), {"more": 1})):
        with pytest.raises(TypeError, match="no arguments"):
            timed(*arguments, **names)
    iterator: Any = Ready()
    iterator._loaderwatch = "no epoch"
    with pytest.raises(KeyError, match="in the seam"):
        timed(iterator)
    iterator._loaderwatch = make_pass(compiled, ring)
    with pytest.raises(KeyError, match="in the seam"):
        timed(iterator)
    assert compiled.nexts_on_the_stack() == 0


@needs_compiled
def test_the_compiled_clock_has_what_the_agent_asks_of_it(ring: RingWriter) -> None:
    """Its fields are spelled out in C, so one could be missing where no other test here looks."""
    fields = {name for name in vars(make_clock(in_python, ring)) if not name.startswith("_")}
    agent = Path(hot.__file__).parents[1]
    trees = [ast.parse(file.read_text()) for file in agent.rglob("*.py") if file.parent.name != "hot"]
    asked = {node.attr for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    assert "model_ended_at" in fields & asked
    assert fields & asked <= set(dir(make_clock(compiled, ring)))


@needs_compiled
def test_the_layout_is_the_same() -> None:
    assert compiled.LAYOUT == in_python.LAYOUT
    assert hot.Pass is (in_python if os.environ.get("LOADERWATCH_PLAIN") else compiled).Pass


@needs_compiled
@pytest.mark.parametrize(
    "memory", [bytearray(100), memoryview(bytearray(10_000)), 7, b"x" * 2_000_000], ids=type
)
def test_memory_that_is_no_ring_is_refused(memory: object, ring: RingWriter) -> None:
    one = make_pass(compiled, ring)
    with pytest.raises((ValueError, TypeError, BufferError)):
        one.memory = memory
    assert one.memory is None
    assert one.enter(Ready()) is False


@needs_compiled
def test_wrong_arguments_are_refused(ring: RingWriter) -> None:
    with pytest.raises(TypeError, match="numbers is no iterator"):
        compiled.Pass(Recorder(), None, 7, None, 0, 0)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        compiled.PhaseClock()  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        make_clock(compiled, ring).forward_ended()
    with pytest.raises(TypeError):
        make_samples(compiled, ring).walk([1], False)
    with pytest.raises(TypeError, match="no ring to write"):
        compiled.SampleClock(types.SimpleNamespace(numbers=7), 0, 0, len)  # type: ignore[arg-type]
    small: Any = types.SimpleNamespace(memory=bytearray(8), numbers=itertools.count(1), capacity=512)
    with pytest.raises(ValueError, match="not that of a ring"):
        compiled.SampleClock(small, 0, 0, len).begin(EACH, [1])


@needs_compiled
def test_objects_without_their_fields_raise(ring: RingWriter) -> None:
    """Not initialised, or cleared by the garbage collector."""
    blank = compiled.Pass.__new__(compiled.Pass)
    with pytest.raises(AttributeError):
        blank.enter(Ready())
    blank.memory, blank.thread = ring.memory, threading.get_ident()
    with pytest.raises(AttributeError):
        blank.enter(Ready())
    blank.leave()
    one = make_pass(compiled, ring)
    del one.free
    with pytest.raises(AttributeError):
        one.enter(Ready())
    del one.phases
    assert one.enter(Ready()) is False
    del one.recorder
    one.wait_since_ns = 0
    one.leave()
    clock = compiled.PhaseClock.__new__(compiled.PhaseClock)
    with pytest.raises(AttributeError):
        clock.forward_began(None, ())
    with pytest.raises(AttributeError):
        clock.gradient_came()
    with pytest.raises(AttributeError):
        clock.parameter_came()
    clock.forward_ended(None, (), None)
    clock.backward_ended()
    for told in (clock.optimizer_began, clock.optimizer_ended):  # a first step is looked at closely
        with pytest.raises(AttributeError):
            told()
    assert clock.take() == (0, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN)


ODD = st.one_of(
    st.integers(-3, 9),
    st.integers(-(2**70), 2**70),
    st.none(),
    st.text(max_size=2),
    st.lists(st.integers(), max_size=1),
)
TASKS = st.one_of(
    ODD, st.dictionaries(st.integers(5, 9), st.one_of(ODD, st.tuples(ODD), st.tuples(), st.tuples(ODD, ODD)))
)


@needs_compiled
@settings(deadline=None)  # a busy machine takes its time
@example(tasks={}, outstanding=0, awaited=0, free=-(2**63), missing=False)
@given(tasks=TASKS, outstanding=ODD, awaited=ODD, free=ODD, missing=st.booleans())
def test_an_odd_iterator_is_read_alike(
    tmp_path_factory: pytest.TempPathFactory,
    tasks: Any,
    outstanding: Any,
    awaited: Any,
    free: Any,
    missing: bool,
) -> None:
    """Of what another version of PyTorch might hold there: the same words, or refused by both."""
    outcomes: list[Any] = []
    for module in (in_python, compiled):
        memory = bytearray(4096 + MAIN_CAPACITY * 22 * 8)
        ring: Any = types.SimpleNamespace(memory=memory, numbers=itertools.count(1))
        one, iterator = make_pass(module, ring), Ready()
        iterator._task_info, iterator._tasks_outstanding, iterator._rcvd_idx = tasks, outstanding, awaited
        if missing:
            del iterator._rcvd_idx
        one.free = lambda: free
        try:
            one.enter(iterator)
        except Exception:
            outcomes.append(None)
        else:
            outcomes.append((one.ready, one.cached, one.awaited))
    slow, fast = outcomes
    # Python takes lists for tuples and floats for numbers; where it does not refuse, neither may be wrong.
    assert fast is None or fast == slow
    countable = not any(isinstance(one, int) and abs(one) >= 2**62 for one in (free, outstanding))
    if countable and isinstance(tasks, dict) and all(isinstance(task, tuple) for task in tasks.values()):
        assert (slow is None) == (fast is None)


def test_the_header_for_c_is_made_before_any_package_is_installed() -> None:
    """The build asks for it in a first install, and without it nothing is compiled."""
    root = Path(hot.__file__).parents[3]
    asks = "from loaderwatch.agent.hot.layout import c_header; print(c_header())"
    bare = {"PYTHONPATH": os.fspath(root), "LOADERWATCH_PLAIN": "1"}
    done = subprocess.run([sys.executable, "-S", "-c", asks], env=bare, capture_output=True, text=True)
    assert "LOOK_EVERY" in done.stdout, done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="compiled on Linux only")
def test_a_compiler_means_compiled() -> None:
    """The install step has not gone missing."""
    include = sysconfig.get_path("include")
    if not (Path(include) / "Python.h").exists():
        pytest.skip(f"no headers of Python in {include}")
    if shutil.which((sysconfig.get_config_var("CC") or "cc").split()[0]) is None:
        pytest.skip("no C compiler")
    assert compiled is not None, "pip install -e . compiles it; see hatch_build.py"
    built, source = Path(compiled.__file__), Path(hot.__file__).with_name("_hot.c")
    assert built.stat().st_mtime >= source.stat().st_mtime, (
        f"{built.name} is older than its source: make, or pip install -e ."
    )


def test_a_fault_as_collating_begins_stays_ours() -> None:
    class Broken:
        def collate(self) -> None:
            raise RuntimeError("ours")

    class Fetcher:
        collate_fn = in_python.noted_collate()

    fetcher = Fetcher()
    fetcher.__dict__.update(_loaderwatch=Broken(), collate_fn=list)
    assert fetcher.collate_fn is list
    assert [repr(fault) for fault in guard.reset()] == ["RuntimeError('ours')"]
