"""The device's clock, compiled and in Python, with events that complete when the test says so."""

from __future__ import annotations

import gc
import tempfile
import time
import weakref
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loaderwatch.agent.hot import device_clock, in_python
from loaderwatch.agent.hot.device_clock import parts_ns
from loaderwatch.agent.hot.layout import MAX_PENDING, READ_TOGETHER, READ_WITHIN_NS, Part
from loaderwatch.core.records import UNKNOWN, RecordKind
from loaderwatch.core.ring import RingIdentity, RingReader, RingWriter
from tests.fakes.events import Gpu, GpuEvent

try:
    from loaderwatch.agent.hot import _hot as compiled
except ImportError:
    compiled = None  # type: ignore[assignment]

needs_compiled = pytest.mark.skipif(compiled is None, reason="installed without a C compiler")
either = pytest.mark.parametrize(
    "module",
    [pytest.param(in_python, id="python"), pytest.param(compiled, id="compiled", marks=needs_compiled)],
)


def make_clock(module: Any, ring: RingWriter, make_event: Any, is_capturing: Any = lambda: False) -> Any:
    return module.DeviceClock(ring, make_event, is_capturing, parts_ns)


@pytest.fixture
def ring(tmp_path: Path) -> RingWriter:
    return RingWriter(tmp_path / "ring", RingIdentity(1, 1, -1, -1, 0), 64)


def records(ring: RingWriter) -> list[tuple[int, ...]]:
    return RingReader(ring.path).drain(0).records.get(RecordKind.GPU_WAIT, [])


def read(clock: Any, ring: RingWriter) -> list[tuple[int, ...]]:
    """What the clock tells when a pass ends."""
    clock.read()
    return records(ring)


@either
def test_waits_are_read_when_the_gpu_has_passed_them(module: Any, ring: RingWriter) -> None:
    gpu = Gpu()
    clock = make_clock(module, ring, gpu.event, lambda: gpu.capturing)
    for batch in range(3):
        gpu.now = 10.0 * batch
        clock.request()
        gpu.now += 2.0
        clock.deliver(0, 1, batch, 100 + batch)
    assert read(clock, ring) == []  # nothing was waited for
    gpu.reached = 15.0
    gpu.now = 30.0
    clock.request()
    (record,) = read(clock, ring)
    assert record[:6] == (0, 1, 0, 100, 2_000_000, 8_000_000)
    assert record[7:] == (UNKNOWN,) * 4  # no phase was marked
    gpu.reached = 30.0
    clock.deliver(0, 1, 3, 103)
    clock.request()
    assert [record[2] for record in read(clock, ring)] == [0, 1, 2, 3]
    assert gpu.made <= 9


