"""Each column and each rank's GPU, by the real pynvml calls against the stand-in's script."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import psutil
import pytest

from loaderwatch.demo.stand_in import SimulatedGpu, SimulatedProcess, SimulatedSlice
from tests.fakes.gpu_sampling import COLUMNS, Sampling

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")

ME = os.getpid()  # processes of a list must exist; which one trains is for the test to say
ANOTHER = os.getppid()
STRANGER = 1
GIB = 2**30


def test_every_column_says_what_the_driver_says(tmp_path: Path) -> None:
    gpu = SimulatedGpu(
        "GPU-0",
        util_percent=70,
        processes=[SimulatedProcess(ME, 9 * GIB, 63), SimulatedProcess(STRANGER, GIB, 5)],
        memory_used=11 * GIB,
        memory_total=80 * GIB,
        throttle=(0x40, 1200),
    )
    with Sampling(tmp_path, [gpu], {3: (ME, None)}) as it:
        it.until(lambda: any(row["process_sm_ratio"] is not None for row in it.of(0, 3)))
    row = it.of(0, 3)[-1]
    expected = {
        "rank": 3,
        "gpu": 0,
        "t_ns": row["t_ns"],
        "utilization_ratio": 0.7,
        "memory_utilization_ratio": 0.31,  # 45 % at full load
        "memory_used_bytes": 11.0 * GIB,
        "memory_total_bytes": 80.0 * GIB,
        "power_w": pytest.approx(62 + (350 - 62) * 0.9 * 0.7, abs=0.01),
        "power_limit_w": 350.0,
        "sm_clock_hz": 1200e6,
        "memory_clock_hz": 2619e6,
        "pcie_rx_bytes_per_s": pytest.approx(0.7 * 1_500_000 * 1024, abs=1024),
        "pcie_tx_bytes_per_s": pytest.approx(0.7 * 120_000 * 1024, abs=1024),
        "temperature_c": 75.0,  # 34 idle, 58 more under a throttled full load
        "throttle_reasons": 0x40,
        "other_pids": 1,
        "process_memory_bytes": 9.0 * GIB,
        "process_sm_ratio": 0.63,
    }
    assert list(expected) == COLUMNS
    assert row == expected


def test_a_rank_s_gpu_is_the_one_it_names(tmp_path: Path) -> None:
    """CUDA spells the UUID in its own way, and NVML lists no processes here: a container hides them."""
    gpus = [SimulatedGpu("GPU-aaaa-0", util_percent=10), SimulatedGpu("GPU-bbbb-1", util_percent=20)]
    with Sampling(tmp_path, gpus, {5: (ME, "BBBB-1")}) as it:
        it.until(lambda: it.of(1, 5) and it.of(0, None))
    assert {info["gpu"]: info["rank"] for info in it.infos} == {0: None, 1: 5}
    assert {(row["rank"], row["gpu"], row["utilization_ratio"]) for row in it.rows} == {
        (None, 0, 0.1),
        (5, 1, 0.2),
    }
    assert it.of(1, 5)[0]["other_pids"] is None, "nobody said who runs there"


def test_where_nvml_sees_the_process_outweighs_what_it_named(tmp_path: Path) -> None:
    """With ``.to(rank)`` and no ``set_device``, every rank's current device is GPU 0."""
    gpus = [SimulatedGpu("GPU-a", pids=[ME]), SimulatedGpu("GPU-b", pids=[ANOTHER])]
    with Sampling(tmp_path, gpus, {0: (ME, "GPU-a"), 1: (ANOTHER, "GPU-a")}) as it:
        it.until(lambda: it.of(0, 0) and it.of(1, 1))
    assert {(row["rank"], row["gpu"]) for row in it.rows} == {(0, 0), (1, 1)}


def test_ranks_that_share_a_gpu_have_a_row_each(tmp_path: Path) -> None:
    """The GPU's values are the same, those of the process its own; and neither is a stranger to the other."""
    shared = SimulatedGpu(
        "GPU-a",
        util_percent=90,
        processes=[SimulatedProcess(ME, 3 * GIB, 50), SimulatedProcess(ANOTHER, None, 0)],
    )
    follow = {0: (ME, "GPU-a"), 1: (ANOTHER, "GPU-a")}
    with Sampling(tmp_path, [shared, SimulatedGpu("GPU-b")], follow) as it:
        it.until(lambda: any(row["process_sm_ratio"] is not None for row in it.of(0, 0)))
        it.until(lambda: len(it.of(0, 1)) == len(it.of(0, 0)))
    assert [(info["gpu"], info["uuid"], info["rank"]) for info in it.infos] == [
        (0, "GPU-a", 0),
        (1, "GPU-b", None),
        (0, "GPU-a", 1),
    ]
    first, second = it.of(0, 0), it.of(0, 1)
    assert [row["t_ns"] for row in first] == [row["t_ns"] for row in second]
    assert {row["utilization_ratio"] for row in first + second} == {0.9}
    assert {row["other_pids"] for row in first + second} == {0}
    assert (first[-1]["process_memory_bytes"], first[-1]["process_sm_ratio"]) == (3.0 * GIB, 0.5)
    assert {(row["process_memory_bytes"], row["process_sm_ratio"]) for row in second} == {(None, None)}


