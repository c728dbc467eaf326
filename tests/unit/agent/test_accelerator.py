"""Which accelerator is in use, and the clock for it."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from loaderwatch.agent.accelerator import device_clock
from loaderwatch.core.records import RecordKind
from loaderwatch.core.ring import RingIdentity, RingReader, RingWriter
from tests.fakes.events import Gpu, GpuEvent


@pytest.fixture
def ring(tmp_path: Path) -> RingWriter:
    return RingWriter(tmp_path / "ring", RingIdentity(1, 1, -1, -1, 0), 64)


needs_accelerator = pytest.mark.skipif(
    not hasattr(torch, "accelerator"), reason="torch.accelerator and torch.Event came with PyTorch 2.6"
)


def records(ring: RingWriter) -> list[tuple[int, ...]]:
    return RingReader(ring.path).drain(0).records.get(RecordKind.GPU_WAIT, [])


def test_no_clock_without_cuda(ring: RingWriter) -> None:
    assert device_clock(ring) is None


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


@needs_accelerator
def test_another_accelerator_is_timed_by_torch_s_own_events(
    ring: RingWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpu, xpu = Gpu(), Xpu()
    asked: list[tuple[str, bool]] = []

    def event(kind: str, *, enable_timing: bool) -> GpuEvent:
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


@needs_accelerator
def test_an_accelerator_of_which_nobody_can_tell_whether_it_is_used_has_no_clock(
    ring: RingWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: torch.device("mps"))
    assert device_clock(ring) is None
