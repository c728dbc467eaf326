"""Whole scripts, as people run them: what is left when they hang, are killed, fork, or have many ranks."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, Dataset, TensorDataset

import loaderwatch
from loaderwatch.agent.guard import guard
from loaderwatch.agent.hot import SampleClock, in_python
from loaderwatch.agent.process.stack_signal import free_signals
from loaderwatch.core.records import EndedBy, Phase, RecordKind
from loaderwatch.core.ring import RingReader
from tests.conftest import RingContents, RingFolder, close_agent
from tests.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.usefixtures("data_dir", "no_streamer")

Start = Callable[..., "subprocess.Popen[str]"]

DATASET = """
import os, sys, time
import torch
from torch.utils.data import DataLoader, Dataset
import loaderwatch

class Numbers(Dataset):
    def __init__(self, length=64, stuck=-1):
        self.length, self.stuck = length, stuck
    def __len__(self):
        return self.length
    def __getitem__(self, index):
        if index == self.stuck:
            time.sleep(300)  # the blocking line
        return torch.tensor([float(index)])
"""


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts a script in a session of its own; everything in that session is killed at the end."""
    running: list[subprocess.Popen[str]] = []

    def run(source: str, *command: str, **env: str) -> subprocess.Popen[str]:
        script = tmp_path / "train.py"
        script.write_text(DATASET + textwrap.dedent(source))
        process = subprocess.Popen(
            [*(command or (sys.executable,)), str(script)],
            env={**os.environ, "OMP_NUM_THREADS": "1", **env},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        running.append(process)
        return process

    yield run
    for process in running:
        end_session(process)


def end_session(process: subprocess.Popen[str]) -> None:
    """SIGTERM first: multiprocessing's resource tracker ignores it and removes leaked semaphores."""
    deadline = time.monotonic() + 5
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
        while time.monotonic() < deadline:
            process.poll()
            os.killpg(process.pid, 0)
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=PATIENCE_S)


def finish(process: subprocess.Popen[str]) -> tuple[str, str]:
    out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, err
    return out, err


def stack(ring: RingContents) -> str:
    return ring.path.with_suffix(".stack").read_text()


def wait_for(question: Callable[[], Any], what: str) -> Any:
    return wait_until(what, question)


@pytest.mark.parametrize(
    "method",
    [
        "fork",
        pytest.param("forkserver", marks=pytest.mark.long),
        pytest.param("spawn", marks=pytest.mark.long),
    ],
)
def test_stuck_worker_is_named_with_its_stack(method: str, start: Start, rings: RingFolder) -> None:
    start(
        f"""
        if __name__ == "__main__":
            loader = DataLoader(Numbers(64, stuck=17), batch_size=4, num_workers=2,
                                multiprocessing_context="{method}")
            loaderwatch.attach(loader)
            for batch in loader:
                pass
        """
    )

    def stuck() -> Any:
        return [
            ring
            for ring in rings.workers()
            if ring.span is not None and ring.span.phase is Phase.FETCH and ring.span.sample_index == 17
        ]

    (worker,) = wait_for(stuck, "worker stuck at sample 17")
    assert worker.worker == 0
    main = rings.main()
    assert main.span is not None

    def waits_for_it() -> bool:
        span = rings.main().span
        return span is not None and (span.phase, span.awaited_worker, span.batch) == (Phase.WAIT, 0, 4)

    wait_for(waits_for_it, "main process that waits for worker 0")
    for ring in (worker, main):
        os.kill(ring.pid, ring.status.stack_signal)
        wait_for(
            lambda ring=ring: "_bootstrap" in stack(ring) or "<module>" in stack(ring),  # type: ignore[misc]
            "stack",
        )
    worker_stack, main_stack = stack(worker), stack(main)
    line = DATASET[: DATASET.index("time.sleep(300)")].count("\n") + 1
    assert f"line {line} in __getitem__" in worker_stack
    assert "_try_get_data" in main_stack
    # between the worker loop and the dataset there is nothing of ours; not compiled, the fetch itself
    inside = worker_stack[worker_stack.index("in __getitem__") : worker_stack.index("in _worker_loop")]
    ours = [frame for frame in inside.splitlines() if "loaderwatch" in frame]
    assert len(ours) == (SampleClock is in_python.SampleClock)
    assert all("in fetch" in frame for frame in ours)


