"""PyTorch's flight recorder: dumps of real gloo ranks, read safely, and where their collectives part."""

from __future__ import annotations

import dataclasses
import os
import pickle
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest

from loaderwatch.core.facts import ProcessInfo
from loaderwatch.detect.hang.flight_recorder import divergence
from loaderwatch.detect.window import RunWindow
from loaderwatch.streamer.flight_recorder import FlightReader, read_dump
from loaderwatch.texts import say
from tests.unit.detect.build import RankBuilder, run
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.timeout(900)

# PyTorch writes the file itself when a NCCL collective times out. With gloo a test must ask for its bytes.
SCRIPT = """
import os, sys
from pathlib import Path
import torch
import torch.distributed as dist

try:
    from torch._C._distributed_c10d import _dump_fr_trace
except ImportError:
    sys.exit(77)

from loaderwatch.agent.process.identity import group_facts

def reduce():
    dist.all_reduce(torch.ones(4))

dist.init_process_group("gloo")
for _ in range(40):
    reduce()
dist.broadcast(torch.ones(2), src=0)
if dist.get_rank() == 0:
    work = dist.all_reduce(torch.ones(8), async_op=True)
Path(group_facts()["flight_dump"]).write_bytes(_dump_fr_trace())
os._exit(0)
"""


@pytest.fixture(scope="module")
def dumps(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The prefix of two dumps: rank 0 came to one collective more than rank 1."""
    folder = tmp_path_factory.mktemp("flight")
    script = folder / "train.py"
    script.write_text(SCRIPT)
    prefix = folder / "dump_rank_"
    launch = ["-m", "torch.distributed.run", "--nproc-per-node", "2", "--rdzv-backend", "c10d"]
    process = subprocess.Popen(
        [sys.executable, *launch, "--rdzv-endpoint", "localhost:0", str(script)],
        env={
            **os.environ,
            "TORCH_FR_BUFFER_SIZE": "2000",
            "TORCH_FR_DUMP_TEMP_FILE": str(prefix),
            "OMP_NUM_THREADS": "1",
        },
        start_new_session=True,
        stderr=subprocess.PIPE,
    )
    try:
        _, said = process.communicate(timeout=PATIENCE_S)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    if "exitcode  : 77" in said.decode():
        pytest.skip("this torch has no flight recorder without NCCL")
    assert process.returncode == 0, said.decode()[-2000:]
    return prefix


def process_of(rank: int, path: Path, started_ns: int = 1) -> ProcessInfo:
    return ProcessInfo(
        pid=rank, rank=rank, local_rank=rank, world_size=2, started_ns=started_ns, flight_dump=str(path)
    )


def window_of(processes: list[ProcessInfo]) -> RunWindow:
    window = run(*(RankBuilder(process.rank, 2) for process in processes))
    ranks = {
        number: dataclasses.replace(rank, process=processes[number]) for number, rank in window.ranks.items()
    }
    return dataclasses.replace(window, ranks=ranks)


def test_the_collective_that_one_rank_did_not_come_to(dumps: Path) -> None:
    reader = FlightReader()
    processes = reader.annotate([process_of(rank, Path(f"{dumps}{rank}")) for rank in range(2)])
    (group,) = processes[0].flight
    assert group.group == "default_pg"
    assert [entry.number for entry in group.entries] == list(range(11, 43))  # the newest 32
    assert group.entries[0].what == "gloo:all_reduce"
    assert group.entries[0].at is not None
    assert "in reduce" in group.entries[0].at
    found = divergence(window_of(processes))
    assert found is not None
    assert found.number == 42
    said = say(msgspec.structs.replace(found.text, part="cause"))
    assert said.startswith(
        "PyTorch's flight recorder: rank 0 called collective 42 of default_pg, gloo:all_reduce (train.py:"
    )
    assert said.endswith("; rank 1 never called it.")
    assert [item.value for item in found.evidence][1] == "not reached"


def test_ranks_that_agree(dumps: Path) -> None:
    processes = FlightReader().annotate([process_of(rank, Path(f"{dumps}0")) for rank in range(2)])
    assert divergence(window_of(processes)) is None


def test_different_collectives_in_one_place(dumps: Path) -> None:
    first, second = FlightReader().annotate([process_of(rank, Path(f"{dumps}0")) for rank in range(2)])
    (group,) = second.flight
    other = [
        msgspec.structs.replace(entry, what="gloo:barrier") if entry.number == 30 else entry
        for entry in group.entries
    ]
    second = msgspec.structs.replace(second, flight=[msgspec.structs.replace(group, entries=other)])
    found = divergence(window_of([first, second]))
    assert found is not None
    assert (found.number, len(found.did)) == (30, 2)
    said = say(msgspec.structs.replace(found.text, part="cause"))
    assert "rank 1 called collective 30 of default_pg, gloo:barrier (train.py:" in said
    assert "rank 0 called gloo:all_reduce (train.py:" in said


def test_an_old_dump_is_another_jobs(dumps: Path) -> None:
    process = process_of(0, Path(f"{dumps}0"), started_ns=time.time_ns())
    assert FlightReader().annotate([process]) == [process]


class Evil:
    """Runs a command when a careless reader unpickles it."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[object, ...]:
        return (os.mkdir, (str(self.mark),))


def test_a_pickle_that_would_call_something_does_not(tmp_path: Path) -> None:
    mark, dump = tmp_path / "called", tmp_path / "dump0"
    dump.write_bytes(pickle.dumps({"entries": [Evil(mark)]}, protocol=2))
    assert FlightReader().annotate([process_of(0, dump)])[0].flight == []
    assert not mark.exists()


@pytest.mark.parametrize(
    "data",
    [b"", b"nonsense", pickle.dumps([1, 2]), pickle.dumps({"entries": 7}), pickle.dumps({"entries": [{}]})],
)
def test_what_is_no_dump_is_said(data: bytes) -> None:
    with pytest.raises(ValueError, match="no flight recorder's dump"):
        read_dump(data, 1)
