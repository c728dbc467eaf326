"""The demo's simulated GPUs, and what is told where they cannot be made."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from loaderwatch.demo import gpu


def test_without_a_compiler_the_ranks_go_on_and_gpu_charts_are_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    simulation = gpu.prepare(tmp_path / "gpus", 2)
    assert simulation.notice.startswith("GPU charts are off: ")
    assert "no C compiler" in simulation.notice
    # No library takes NVML's place, and nothing is listed as a GPU; a rank still has somewhere to say that it computes.
    assert dict(simulation.environ) == {gpu.FOLDER_VARIABLE: str(tmp_path / "gpus")}
    assert list((tmp_path / "gpus").iterdir()) == []
    monkeypatch.setenv(gpu.FOLDER_VARIABLE, simulation.environ[gpu.FOLDER_VARIABLE])
    busy = gpu.busy_file(1)
    assert busy is not None
    with busy:
        assert gpu.registered_pids(tmp_path / "gpus") == [os.getpid()]