def test_batches_are_read_some_at_a_time_where_steps_are_short(
    ring: RingWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_ns = 10**12
    monkeypatch.setattr(device_clock, "monotonic_ns", lambda: now_ns)
    clock = make_clock(in_python, ring, Gpu().event)
    told = []
    for batch in range(4 * READ_TOGETHER):
        clock.request()
        clock.deliver(0, 0, batch, batch)
        told.append(len(records(ring)))
    assert sorted({*told}) == [0, *range(1, len(told), READ_TOGETHER)]
    now_ns += READ_WITHIN_NS
    clock.request()
    assert len(records(ring)) == len(told)


@needs_compiled
def test_no_more_than_some_are_left_unread(ring: RingWriter) -> None:
    clock = make_clock(compiled, ring, Gpu().event)
    for batch in range(4 * READ_TOGETHER):
        clock.request()
        clock.deliver(0, 0, batch, batch)
        assert batch - READ_TOGETHER < len(records(ring)) <= batch
    assert len(read(clock, ring)) == batch


@either
def test_events_stay_out_of_a_cuda_graph(module: Any, ring: RingWriter) -> None:
    gpu = Gpu()
    clock = make_clock(module, ring, gpu.event, lambda: gpu.capturing)
    gpu.capturing = True
    clock.request()
    clock.deliver(0, 0, 0, 0)
    assert gpu.made == 0


@either
def test_pending_batches_are_bounded(module: Any, tmp_path: Path) -> None:
    ring = RingWriter(tmp_path / "ring", RingIdentity(1, 1, -1, -1, 0), 512)
    gpu = Gpu()
    gpu.reached = -1.0
    clock = make_clock(module, ring, gpu.event)
    for batch in range(MAX_PENDING + 16):
        clock.request()
        clock.deliver(0, 0, batch, 0)
    gpu.reached = 1.0
    clock.request()
    assert [record[2] for record in read(clock, ring)] == [*range(16, MAX_PENDING + 16)]


class Stream:
    """A device with its own clock that works beside a loop. Milliseconds of the loop's clock."""

    def __init__(self, behind_ms: float, drift: float) -> None:
        self.now = 1000.0
        self.free_at = 0.0
        self.behind_ms, self.drift = behind_ms, drift

    def launch(self, ms: float) -> None:
        self.free_at = max(self.now, self.free_at) + ms

    def event(self) -> StreamEvent:
        return StreamEvent(self)


class StreamEvent:
    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.at = 0.0

    def record(self) -> None:
        self.at = max(self.stream.now, self.stream.free_at)

    def query(self) -> bool:
        return self.stream.now >= self.at

    def elapsed_time(self, end_event: StreamEvent) -> float:
        assert self.query()
        assert end_event.query()
        return (end_event.at - self.at) * (1 + self.stream.drift)


@settings(deadline=None)  # each writes a file
@given(
    steps=st.lists(
        st.tuples(st.floats(0, 300), st.floats(0, 200), st.floats(0, 20)), min_size=20, max_size=80
    ),  # wait, work of the device, what the loop takes to launch it
    epochs=st.integers(5, 40),
    drift=st.floats(-5e-5, 5e-5),
)
def test_slack_is_what_the_device_has_left_and_never_more(
    steps: list[tuple[float, float, float]], epochs: int, drift: float
) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        ring = RingWriter(Path(folder) / "ring", RingIdentity(1, 1, -1, -1, 0), 128)
        stream = Stream(500.0, drift)
        patch.setattr(device_clock, "monotonic_ns", lambda: int(stream.now * 1e6))
        clock = make_clock(in_python, ring, stream.event)
        truth_ms = []
        for number, (wait, work, launching) in enumerate(steps):
            if number % epochs == 0 and number:
                clock.request()  # the end of an epoch: no batch comes
                stream.now += 30
            truth_ms.append(max(0.0, stream.free_at - stream.now))
            asked_ns = int(stream.now * 1e6)
            clock.request()
            stream.now += wait
            clock.deliver(0, 0, number, asked_ns)
            stream.launch(work)
            stream.now += launching
        clock.request()
        stream.now = max(stream.now, stream.free_at) + 1
        clock.request()
        found = {record[2]: record[6] / 1e6 for record in read(clock, ring)}
    assert len(found) >= len(steps) - 2 - len(steps) // epochs
    passed_ms = stream.now - 1000.0
    for number, slack_ms in found.items():
        assert slack_ms <= truth_ms[number] + 1e-3 + 1.5e-4 * passed_ms
        assert (
            slack_ms >= truth_ms[number] - 1e-3 - 2.5e-4 * passed_ms
        )  # the first request found it idle: that was exact


@either
def test_the_devices_phases_lie_between_the_marks(module: Any, ring: RingWriter) -> None:
    stream = Stream(0.0, 0.0)
    clock = make_clock(module, ring, stream.event)
    for number in range(3):
        clock.request()
        clock.deliver(0, 0, number, int(stream.now * 1e6))
        stream.launch(2)  # the copy
        clock.mark(Part.FORWARD)
        stream.launch(30)
        clock.mark(Part.OTHER)  # the loss
        clock.mark(Part.BACKWARD)
        stream.launch(60)
        clock.mark(Part.OTHER)
        if number:
            clock.mark(Part.OPTIMIZER)
            stream.launch(5)
            clock.mark(Part.OTHER)
        stream.now += 1
    stream.now = stream.free_at + 7
    clock.request()
    first, second, _ = read(clock, ring)
    assert [ns / 1e6 for ns in first[7:10]] == pytest.approx([2, 30, 60])
    assert first[10] == UNKNOWN
    assert [ns / 1e6 for ns in second[7:]] == pytest.approx([2, 30, 60, 5])


@either
def test_an_input_from_the_host_leaves_the_copy_in_the_forward_pass(module: Any, ring: RingWriter) -> None:
    stream = Stream(0.0, 0.0)
    clock = make_clock(module, ring, stream.event)
    clock.mark(Part.OTHER)  # before the first batch
    clock.request()
    clock.deliver(0, 0, 0, int(stream.now * 1e6))
    stream.launch(32)
    clock.mark(Part.OTHER)
    for _ in range(100):
        clock.mark(Part.OTHER)  # a closure
    stream.now = stream.free_at + 1
    clock.request()
    (record,) = read(clock, ring)
    assert record[7] == UNKNOWN
    assert record[8] / 1e6 == pytest.approx(32)


@either
def test_events_that_tell_no_time_are_given_up_and_training_goes_on(module: Any, ring: RingWriter) -> None:
    class Silent(GpuEvent):
        def elapsed_time(self, end_event: GpuEvent) -> float:
            raise NotImplementedError("this accelerator times nothing")

    gpu = Gpu()
    made: list[Silent] = []

    def make() -> Silent:
        made.append(Silent(gpu))
        return made[-1]

    clock = make_clock(module, ring, make)
    for batch in range(50):
        clock.request()
        clock.deliver(0, 0, batch, 0)
        clock.mark(Part.FORWARD)
    assert read(clock, ring) == []
    assert len(made) < 10


class Glanced(StreamEvent):
    """Reached unless the test says that it is looked at too early."""

    early = False

    def query(self) -> bool:
        return not Glanced.early

    def elapsed_time(self, end_event: StreamEvent) -> float:
        """An event that was reached once stays reached, so the glance of the moment does not matter."""
        return end_event.at - self.at


def play(
    module: Any, steps: list[tuple[float, float, float, bool, int]], began_ns: int
) -> list[tuple[int, ...]]:
    with tempfile.TemporaryDirectory() as folder:
        ring = RingWriter(Path(folder) / "ring", RingIdentity(1, 1, -1, -1, 0), 64)
        stream = Stream(0.0, 0.0)
        clock = make_clock(module, ring, lambda: Glanced(stream))
        for number, (wait, work, launching, early, marks) in enumerate(steps):
            Glanced.early = early
            asked_ns = began_ns + int(stream.now * 1e6)
            clock.request()
            stream.now += wait
            clock.deliver(2, 3, number, asked_ns)
            for mark in range(marks):
                clock.mark((Part.FORWARD, Part.OTHER, Part.BACKWARD, Part.OTHER, Part.OPTIMIZER)[mark % 5])
                stream.launch(work / marks)
            stream.launch(0 if marks else work)
            stream.now += launching
        Glanced.early = False
        clock.request()
        return read(clock, ring)


@needs_compiled
@settings(deadline=None)  # each writes two files
@given(
    steps=st.lists(
        st.tuples(
            st.floats(0, 300),
            st.floats(0, 200),
            st.floats(0, 20),
            st.booleans(),
            st.sampled_from([0, 2, 5, 40]),
        ),
        min_size=1,
        max_size=40,
    ),  # wait, device work, time to launch it, whether the device is then queried too early, marks
)
def test_both_tell_the_same_of_one_device(steps: list[tuple[float, float, float, bool, int]]) -> None:
    """Equal in all that events say. Slack uses the machine's clock for events not yet reached."""
    began_ns = time.monotonic_ns() - 100 * 10**9  # so that all of it has happened
    one, other = play(in_python, steps, began_ns), play(compiled, steps, began_ns)
    assert len(one) == len(other) == len(steps)
    slack = 6
    assert [row[:slack] + row[slack + 1 :] for row in one] == [
        row[:slack] + row[slack + 1 :] for row in other
    ]
    if not any(early for *_, early, _ in steps):
        assert [row[slack] for row in one] == pytest.approx([row[slack] for row in other], abs=10**6)


@either
def test_it_goes_with_its_events_although_they_know_it(module: Any, ring: RingWriter) -> None:
    """An event that keeps its clock is a cycle, which garbage collection finds."""
    gpu = Gpu()

    class Kept(GpuEvent):
        clock: Any = None

    made: list[Kept] = []

    def make() -> Kept:
        made.append(Kept(gpu))
        return made[-1]

    clock = make_clock(module, ring, make)
    gpu.reached = -1.0
    for batch in range(4):
        clock.request()
        clock.deliver(0, 0, batch, 0)
        clock.mark(Part.FORWARD)
    for event in made:
        event.clock = clock
    gone = weakref.ref(made[0])
    made.clear()
    del clock, event
    gc.collect()
    assert gone() is None


@needs_compiled
def test_what_is_no_ring_and_a_clock_without_fields_are_refused(ring: RingWriter) -> None:
    with pytest.raises(TypeError):
        compiled.DeviceClock()  # type: ignore[call-arg]
    with pytest.raises(AttributeError):
        make_clock(compiled, object(), GpuEvent)  # type: ignore[arg-type]
    blank = compiled.DeviceClock.__new__(compiled.DeviceClock)
    with pytest.raises(AttributeError):
        blank.request()
    blank.deliver(0, 0, 0, 0)
    blank.mark(Part.FORWARD)
    with pytest.raises(TypeError):
        make_clock(compiled, ring, Gpu().event).deliver("a", 0, 0, 0)


@either
def test_an_event_may_ask_the_clock_itself(module: Any, ring: RingWriter) -> None:
    """As a signal handler would that iterates the same loader."""
    gpu = Gpu()
    inside = 0

    class Nosy(GpuEvent):
        def query(self) -> bool:
            nonlocal inside
            if not inside:
                inside += 1
                clock.request()
                inside -= 1
            return super().query()

    clock = make_clock(module, ring, lambda: Nosy(gpu))
    for batch in range(6):
        clock.request()
        clock.deliver(0, 0, batch, batch)
    gpu.reached = 1.0
    clock.request()
    found = [record[2] for record in read(clock, ring)]
    assert found == sorted(set(found))


@either
def test_marks_on_another_stream_give_no_phases_and_nothing_up(module: Any, ring: RingWriter) -> None:
    """The requests are on an idle stream, so the device passes them while it computes on another stream."""
    idle, busy = Gpu(), Gpu()
    idle.reached, busy.reached = 1e9, -1.0
    of = [idle]

    class Event(GpuEvent):
        def record(self) -> None:
            self.gpu = of[0]
            super().record()

    clock = make_clock(module, ring, lambda: Event(idle))
    for batch in range(2):
        clock.request()
        clock.deliver(0, 0, batch, batch)
        of[0] = busy
        clock.mark(Part.FORWARD)
        of[0] = idle
    clock.request()
    assert [record[2] for record in read(clock, ring)] == [0, 1]
    assert {record[7:] for record in read(clock, ring)} == {(UNKNOWN,) * 4}
