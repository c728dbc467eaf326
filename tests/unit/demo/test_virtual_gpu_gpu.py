"""The demo's simulated GPUs, and the notice where they cannot be made."""

from __future__ import annotations

import os
import struct
import time
from pathlib import Path
from typing import Any

import pytest

from loaderwatch.core.environment_variables import DEMO_GPUS
from loaderwatch.demo import virtual_gpu
from loaderwatch.texts import say
from tests.waiting import PATIENCE_S


def test_without_a_compiler_the_ranks_go_on_and_gpu_charts_are_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    simulation = virtual_gpu.prepare(tmp_path / "gpus", 2)
    assert say(simulation.notice).startswith("GPU charts are off: ")
    assert "no C compiler" in say(simulation.notice)
    # No library replaces NVML, and no GPU is listed; a rank can still report that it computes.
    assert dict(simulation.environ) == {DEMO_GPUS.name: str(tmp_path / "gpus")}
    assert list((tmp_path / "gpus").iterdir()) == []
    monkeypatch.setenv(DEMO_GPUS.name, simulation.environ[DEMO_GPUS.name])
    busy = virtual_gpu.busy_file(1)
    assert busy is not None
    with busy:
        assert virtual_gpu.registered_pids(tmp_path / "gpus") == [os.getpid()]


def test_a_rank_s_gpu_is_the_one_that_nvml_shows_and_as_busy_as_what_was_launched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(DEMO_GPUS.name, str(tmp_path))
    device = virtual_gpu.virtual_gpu(1)
    installed: dict[str, Any] = {}
    device.install(installed.__setitem__)
    assert installed["get_device_properties"](0).uuid == "5eed0000-0000-0000-0000-000000000001"
    assert virtual_gpu.registered_pids(tmp_path) == [os.getpid()]
    device.launch(0.05)
    device.synchronize()
    deadline = time.monotonic() + PATIENCE_S
    while told_s(tmp_path) < 0.049 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert told_s(tmp_path) == pytest.approx(0.05, abs=0.001)


def told_s(folder: Path) -> float:
    """For how long the stand-in for NVIDIA's library takes the GPU to have been busy."""
    return float(struct.unpack("=q", (folder / "rank1").read_bytes()[:8])[0]) / 1e9


def test_outside_of_the_demo_nothing_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(DEMO_GPUS.name, raising=False)
    assert virtual_gpu.busy_file(0) is None
    device = virtual_gpu.virtual_gpu(0)
    device.launch(0.01)
    assert device.free_at() > 0