def test_a_slice_of_a_gpu_has_memory_and_no_utilization(tmp_path: Path) -> None:
    """Utilization is asked for once per device (three), not ten times a second. A GPU lists its slices'
    processes, too."""
    cut = SimulatedGpu(
        "GPU-a",
        util_percent=80,
        memory_used=20 * GIB,
        migs=[SimulatedSlice("MIG-1", [STRANGER]), SimulatedSlice("MIG-2", [ME, STRANGER])],
    )
    with Sampling(tmp_path, [cut], {0: (ME, None)}) as it:
        it.until(lambda: len(it.of(2, 0)) >= 25)
    assert [(info["uuid"], info["rank"]) for info in it.infos] == [
        ("GPU-a", None),
        ("MIG-1", None),
        ("MIG-2", 0),
    ]
    assert {row["utilization_ratio"] for row in it.rows} == {None}
    row = it.of(2, 0)[-1]
    assert (row["memory_used_bytes"], row["memory_total_bytes"]) == (10.0 * GIB, 40.0 * GIB)
    assert (row["process_memory_bytes"], row["process_sm_ratio"], row["other_pids"]) == (5.0 * GIB, None, 1)
    assert row["power_w"] > 62, "of the whole GPU"
    assert it.calls == {"nvmlDeviceGetUtilizationRates": 3, "nvmlDeviceGetProcessUtilization": 3}


@pytest.mark.parametrize("uuid", ["GPU-a", "MIG-1"])
def test_a_slice_is_known_by_either_name(tmp_path: Path, uuid: str) -> None:
    """Some versions of CUDA give the GPU's UUID for its slice."""
    with Sampling(tmp_path, [SimulatedGpu("GPU-a", migs=[SimulatedSlice("MIG-1")])], {0: (ME, uuid)}) as it:
        it.until(lambda: any(row["rank"] == 0 for row in it.rows))
    assert {row["gpu"] for row in it.rows if row["rank"] == 0} == {1}


def test_a_driver_that_does_not_tell_of_processes(tmp_path: Path) -> None:
    """It leaves gaps in those columns alone, and is asked for them once."""
    old = SimulatedGpu(
        "GPU-a",
        util_percent=50,
        pids=[ME],
        errors=[
            ("nvmlDeviceGetProcessUtilization", "NVML_ERROR_NOT_SUPPORTED"),
            ("nvmlDeviceGetComputeRunningProcesses", "NVML_ERROR_NOT_SUPPORTED"),
        ],
    )
    with Sampling(tmp_path, [old], {0: (ME, "GPU-a")}) as it:
        it.until(lambda: len(it.of(0, 0)) >= 25)
    assert {row["utilization_ratio"] for row in it.rows} == {0.5}
    assert {(r["other_pids"], r["process_memory_bytes"], r["process_sm_ratio"]) for r in it.rows} == {
        (None, None, None)
    }
    assert it.calls["nvmlDeviceGetProcessUtilization"] == 1


def test_a_process_that_stops_computing_has_no_utilization(tmp_path: Path) -> None:
    """Its last sample does not stay forever."""
    busy = SimulatedGpu("GPU-a", processes=[SimulatedProcess(ME, GIB, 40)])
    with Sampling(tmp_path, [busy], {0: (ME, None)}) as it:
        it.until(lambda: it.rows and it.rows[-1]["process_sm_ratio"] == 0.4)
        it.play([SimulatedGpu("GPU-a", processes=[SimulatedProcess(ME, GIB, 0)])])
        it.until(lambda: it.rows[-1]["process_sm_ratio"] is None)
        assert it.rows[-1]["process_memory_bytes"] == GIB


def test_every_gpu_of_the_host_is_told_of_with_whoever_is_on_it(tmp_path: Path) -> None:
    """Those that no rank uses, too: which is free, and who holds the others."""
    gpus = [
        SimulatedGpu(
            "GPU-a",
            util_percent=80,
            processes=[SimulatedProcess(STRANGER, GIB, 20), SimulatedProcess(ME, 3 * GIB, 60)],
        ),
        SimulatedGpu(
            "GPU-b",
            util_percent=30,
            memory_used=5 * GIB,
            processes=[SimulatedProcess(ANOTHER, 4 * GIB, 30)],
        ),
        SimulatedGpu("GPU-c", memory_used=0),
    ]
    with Sampling(tmp_path, gpus, {7: (ME, None)}) as it:
        it.until(lambda: it.states and it.states[0]["utilization_ratio"] is not None)
    first, second, third = it.states
    assert [state["gpu"] for state in it.states] == [0, 1, 2]
    assert [state["utilization_ratio"] for state in it.states] == [
        pytest.approx(0.8),
        pytest.approx(0.3),
        0.0,
    ]
    mine, stranger = first["processes"]  # most memory first
    assert (mine["pid"], mine["rank"], mine["memory_bytes"]) == (ME, 7, 3 * GIB)
    assert (stranger["pid"], stranger["rank"], stranger["memory_bytes"]) == (STRANGER, None, GIB)
    for process in (mine, stranger):
        known = psutil.Process(process["pid"])
        assert (process["name"], process["user"]) == (known.name(), known.username())
    assert (second["memory_used_bytes"], second["memory_total_bytes"]) == (5.0 * GIB, 80.0 * GIB)
    assert (second["processes"][0]["pid"], second["processes"][0]["rank"]) == (ANOTHER, None)
    assert third["processes"] == []


def test_pids_of_another_namespace_have_no_names(tmp_path: Path) -> None:
    """In a container NVML lists the host's, and a process of ours may have the same number."""
    gone = subprocess.Popen(["true"])
    gone.wait()
    gpu = SimulatedGpu("GPU-a", processes=[SimulatedProcess(ME, GIB, 0), SimulatedProcess(gone.pid, GIB, 0)])
    with Sampling(tmp_path, [gpu], {0: (ANOTHER, "GPU-a")}) as it:
        it.until(lambda: it.states)
    assert [(process["name"], process["user"]) for process in it.states[0]["processes"]] == [(None, None)] * 2
