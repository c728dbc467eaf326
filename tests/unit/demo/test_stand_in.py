"""The stand-in library itself: its script, its busy file, and what it says without a compiler."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

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

needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")

READ = """
import sys, time
import pynvml
pynvml.nvmlInit()
handle = pynvml.nvmlDeviceGetHandleByIndex(0)
for _ in range(12):
    print(pynvml.nvmlDeviceGetUtilizationRates(handle).gpu, flush=True)
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
    busy_ns = began = time.monotonic_ns()
    busy_ns = 0
    while reader.poll() is None:
        since = time.monotonic_ns()
        with busy:
            time.sleep(0.02)
        busy_ns += time.monotonic_ns() - since
        time.sleep(0.02)
    share = 100 * busy_ns / (time.monotonic_ns() - began)
    out, _ = reader.communicate()
    *values, pids = out.splitlines()
    late = [int(value) for value in values[-5:]]
    assert sum(late) / len(late) == pytest.approx(share, abs=20)
    assert pids == f"[{os.getpid()}]"


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
        timeout=60,
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
    print(pynvml.nvmlDeviceGetCurrentClocksEventReasons(h), pynvml.nvmlDeviceGetClockInfo(h, pynvml.NVML_CLOCK_SM))
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **environment(library, script)},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
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
    busy.begin()
    time.sleep(0.01)
    busy.end()
    busy.end()
    total, since, pid = memoryview((tmp_path / "busy").read_bytes()).cast("q")
    assert 10_000_000 <= total < 10**9
    assert since == 0
    assert pid == os.getpid()
