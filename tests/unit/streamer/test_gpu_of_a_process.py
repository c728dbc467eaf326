"""Which GPU a process computes on: what it named, against what NVML lists."""

from __future__ import annotations

import os

import pytest

from loaderwatch.streamer.samplers.gpu import find_device
from loaderwatch.streamer.samplers.nvml import Device

ME = os.getpid()
NOBODY = 2**22 + 1  # above any pid
GIB = 2.0**30


def host(*pids: dict[int, float | None]) -> list[Device]:
    """GPU-0, GPU-1, … with the processes that NVML lists on each."""
    devices = [Device(None, None, f"GPU-{index}") for index in range(len(pids))]
    for device, running in zip(devices, pids, strict=True):
        device.pids = running
    return devices


@pytest.mark.parametrize(
    ("running", "named", "found"),
    [
        pytest.param([{}, {}], "GPU-1", 1, id="named"),
        pytest.param([{}, {}], "gpu-1", 1, id="spelled otherwise"),
        pytest.param([{}, {}], None, None, id="unknown"),
        pytest.param([{}, {}], "GPU-7", None, id="named one that is not shown"),
        pytest.param([{}, {ME: None}], None, 1, id="listed"),
        pytest.param([{}, {ME: None}], "GPU-7", 1, id="listed, and named one that is not shown"),
        pytest.param([{}, {ME: None}], "GPU-0", 1, id="listed elsewhere"),
        pytest.param([{ME: None}, {ME: None}], "GPU-1", 1, id="listed there, too"),
        pytest.param([{ME: 1.0}, {ME: GIB}], "GPU-0", 0, id="named outweighs memory"),
        pytest.param([{ME: 1.0}, {ME: GIB}, {}], "GPU-2", 1, id="listed on two others: most memory"),
        pytest.param([{ME: 1.0}, {ME: GIB}], None, 1, id="a context on GPU 0, the model on GPU 1"),
        pytest.param([{ME: None}, {ME: GIB}], None, None, id="memory is not told"),
        pytest.param([{}, {ME: 1.0, NOBODY: 1.0}], "GPU-0", 0, id="pids of another namespace"),
        pytest.param([{}, {ME: 1.0, NOBODY: 1.0}], None, None, id="pids of another namespace, none named"),
        pytest.param([{}, {ME: 1.0, 1: 1.0}], "GPU-0", 1, id="beside a process of another user"),
    ],
)
def test_gpu_of_a_process(
    running: list[dict[int, float | None]], named: str | None, found: int | None
) -> None:
    assert find_device(host(*running), ME, named) == found


def test_a_gpu_in_slices_is_never_itself_the_one() -> None:
    """It lists the processes of its slices; of two, its name says nothing."""
    whole, first, second = devices = host({ME: 1.0}, {}, {ME: 1.0})
    whole.slices = [first, second]
    assert find_device(devices, ME, None) == 2
    assert find_device(devices, ME, "GPU-0") == 2
    second.pids = {}
    assert find_device(devices, ME, "GPU-0") is None
    whole.slices = [first]
    assert find_device(devices, ME, "GPU-0") == 1
