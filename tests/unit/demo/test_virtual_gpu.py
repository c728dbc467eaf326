"""The virtual GPU: work takes its time one piece after the other, and what it was idle for is known."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from loaderwatch.demo.stand_in import BusyFile
from loaderwatch.demo.virtual_gpu import SHOWN_EVERY_S, VirtualGpu, VirtualStream


def test_it_goes_on_while_the_loop_does_something_else() -> None:
    gpu = VirtualGpu()
    began = time.monotonic()
    gpu.launch(0.1)
    gpu.launch(0.1)
    assert gpu.free_at() - began >= 0.2  # and launching has not waited for it
    gpu.synchronize()
    assert time.monotonic() - began >= 0.2
    assert sum(end - begin for begin, end in gpu.busy) == pytest.approx(0.2)
    time.sleep(0.05)
    ended = time.monotonic()
    assert gpu.idle_s(began, ended) == pytest.approx(ended - began - 0.2)
    assert gpu.synchronized == 1


def test_a_full_launch_queue_makes_the_loop_wait() -> None:
    gpu = VirtualGpu(launches=2)
    began = time.monotonic()
    for _ in range(4):
        gpu.launch(0.05)
    assert time.monotonic() - began >= 0.1  # until two of them were through


def test_events_complete_when_the_device_has_reached_them() -> None:
    gpu = VirtualGpu()
    before, after = gpu.event(enable_timing=True), gpu.event(enable_timing=True)
    before.record()
    gpu.launch(1.0)
    after.record()
    assert before.query()
    assert not after.query()
    after.synchronize()
    assert after.query()
    assert before.elapsed_time(after) > 999


def test_nvml_is_shown_what_it_has_computed(tmp_path: Path) -> None:
    gpu, busy = VirtualGpu(), BusyFile(tmp_path / "busy")
    gpu.show(busy)
    gpu.launch(0.05)
    gpu.synchronize()
    deadline = time.monotonic() + 20
    while abs(busy._busy_ns.value - 50_000_000) > 1_000 and time.monotonic() < deadline:
        time.sleep(SHOWN_EVERY_S)
    assert busy._busy_ns.value == pytest.approx(50_000_000, abs=1_000)


def test_an_event_knows_only_its_own_stream() -> None:
    gpu = VirtualGpu()
    other = VirtualStream(gpu)
    with gpu.on_stream(other):
        gpu.launch(1.0)
        there = gpu.event(enable_timing=True)
        there.record()
    here = gpu.event(enable_timing=True)
    here.record()
    assert here.query()  # though the device is busy
    assert not there.query()
    gpu.current_stream().wait_stream(other)
    here.record()
    assert not here.query()
    gpu.synchronize()
    assert here.query()
    assert there.query()


def test_streams_share_one_device() -> None:
    gpu = VirtualGpu()
    other = VirtualStream(gpu)
    gpu.launch(1.0)
    with gpu.on_stream(other):
        gpu.launch(0.05)
    assert len(gpu.busy) == 1
    assert sum(end - begin for begin, end in gpu.busy) == pytest.approx(1.05)
    assert not other.query()  # the first is in its way
    other.synchronize()
    assert other.query()
