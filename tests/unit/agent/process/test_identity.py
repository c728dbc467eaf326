"""Ranks and run ids from launchers' environments."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from loaderwatch.agent.process.identity import (
    Ranks,
    find_gpu_uuid,
    find_ranks,
    find_run,
    shared_facts,
    slugged,
    start_time,
    thread_limits,
)
from loaderwatch.core.errors import ConfigError
from loaderwatch.core.wire import RUN_ID_PATTERN
from tests.fakes.cuda import FakeCuda
from tests.waiting import PATIENCE_S

TORCHRUN = {
    "RANK": "3",
    "LOCAL_RANK": "1",
    "WORLD_SIZE": "4",
    "LOCAL_WORLD_SIZE": "2",
    "MASTER_ADDR": "node0",
    "MASTER_PORT": "29500",
    "TORCHELASTIC_RUN_ID": "job",
    "TORCHELASTIC_RESTART_COUNT": "0",
}
LIGHTNING = {"LOCAL_RANK": "1", "NODE_RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1"}
SLURM = {"SLURM_JOB_ID": "77", "SLURM_PROCID": "5", "SLURM_LOCALID": "1", "SLURM_NTASKS": "8"}


@pytest.mark.parametrize(
    ("env", "ranks"),
    [
        ({}, Ranks(0, 0, 1)),
        (TORCHRUN, Ranks(3, 1, 4)),
        ({"RANK": "2", "WORLD_SIZE": "4"}, Ranks(2, 2, 4)),
        ({"RANK": "x", "WORLD_SIZE": "4"}, Ranks(0, 0, 1)),
        (SLURM, Ranks(0, 0, 1)),  # a batch script, not an srun step
        ({**SLURM, "SLURM_STEP_ID": "0"}, Ranks(5, 1, 8)),
        ({**SLURM, "SLURM_STEP_ID": "0", **TORCHRUN}, Ranks(3, 1, 4)),
        (LIGHTNING, Ranks(1, 1, 2)),
        ({**LIGHTNING, "NODE_RANK": "1"}, Ranks(0, 0, 1)),  # until torch.distributed says it
    ],
)
def test_ranks(env: dict[str, str], ranks: Ranks) -> None:
    assert find_ranks(env) == ranks


def test_ranks_of_one_job_share_what_makes_the_run_id() -> None:
    other = {**TORCHRUN, "RANK": "0", "LOCAL_RANK": "0"}
    assert find_run(None, TORCHRUN) == find_run(None, other)
    step = {**SLURM, "SLURM_STEP_ID": "0"}
    assert find_run(None, step) == find_run(None, {**step, "SLURM_PROCID": "6"})


@pytest.mark.parametrize(
    "changed",
    [
        {"TORCHELASTIC_RUN_ID": "other"},
        {"MASTER_PORT": "29501"},
        {"TORCHELASTIC_RESTART_COUNT": "1"},
        {"SLURM_JOB_ID": "78"},
    ],
)
def test_another_run_has_another_id(changed: dict[str, str]) -> None:
    assert find_run(None, TORCHRUN) != find_run(None, {**TORCHRUN, **changed})


def test_on_one_node_the_launcher_tells_runs_apart() -> None:
    single = {**TORCHRUN, "LOCAL_WORLD_SIZE": "4"}
    assert str(os.getppid()) in shared_facts(single)
    assert str(os.getppid()) not in shared_facts(TORCHRUN)


SAY_RUN = "from loaderwatch.agent.process.identity import find_run; print(find_run(None).run_id)"
SAY_BOTH = f"""
import os, subprocess, sys
{SAY_RUN}
os.environ.update({LIGHTNING!r}, LOCAL_RANK="0")
print(find_run(None).run_id)
subprocess.run([sys.executable, "-c", {SAY_RUN!r}], env={{**os.environ, "LOCAL_RANK": "1"}}, check=True)
"""


def runs_of_a_script(**env: str) -> list[str]:
    """The run ids of a first rank, before and after it sets the others' address, and of a started rank."""
    plain = {name: value for name, value in os.environ.items() if name not in LIGHTNING and name != "RANK"}
    command = [sys.executable, "-c", SAY_BOTH]
    return subprocess.run(
        command, env={**plain, **env}, check=True, text=True, capture_output=True, timeout=PATIENCE_S
    ).stdout.split()


