"""The GPU's clock, with events that complete when the test says so."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from loaderwatch.agent.model import device
from loaderwatch.agent.model.device import DeviceClock, Part, device_clock
from loaderwatch.core.records import UNKNOWN, RecordKind
from loaderwatch.core.ring import RingIdentity, RingReader, RingWriter


class Gpu:
    """A stream that has come up to ``reached``; stands in for the driver."""

    def __init__(self) -> None:
        self.reached = 0.0
        self.now = 0.0
        self.made = 0
        self.capturing = False

    def event(self) -> FakeEvent:
        self.made += 1
        return FakeEvent(self)


class FakeEvent:
    def __init__(self, gpu: Gpu) -> None:
        self.gpu = gpu
        self.at = -1.0

    def record(self) -> None:
        self.at = self.gpu.now

    def query(self) -> bool:
        return self.gpu.reached >= self.at

    def elapsed_time(self, end_event: FakeEvent) -> float:
        assert self.query()
        assert end_event.query()
        return end_event.at - self.at


@pytest.fixture
def ring(tmp_path: Path) -> RingWriter:
    return RingWriter(tmp_path / "ring", RingIdentity(1, 1, -1, -1, 0), 64)


def records(ring: RingWriter) -> list[tuple[int, ...]]:
    return RingReader(ring.path).drain(0).records.get(RecordKind.GPU_WAIT, [])


def test_waits_are_read_when_the_gpu_has_passed_them(ring: RingWriter) -> None:
    gpu = Gpu()
    clock = DeviceClock(ring, gpu.event, lambda: gpu.capturing)
    for batch in range(3):
        gpu.now = 10.0 * batch
        clock.request()
        gpu.now += 2.0
        clock.deliver(0, 1, batch, 100 + batch)
    assert records(ring) == []  # nothing was waited for
    gpu.reached = 15.0
    gpu.now = 30.0
    clock.request()
    (record,) = records(ring)
    assert record[:6] == (0, 1, 0, 100, 2_000_000, 8_000_000)
    assert record[7:] == (UNKNOWN,) * 4  # no phase was marked
    gpu.reached = 30.0
    clock.deliver(0, 1, 3, 103)
    clock.request()
    assert [record[2] for record in records(ring)] == [0, 1, 2, 3]
    assert gpu.made <= 9


def test_events_stay_out_of_a_cuda_graph(ring: RingWriter) -> None:
    gpu = Gpu()
    clock = DeviceClock(ring, gpu.event, lambda: gpu.capturing)
    gpu.capturing = True
    clock.request()
    clock.deliver(0, 0, 0, 0)
    assert gpu.made == 0


def test_pending_batches_are_bounded(ring: RingWriter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "MAX_PENDING", 4)
    gpu = Gpu()
    gpu.reached = -1.0
    clock = DeviceClock(ring, gpu.event, lambda: False)
    for batch in range(20):
        clock.request()
        clock.deliver(0, 0, batch, 0)
    gpu.reached = 1.0
    clock.request()
    assert [record[2] for record in records(ring)] == [16, 17, 18, 19]


class Stream:
    """A device that computes piece after piece, by a clock of its own, beside a loop. Milliseconds of the loop's clock."""

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
        patch.setattr(device, "monotonic_ns", lambda: int(stream.now * 1e6))
        clock = DeviceClock(ring, stream.event, lambda: False)
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
        stream.now = stream.free_at + 1
        clock.request()
        found = {record[2]: record[6] / 1e6 for record in records(ring)}
    assert len(found) >= len(steps) - 2 - len(steps) // epochs
    passed_ms = stream.now - 1000.0
    for number, slack_ms in found.items():
        assert slack_ms <= truth_ms[number] + 1e-3 + 1.5e-4 * passed_ms
        assert (
            slack_ms >= truth_ms[number] - 1e-3 - 2.5e-4 * passed_ms
        )  # the first request found it idle: that was exact


def test_the_devices_phases_lie_between_the_marks(ring: RingWriter) -> None:
    stream = Stream(0.0, 0.0)
    clock = DeviceClock(ring, stream.event, lambda: False)
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
    first, second, _ = records(ring)
    assert [ns / 1e6 for ns in first[7:10]] == pytest.approx([2, 30, 60])
    assert first[10] == UNKNOWN
    assert [ns / 1e6 for ns in second[7:]] == pytest.approx([2, 30, 60, 5])


def test_an_input_from_the_host_leaves_the_copy_in_the_forward_pass(ring: RingWriter) -> None:
    stream = Stream(0.0, 0.0)
    clock = DeviceClock(ring, stream.event, lambda: False)
    clock.mark(Part.OTHER)  # before the first batch
    clock.request()
    clock.deliver(0, 0, 0, int(stream.now * 1e6))
    stream.launch(32)
    clock.mark(Part.OTHER)
    for _ in range(100):
        clock.mark(Part.OTHER)  # a closure
    stream.now = stream.free_at + 1
    clock.request()
    (record,) = records(ring)
    assert record[7] == UNKNOWN
    assert record[8] / 1e6 == pytest.approx(32)


def test_no_clock_without_cuda(ring: RingWriter) -> None:
    assert device_clock(ring) is None


def test_events_that_tell_no_time_are_given_up_and_training_goes_on(ring: RingWriter) -> None:
    class Silent(FakeEvent):
        def elapsed_time(self, end_event: FakeEvent) -> float:
            raise NotImplementedError("this accelerator times nothing")

    gpu = Gpu()
    made: list[Silent] = []

    def make() -> Silent:
        made.append(Silent(gpu))
        return made[-1]

    clock = DeviceClock(ring, make, lambda: False)
    for batch in range(50):
        clock.request()
        clock.deliver(0, 0, batch, 0)
        clock.mark(Part.FORWARD)
    assert records(ring) == []
    assert len(made) < 10


class Xpu:
    """Another accelerator's module, as far as all of them offer it."""

    def __init__(self, count: int = 1, current: int = 0) -> None:
        self.count, self.current = count, current
        self.initialized = False

    def is_initialized(self) -> bool:
        return self.initialized

    def device_count(self) -> int:
        return self.count

    def current_device(self) -> int:
        return self.current


def test_another_accelerator_is_timed_by_torch_s_own_events(
    ring: RingWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpu, xpu = Gpu(), Xpu()
    asked: list[tuple[str, bool]] = []

    def event(kind: str, *, enable_timing: bool) -> FakeEvent:
        asked.append((kind, enable_timing))
        return gpu.event()

    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: torch.device("xpu"))
    monkeypatch.setattr(torch, "xpu", xpu)
    monkeypatch.setattr(torch, "Event", event)
    assert device_clock(ring) is None  # it is there, but this process does not use it
    xpu.initialized = True
    clock = device_clock(ring)
    assert clock is not None
    clock.request()
    clock.deliver(0, 0, 0, 0)
    clock.request()
    assert len(records(ring)) == 1
    assert set(asked) == {("xpu", True)}
    xpu.count = 2  # of which one is meant is not known: not even how much memory each holds
    assert device_clock(ring) is None
    xpu.current = 1
    assert device_clock(ring) is not None


def test_an_accelerator_of_which_nobody_can_tell_whether_it_is_used_has_no_clock(
    ring: RingWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: torch.device("mps"))
    assert device_clock(ring) is None