@pytest.mark.usefixtures("rings")
def test_a_session_that_ends_gives_its_signal_back() -> None:
    """There are some twenty of them; forked children end their parent's session and open their own."""
    before = free_signals()
    loaderwatch.attach(DataLoader(TensorDataset(torch.zeros(2))))
    assert len(free_signals()) == len(before) - 1
    close_agent()
    assert free_signals() == before


def test_killed_process_leaves_its_last_moment(start: Start, rings: RingFolder) -> None:
    process = start(
        """
        loader = loaderwatch.attach(DataLoader(Numbers(100_000), batch_size=2))
        for number, batch in enumerate(loader):
            time.sleep(0.001)
            if number == 50:
                print("go", flush=True)
        """
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "go\n"
    process.kill()
    process.wait(timeout=PATIENCE_S)
    main = rings.main()
    assert not main.status.finished
    assert main.span is not None
    assert main.span.batches >= 51
    assert len(main.of(RecordKind.STEP)) + main.lost >= 50
    assert main.span.since_ns > main.of(RecordKind.STEP)[-1]["request_ns"]


@pytest.mark.parametrize(
    ("last_line", "finished", "exit_text"),
    [
        ("pass", True, None),
        ("raise RuntimeError('bad loss')", False, "uncaught RuntimeError: bad loss"),
    ],
)
def test_how_a_script_ended(
    last_line: str, finished: bool, exit_text: str | None, start: Start, rings: RingFolder
) -> None:
    process = start(
        f"""
        for batch in loaderwatch.attach(DataLoader(Numbers(8), batch_size=2)):
            pass
        {last_line}
        """
    )
    process.communicate(timeout=PATIENCE_S)
    assert rings.main().status.finished is finished
    (info,) = rings.processes()
    assert (info.exit, info.state) == (exit_text, "live" if finished else "crashed")


def test_no_thread_is_added_and_nothing_is_printed(start: Start, rings: RingFolder) -> None:
    out, err = finish(
        start(
            """
            import threading
            def threads():
                return len(threading.enumerate()), len(os.listdir("/proc/self/task"))
            loader = DataLoader(Numbers(8), batch_size=2)
            for batch in loader: pass
            before = threads()
            loaderwatch.attach(loader)
            for batch in loader: pass
            print(before == threads())
            """
        )
    )
    assert (out, err) == ("True\n", "")
    assert len(rings.main().of(RecordKind.STEP)) == 4


def test_disabled_does_nothing(start: Start, rings: RingFolder) -> None:
    out, err = finish(
        start(
            """
            loader = DataLoader(Numbers(8), batch_size=2)
            assert loaderwatch.attach(loader) is loader
            assert loaderwatch.attach() is None
            with loaderwatch.phase("x"): pass
            assert loaderwatch.detach(loader) is loader
            attached = "loaderwatch.agent.attach" in sys.modules
            print(type(loader) is DataLoader, repr(loaderwatch.url()), attached)
            """,
            LOADERWATCH_DISABLE="1",
        )
    )
    assert (out, err) == ("True '' False\n", "")
    assert not rings.directory.exists()


def test_forked_child_stays_silent(start: Start, rings: RingFolder) -> None:
    finish(
        start(
            """
            loader = loaderwatch.attach(DataLoader(Numbers(16), batch_size=2))
            iterator = iter(loader)
            next(iterator)
            child = os.fork()
            if child == 0:
                for batch in iterator: pass
                for batch in loader: pass
                with loaderwatch.phase("child"): pass
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
            for batch in iterator: pass
            """
        )
    )
    main = rings.main()
    assert len(main.of(RecordKind.STEP)) == len(main.of(RecordKind.FETCH)) == 8
    assert len(main.of(RecordKind.EPOCH_END)) == 1
    assert main.status.finished


RANK_SCRIPT = """
import torch.distributed as dist

def train():
    loader = DataLoader(Numbers(16), batch_size=4)
    loaderwatch.attach(loader)
    dist.init_process_group("gloo")
    for batch in loader:
        dist.all_reduce(batch)
    dist.destroy_process_group()
"""


def check_ranks(rings: RingFolder) -> None:
    infos = rings.processes()
    assert sorted((info.rank, info.local_rank, info.world_size) for info in infos) == [(0, 0, 2), (1, 1, 2)]
    assert len({path.parent for path in rings.directory.glob("*/main-*.ring")}) == 1
    for ring in rings.mains():
        assert len(ring.of(RecordKind.STEP)) == 4
        assert ring.of(RecordKind.EPOCH_END)[0]["ended_by"] == EndedBy.EXHAUSTED
        assert ring.status.finished


def torchrun() -> tuple[str, ...]:
    return (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")


@pytest.mark.long
def test_torchrun_ranks_agree_and_runs_differ(start: Start, rings: RingFolder) -> None:
    finish(start(RANK_SCRIPT + "\ntrain()\n", *torchrun()))
    check_ranks(rings)
    finish(start(RANK_SCRIPT + "\ntrain()\n", *torchrun()))
    names = sorted(path.name for path in rings.directory.iterdir())
    assert len(names) == 2
    assert all(name.startswith("train-") for name in names)


@pytest.mark.long
def test_spawned_ranks_agree(start: Start, rings: RingFolder, free_port: int) -> None:
    source = RANK_SCRIPT + textwrap.dedent(
        f"""
        def rank(number):
            os.environ.update(RANK=str(number), WORLD_SIZE="2")
            os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="{free_port}")
            for name in ("RANK", "WORLD_SIZE"):
                value = os.environ.pop(name)
                os.environ["MY_" + name] = value
            loader = DataLoader(Numbers(16), batch_size=4)
            loaderwatch.attach(loader)
            dist.init_process_group("gloo", rank=number, world_size=2)
            for batch in loader:
                dist.all_reduce(batch)
            dist.destroy_process_group()

        if __name__ == "__main__":
            torch.multiprocessing.spawn(rank, nprocs=2)
        """
    )
    finish(start(source))
    check_ranks(rings)


def test_module_level_attach_with_spawned_workers(start: Start, rings: RingFolder) -> None:
    finish(
        start(
            """
            loader = DataLoader(Numbers(16), batch_size=4, num_workers=1, multiprocessing_context="spawn")
            loaderwatch.attach(loader)
            if __name__ == "__main__":
                for batch in loader: pass
            """
        )
    )
    assert len(rings.mains()) == 1
    assert len(rings.workers()) == 1


def test_an_error_in_a_worker_ends_as_one_line(start: Start, rings: RingFolder) -> None:
    """Its message holds the worker's whole traceback; a verdict needs the first line and the last."""
    process = start(
        """
        class Bad(Numbers):
            def __getitem__(self, index):
                raise KeyError("bad sample 37")
        loader = DataLoader(Bad(), batch_size=4, num_workers=1)
        loaderwatch.attach(loader)
        next(iter(loader))
        """
    )
    process.communicate(timeout=PATIENCE_S)
    (info,) = rings.processes()
    assert (info.state, info.exit) == (
        "crashed",
        "uncaught KeyError: Caught KeyError in DataLoader worker process 0. KeyError: 'bad sample 37'",
    )


def test_a_working_directory_that_is_gone(start: Start, rings: RingFolder) -> None:
    """Somebody cleaned up under a job; it is watched all the same."""
    out, err = finish(
        start(
            """
            import tempfile
            with tempfile.TemporaryDirectory() as folder:
                os.chdir(folder)
            loader = DataLoader(Numbers(16), batch_size=4)
            loaderwatch.attach(loader)
            print(len(list(loader)))
            """
        )
    )
    assert (out, err) == ("4\n", "")
    assert [info.cwd for info in rings.processes()] == [""]
    assert len(rings.main().of(RecordKind.STEP)) == 4


def test_a_process_without_stderr_says_so(start: Start, rings: RingFolder) -> None:
    """Daemons start that way; descriptor 2 is then some file of the job, and nobody may write into it."""
    out, _ = finish(
        start(
            """
            loader = DataLoader(Numbers(16), batch_size=4)
            loaderwatch.attach(loader)
            print(len(list(loader)))
            """,
            "/bin/sh", "-c", 'exec "$0" "$1" 2>&-', sys.executable,
        )
    )  # fmt: skip
    assert out == "4\n"
    assert [info.has_stderr for info in rings.processes()] == [False]


class FaultInWorker(Dataset[int]):
    """A fault of ours while a sample is read."""

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> int:
        if index == 3:
            guard.note(RuntimeError("made up"))
        return index


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_fault_in_a_worker_is_published_at_once(rings: RingFolder, method: str) -> None:
    guard.note(RuntimeError("before the fork"))  # a forked worker must not tell of it again
    loader = DataLoader(
        FaultInWorker(), batch_size=2, num_workers=1, persistent_workers=True, multiprocessing_context=method
    )
    loaderwatch.attach(loader)
    assert len(list(loader)) == 4
    (path,) = rings.directory.glob("*/worker-*.ring")
    reader = RingReader(path)
    status = reader.status()
    reader.close()
    assert (status.finished, status.faults) == (False, 1)
    guard.reset()
