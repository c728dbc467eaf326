"""The real pynvml against the compiled stand-in, in real streamers."""

from __future__ import annotations

import math
import shutil
from array import array
from pathlib import Path

import pytest

from loaderwatch.core.records import UNKNOWN
from loaderwatch.demo.stand_in import SimulatedGpu, build, environment, write_script
from tests.fakes.receiver import Receiver
from tests.fakes.streaming import Streaming
from tests.waiting import PATIENCE_S

pytestmark = [
    pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs Linux's /proc"),
    pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler"),
]


def floats(receiver: Receiver, column: str, gpu: int = 0) -> list[float]:
    """A column of one GPU."""
    values = []
    for envelope in receiver.in_order():
        table = envelope.tables.get("gpus")
        if table:
            gpus = array("q", table["gpu"])
            values += [v for v, g in zip(array("d", table[column]), gpus, strict=True) if g == gpu]
    return values


def test_ten_samples_a_second_and_the_rank_by_its_pid(data_dir: Path, tmp_path: Path) -> None:
    """Every column; an error in one call leaves a gap in one column; a lost GPU leaves the others."""
    library, script = build(tmp_path / "lib"), tmp_path / "script"
    with Receiver() as receiver, Streaming(data_dir, receiver.url, **environment(library, script)) as it:
        write_script(script, [])
        trainee = it.write(period_s=0.02)
        gpus = [
            SimulatedGpu("GPU-other", util_percent=3),
            SimulatedGpu(
                "GPU-mine",
                util_percent=70,
                pids=[trainee.pid, 1],
                errors=[("nvmlDeviceGetTemperature", "NVML_ERROR_NOT_SUPPORTED")],
            ),
        ]
        write_script(script, gpus)
        it.stream()
        receiver.wait_for(lambda: len(floats(receiver, "utilization_ratio", 1)) >= 40)
        infos = receiver.in_order()[-1].gpus
        assert [(g.gpu, g.uuid, g.rank, g.simulated) for g in infos] == [
            (0, "GPU-other", None, True),
            (1, "GPU-mine", 0, True),
        ]
        assert set(floats(receiver, "utilization_ratio", 1)) == {0.7}
        assert floats(receiver, "memory_total_bytes", 1)[-1] == 80 * 2**30
        assert floats(receiver, "power_w", 1)[-1] == pytest.approx(62 + (350 - 62) * 0.9 * 0.7, abs=0.01)
        assert floats(receiver, "sm_clock_hz", 1)[-1] == 1980e6
        assert floats(receiver, "pcie_rx_bytes_per_s", 1)[-1] > 0
        assert all(math.isnan(value) for value in floats(receiver, "temperature_c", 1))
        others = dict(zip(receiver.column("gpus", "gpu"), receiver.column("gpus", "other_pids"), strict=True))
        assert others == {0: UNKNOWN, 1: 1}, (
            "the other GPU runs nothing of this run: who else does is not our business"
        )
        stamps = [
            t
            for t, gpu in zip(receiver.column("gpus", "t_ns"), receiver.column("gpus", "gpu"), strict=True)
            if gpu == 1
        ]
        seconds = receiver.column("hosts", "t_ns")  # once a second, and as late as the machine is slow
        within = [t for t in stamps if seconds[0] <= t < seconds[-1]]
        assert 4 < len(within) / (len(seconds) - 1) < 20
        # GPU 1 falls off the bus; later it comes back.
        write_script(script, [gpus[0], SimulatedGpu("GPU-mine", errors=[("*", "NVML_ERROR_GPU_IS_LOST")])])
        for _ in range(2):  # earlier samples have arrived together with later ones
            count = len(floats(receiver, "utilization_ratio", 1))
            other = len(floats(receiver, "utilization_ratio", 0))
            receiver.wait_for(
                lambda: len(floats(receiver, "utilization_ratio", 0)) >= other + 12  # noqa: B023
            )
        assert len(floats(receiver, "utilization_ratio", 1)) == count
        write_script(script, gpus)
        receiver.wait_for(lambda: len(floats(receiver, "utilization_ratio", 1)) > count + 10)


def test_no_driver_is_said_in_plain_words(data_dir: Path, tmp_path: Path) -> None:
    """The library is there, its driver is not."""
    library, script = build(tmp_path / "lib"), tmp_path / "script"
    write_script(script, [], errors=[("nvmlInit", "NVML_ERROR_DRIVER_NOT_LOADED")])
    with Receiver() as receiver, Streaming(data_dir, receiver.url, **environment(library, script)) as it:
        it.write(period_s=0.02)
        it.stream()
        receiver.wait_for(lambda: receiver.envelopes and receiver.in_order()[-1].host.gpu_status)
        status = receiver.in_order()[-1].host.gpu_status
        assert status.startswith("the NVIDIA driver does not work")
        assert "waits are measured in the training loop" in status


def test_a_driver_that_hangs_does_not_stop_the_records(data_dir: Path, tmp_path: Path) -> None:
    """NVML sits in a call for a minute; steps arrive all the same."""
    library, script = build(tmp_path / "lib"), tmp_path / "script"
    stuck = SimulatedGpu("GPU-a", slow_ms=[("nvmlDeviceGetUtilizationRates", 60_000)])
    write_script(script, [stuck])
    with Receiver() as receiver, Streaming(data_dir, receiver.url, **environment(library, script)) as it:
        trainee = it.write(steps=200, period_s=0.01, finish=True)
        streamer = it.stream()
        assert trainee.wait(PATIENCE_S) == 0
        assert streamer.wait(PATIENCE_S) == 0
        assert receiver.column("steps", "batch") == list(range(200))
