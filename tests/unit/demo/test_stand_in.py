"""The stand-in library itself: its script, its busy file, and what it says without a compiler."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from loaderwatch.demo.stand_in import (
    BusyFile,
    NoCompiler,
    SimulatedGpu,
    SimulatedSlice,
    build,
    environment,
    write_script,
)
from tests.waiting import PATIENCE_S, Stopwatch

needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")

READ = """
import sys, time
import pynvml
pynvml.nvmlInit()
handle = pynvml.nvmlDeviceGetHandleByIndex(0)
for _ in range(12):
    print(pynvml.nvmlDeviceGetUtilizationRates(handle).gpu, time.monotonic_ns(), flush=True)
    time.sleep(0.1)
print([p.pid for p in pynvml.nvmlDeviceGetComputeRunningProcesses(handle)])
"""


@needs_compiler
def test_utilization_is_the_true_busy_share(tmp_path: Path) -> None:
    """About half the time busy reads as about half; the process that marks is the one that runs."""
    library, script = build(tmp_path / "lib"), tmp_path / "script"
    busy = BusyFile(tmp_path / "busy")
    write_script(script, [SimulatedGpu("GPU-0", busy=busy.path)])
    reader = subprocess.Popen(
        [sys.executable, "-c", READ],
        env={**os.environ, **environment(library, script)},
        stdout=subprocess.PIPE,
        text=True,
    )
    spans = []
    while reader.poll() is None:
        since = time.monotonic_ns()
        with busy:
            time.sleep(0.02)
        spans.append((since, time.monotonic_ns()))
        time.sleep(0.02)
    out, _ = reader.communicate()
    *lines, pids = out.splitlines()
    readings = [tuple(map(int, line.split())) for line in lines]
    longest_ns = max(later[1] - earlier[1] for earlier, later in pairwise(readings))
    for value, at_ns in readings[-5:]:  # the share of half a second, or of what lies between two readings
        windows = np.linspace(0.4e9, 0.5e9 + 2 * longest_ns, 50)
        shares = [100 * overlap_ns(spans, at_ns - window, at_ns) / window for window in windows]
        assert min(shares) - 10 <= value <= max(shares) + 10
    assert pids == f"[{os.getpid()}]"


def overlap_ns(spans: list[tuple[int, int]], start: float, end: float) -> float:
    """How much of the time from ``start`` to ``end`` lies in one of the spans."""
    return sum(max(0.0, min(end, until) - max(start, since)) for since, until in spans)


@needs_compiler
def test_every_error_comes_through_pynvml(tmp_path: Path) -> None:
    """The codes are NVML's own."""
    library, script = build(tmp_path / "lib"), tmp_path / "script"
    errors = [
        ("nvmlDeviceGetPowerUsage", "NVML_ERROR_NOT_SUPPORTED"),
        ("nvmlDeviceGetName", "NVML_ERROR_GPU_IS_LOST"),
    ]
    write_script(script, [SimulatedGpu("GPU-0", errors=errors, migs=[SimulatedSlice("MIG-1")])])
    code = """
import pynvml
pynvml.nvmlInit()
h = pynvml.nvmlDeviceGetHandleByIndex(0)
for call in (pynvml.nvmlDeviceGetPowerUsage, pynvml.nvmlDeviceGetName):
    try:
        call(h)
    except pynvml.NVMLError as error:
        print(error.value, error)
print(pynvml.nvmlDeviceGetUUID(pynvml.nvmlDeviceGetMigDeviceHandleByIndex(h, 0)))
try:
    pynvml.nvmlDeviceGetHandleByIndex(5)
except pynvml.NVMLError as error:
    print(error.value)
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **environment(library, script)},
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE_S,
    )
    assert done.stdout.splitlines() == ["3 Not Supported", "15 GPU is lost", "MIG-1", "2"]


def test_a_throttled_gpu_says_why_and_clocks_lower(tmp_path: Path) -> None:
    library, script = build(tmp_path / "lib"), tmp_path / "script"
    write_script(
        script,
        [
            SimulatedGpu("GPU-0", util_percent=90, throttle=(0x40, 1200)),
            SimulatedGpu("GPU-1", util_percent=90),
        ],
    )
    code = """
import pynvml
pynvml.nvmlInit()
for number in range(2):
    h = pynvml.nvmlDeviceGetHandleByIndex(number)
    clock = pynvml.nvmlDeviceGetClockInfo(h, pynvml.NVML_CLOCK_SM)
    print(pynvml.nvmlDeviceGetCurrentClocksEventReasons(h), clock)
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **environment(library, script)},
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE_S,
    )
    assert done.stdout.splitlines() == ["64 1200", "0 1980"]


def test_no_compiler_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And what to do about it."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NoCompiler, match="no C compiler"):
        build(tmp_path / "lib")
    fake = tmp_path / "cc"
    fake.write_text("#!/bin/sh\necho broken >&2\nexit 1\n")
    fake.chmod(0o700)
    with pytest.raises(NoCompiler, match="broken"):
        build(tmp_path / "lib")


def test_begin_and_end_add_up(tmp_path: Path) -> None:
    """An end without a begin counts nothing."""
    busy = BusyFile(tmp_path / "busy")
    busy.end()
    around = Stopwatch()
    with around():
        busy.begin()
        time.sleep(0.01)
        busy.end()
    busy.end()
    total, since, pid = memoryview((tmp_path / "busy").read_bytes()).cast("q")
    assert 10_000_000 <= total <= around.total_ns
    assert since == 0
    assert pid == os.getpid()