def test_ranks_that_the_first_one_starts_later_belong_to_its_run() -> None:
    """As Lightning does it."""
    once, again = runs_of_a_script(), runs_of_a_script()
    assert [len(once), len({*once}), len({*again})] == [3, 1, 1]
    assert once != again


def test_nodes_that_are_started_by_hand_meet_at_an_address() -> None:
    here, there, elsewhere = (
        runs_of_a_script(NODE_RANK=node, MASTER_ADDR="node0", MASTER_PORT=port, WORLD_SIZE="4")
        for node, port in (("0", "1234"), ("1", "1234"), ("0", "1235"))
    )
    assert {*here} == {*there} != {*elsewhere}
    assert len({*here, *there, *elsewhere}) == 2


def test_a_cluster_that_names_a_meeting_point_for_one_process() -> None:
    """Scripts that run there one after the other are runs of their own."""
    once, again = (
        runs_of_a_script(NODE_RANK="0", MASTER_ADDR="node0", MASTER_PORT="1234", **more)
        for more in ({}, {"WORLD_SIZE": "1"})
    )
    assert [len({*once}), len({*again})] == [1, 1]
    assert once != again


def test_named_run() -> None:
    assert find_run("ResNet 50 / lr=3", {}).run_id == "resnet-50-lr-3"
    assert find_run("ResNet 50 / lr=3", {}).name == "ResNet 50 / lr=3"
    with pytest.raises(ConfigError, match=re.escape("run is '///'")):
        find_run("///", {})


@pytest.mark.parametrize("name", ["", "-", "Über train.py", "x" * 200, "_a_", "a b", "ÄÖ"])
def test_slug_is_a_run_id_or_nothing(name: str) -> None:
    slug = slugged(name)
    assert slug == "" or RUN_ID_PATTERN.match(slug)


def test_derived_id_is_a_run_id() -> None:
    assert RUN_ID_PATTERN.match(find_run(None, {}).run_id)


@pytest.mark.parametrize(
    ("visible", "local_rank", "found"),
    [
        (None, None, None),
        ("", "0", None),
        ("GPU-aa", None, "GPU-aa"),
        (" GPU-aa ", "3", "GPU-aa"),  # the launcher shows each rank its own
        ("GPU-aa,MIG-bb", "1", "MIG-bb"),
        ("GPU-aa,MIG-bb", "2", None),
        ("GPU-aa,MIG-bb", "-1", None),
        ("GPU-aa,MIG-bb", None, None),  # it may take either
        ("GPU-aa,-1,GPU-bb", "1", "GPU-aa"),  # CUDA stops reading at what it does not understand
        ("no,GPU-aa", None, None),
        ("0", None, None),
        ("0,1", "1", None),  # counted by CUDA in its own order, of what a container or cgroup leaves
    ],
)
def test_gpu_uuid_from_the_environment(
    tmp_path: Path, visible: str | None, local_rank: str | None, found: str | None
) -> None:
    """Before CUDA is in use; of a machine with two GPUs."""
    driver_files(tmp_path, "GPU-00aa", "GPU-00bb")
    env = {"CUDA_VISIBLE_DEVICES": visible, "LOCAL_RANK": local_rank}
    assert find_gpu_uuid({name: value for name, value in env.items() if value is not None}, tmp_path) == found


