"""The GPU's clock, with events that complete when the test says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from loaderwatch.agent.model import cuda
from loaderwatch.agent.model.cuda import CudaClock, cuda_clock
from loaderwatch.core.records import RecordKind
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
    clock = CudaClock(ring, gpu.event, lambda: gpu.capturing)
    for batch in range(3):
        gpu.now = 10.0 * batch
        clock.request()
        gpu.now += 2.0
        clock.deliver(0, 1, batch, 100 + batch)
    assert records(ring) == []  # nothing was waited for
    gpu.reached = 15.0
    gpu.now = 30.0
    clock.request()
    assert records(ring) == [(0, 1, 0, 100, 2_000_000, 8_000_000)]
    gpu.reached = 30.0
    clock.deliver(0, 1, 3, 103)
    clock.request()
    assert [record[2] for record in records(ring)] == [0, 1, 2, 3]
    assert gpu.made <= 9


def test_events_stay_out_of_a_cuda_graph(ring: RingWriter) -> None:
    gpu = Gpu()
    clock = CudaClock(ring, gpu.event, lambda: gpu.capturing)
    gpu.capturing = True
    clock.request()
    clock.deliver(0, 0, 0, 0)
    assert gpu.made == 0


def test_pending_batches_are_bounded(ring: RingWriter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda, "MAX_PENDING", 4)
    gpu = Gpu()
    gpu.reached = -1.0
    clock = CudaClock(ring, gpu.event, lambda: False)
    for batch in range(20):
        clock.request()
        clock.deliver(0, 0, batch, 0)
    gpu.reached = 1.0
    clock.request()
    assert [record[2] for record in records(ring)] == [16, 17, 18, 19]


def test_no_clock_without_cuda(ring: RingWriter) -> None:
    assert cuda_clock(ring) is None