def test_the_only_gpu_of_a_machine_is_known_by_its_number(tmp_path: Path) -> None:
    assert find_gpu_uuid({"CUDA_VISIBLE_DEVICES": "0"}, tmp_path) is None
    driver_files(tmp_path, "GPU-00aa-11")
    assert find_gpu_uuid({"CUDA_VISIBLE_DEVICES": "0"}, tmp_path) == "GPU-00aa-11"
    assert find_gpu_uuid({"CUDA_VISIBLE_DEVICES": "0", "LOCAL_RANK": "1"}, tmp_path) == "GPU-00aa-11"
    assert find_gpu_uuid({"CUDA_VISIBLE_DEVICES": "1"}, tmp_path) is None
    assert find_gpu_uuid({}, tmp_path) is None, "nobody said that it is used"
    driver_files(tmp_path, "GPU-????????-????")
    assert find_gpu_uuid({"CUDA_VISIBLE_DEVICES": "0"}, tmp_path) is None


def driver_files(folder: Path, *uuids: str) -> None:
    """What NVIDIA's driver has under /proc."""
    for number, uuid in enumerate(uuids):
        gpu = folder / "gpus" / f"0000:{number:02x}:00.0"
        gpu.mkdir(parents=True, exist_ok=True)
        (gpu / "information").write_text(f"Model: \t\t H200\nGPU UUID: \t {uuid}\nBus Type: \t PCIe\n")


@pytest.mark.parametrize(
    ("cuda", "local_rank", "found"),
    [
        pytest.param(FakeCuda([5]), None, 0, id="the only one"),
        pytest.param(FakeCuda([0]), None, 0, id="the only one, unused"),
        pytest.param(FakeCuda([0, 0, 5], current=2), "2", 2, id="set_device"),
        pytest.param(FakeCuda([0, 0, 5]), "2", 2, id="to(rank) without set_device"),
        pytest.param(FakeCuda([1, 0, 5]), "2", 2, id="a few bytes on the current one"),
        pytest.param(FakeCuda([9, 0, 5], current=2), "2", 2, id="a checkpoint that lies on GPU 0"),
        pytest.param(FakeCuda([0, 0, 5], current=1), None, 2, id="set_device to one, used another"),
        pytest.param(FakeCuda([5, 5]), None, 0, id="a model across two"),
        pytest.param(FakeCuda([0, 0, 0], current=2), None, 2, id="set_device, nothing there yet"),
        pytest.param(FakeCuda([0, 0, 0]), "0", 0, id="the first rank, nothing there yet"),
        pytest.param(FakeCuda([0, 0, 0]), "1", None, id="nobody chose, nothing there yet"),
        pytest.param(FakeCuda([0, 0, 0]), None, None, id="one process, nothing there yet"),
    ],
)
def test_gpu_uuid_from_cuda(
    monkeypatch: pytest.MonkeyPatch, cuda: FakeCuda, local_rank: str | None, found: int | None
) -> None:
    """Once in use it knows better than the environment."""
    cuda.install(lambda name, new: monkeypatch.setattr(torch.cuda, name, new))
    env = {"CUDA_VISIBLE_DEVICES": "GPU-aa,GPU-bb,GPU-cc"}
    if local_rank is not None:
        env["LOCAL_RANK"] = local_rank
    assert find_gpu_uuid(env) == (None if found is None else f"GPU-0000-{found}")


def test_memory_is_asked_of_torch_s_own_allocator_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of others the question may open a context on each device."""
    cuda = FakeCuda([0, 5], current=1)
    cuda.allocator = "cudaMallocAsync"
    cuda.install(lambda name, new: monkeypatch.setattr(torch.cuda, name, new))
    assert find_gpu_uuid({}) == "GPU-0000-1"


def test_start_time_tells_processes_apart() -> None:
    assert start_time(os.getpid()) == start_time(os.getpid()) != start_time(1)
    assert start_time(2**22 + 1) == ""


def test_a_long_name_is_cut_to_what_the_server_takes() -> None:
    """The run is worth more than the rest of its name."""
    assert find_run("x" * 5000, {}).name == "x" * 500


def test_thread_limits_that_are_set() -> None:
    env = {"OMP_NUM_THREADS": "8", "MKL_NUM_THREADS": "", "HOME": "/root"}
    assert thread_limits(env) == {"OMP_NUM_THREADS": "8"}
