"""``loaderwatch doctor`` over real scripts: it stops them before they train, and says what is wrong."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import msgspec
import pytest

from loaderwatch.cli import main
from tests.fakes.feed import Feed
from tests.fakes.serving import ServeProcess, wait_until
from tests.waiting import PATIENCE_S

RECORDINGS = Path(__file__).parents[1] / "scenarios" / "recordings"

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("data_dir")]

HEAD = """
import os, sys, time
import torch
from torch.utils.data import DataLoader, Dataset

class Numbers(Dataset):
    def __init__(self, length=64):
        self.length = length
    def __len__(self):
        return self.length
    def __getitem__(self, index):
        return torch.full((16,), float(index))

def train(loader):
    for batch in loader:
        print("TRAINED", flush=True)
"""


def doctor(
    tmp_path: Path, source: str, *options: str, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    script = tmp_path / "train.py"
    script.write_text(HEAD + textwrap.dedent(source))
    return subprocess.run(
        [sys.executable, "-m", "loaderwatch", "doctor", *options, str(script), "--lr", "0.1"],
        env={**os.environ, **(env or {})},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )


def advice(tmp_path: Path, source: str, *options: str, **env: str) -> tuple[int, dict[str, Any]]:
    done = doctor(tmp_path, source, "--json", *options, env=env)
    assert done.returncode in (0, 1), done.stderr
    return done.returncode, {one["check"]: one for one in json.loads(done.stdout)}


def test_a_sensible_script_is_left_alone_and_does_not_train(tmp_path: Path) -> None:
    done = doctor(
        tmp_path,
        """
        assert sys.argv[1:] == ["--lr", "0.1"]
        train_loader = DataLoader(Numbers(), 8, shuffle=True, num_workers=1, persistent_workers=True)
        train(train_loader)
        """,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Nothing to change." in done.stdout
    assert (
        "train_loader (train, train.py:19): DataLoader of Numbers, 64 samples, batch 8, 1 worker"
        in done.stdout
    )
    assert "TRAINED" not in done.stdout


@pytest.mark.long
def test_persistent_workers_without_workers(tmp_path: Path) -> None:
    code, found = advice(tmp_path, "train(DataLoader(Numbers(), persistent_workers=True))")
    assert code == 1
    assert found["refused"]["severity"] == "critical"
    assert found["refused"]["where"] == "train.py:17"
    assert "num_workers of at least 1" in found["refused"]["change"]


@pytest.mark.parametrize(
    ("arguments", "check"),
    [
        ("prefetch_factor=4", "refused"),
        pytest.param("timeout=5", "timeout", marks=pytest.mark.long),
        pytest.param(
            "num_workers=2, prefetch_factor=0, persistent_workers=True",
            "prefetch-none",
            marks=pytest.mark.long,
        ),
    ],
)
def test_what_pytorch_refuses(tmp_path: Path, arguments: str, check: str) -> None:
    code, found = advice(tmp_path, f"train(DataLoader(Numbers(), shuffle=True, {arguments}))")
    assert code == 1
    assert found[check]["severity"] == "critical"


def test_spawned_workers_need_picklable_parts_and_a_guard(tmp_path: Path) -> None:
    code, found = advice(
        tmp_path,
        """
        spawned = dict(num_workers=1, multiprocessing_context="spawn")
        loader = DataLoader(Numbers(), **spawned, collate_fn=lambda b: b[0])
        train(loader)
        """,
    )
    assert code == 1
    assert "collate_fn: " in found["pickle"]["what"]
    assert "lambda" in found["pickle"]["what"]
    assert found["main-guard"]["severity"] == "critical"
    assert found["persistent-workers"]["severity"] == "warning"


@pytest.mark.long
def test_spawned_workers_that_can_start(tmp_path: Path) -> None:
    code, found = advice(
        tmp_path,
        """
        if __name__ == "__main__":
            loader = DataLoader(
                Numbers(), num_workers=1, multiprocessing_context="spawn",
                persistent_workers=True, shuffle=True
            )
            train(loader)
        """,
    )
    assert (code, found) == (0, {})


@pytest.mark.long
def test_a_large_dataset_that_must_be_pickled(tmp_path: Path) -> None:
    _, found = advice(
        tmp_path,
        """
        if __name__ == "__main__":
            data = Numbers()
            data.names = [f"picture-{i}.jpeg" * 4 for i in range(1_000_000)]
            workers = dict(num_workers=2, multiprocessing_context="forkserver")
            train(DataLoader(data, **workers, persistent_workers=True))
        """,
    )
    assert "MB" in found["pickle"]["what"]


def test_threads_in_workers(tmp_path: Path) -> None:
    source = """
    import numpy as np
    class Heavy(Numbers):
        def __getitem__(self, index):
            matrix = np.random.default_rng(index).random((500, 500))
            return torch.from_numpy(matrix @ matrix @ matrix)
    train(DataLoader(Heavy(), batch_size=8, shuffle=True, num_workers=2, persistent_workers=True))
    """
    _, many = advice(tmp_path, source, OPENBLAS_NUM_THREADS="4", OMP_NUM_THREADS="4")
    assert "OPENBLAS_NUM_THREADS=4" in many["worker-threads"]["what"]
    _, one = advice(tmp_path, source, OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1")
    assert "worker-threads" not in one


def test_a_stateful_loader_that_ships_its_dataset_with_every_batch(tmp_path: Path) -> None:
    """torchdata's loader neither constructs nor iterates as DataLoader does."""
    code, found = advice(
        tmp_path,
        """
        from torchdata.stateful_dataloader import StatefulDataLoader

        class Stream(torch.utils.data.IterableDataset):
            def __iter__(self):
                yield from Numbers()
            def state_dict(self):
                return {"buffer": list(range(1000))}
            def load_state_dict(self, state):
                pass

        train(StatefulDataLoader(Stream(), batch_size=8, num_workers=1))
        """,
    )
    assert code == 1
    assert found["snapshots"]["severity"] == "warning"


def test_slow_samples_without_workers(tmp_path: Path) -> None:
    _, found = advice(
        tmp_path,
        """
        class Slow(Numbers):
            def __getitem__(self, index):
                time.sleep(0.02)
                return super().__getitem__(index)
        train(DataLoader(Slow(), batch_size=8, shuffle=True))
        """,
    )
    assert "on the training thread" in found["workers-none"]["why"]


def test_small_files_do_not_lie_in_memory(tmp_path: Path) -> None:
    """They cost as little CPU time as samples that do, as the page cache has them."""
    (tmp_path / "sample").write_bytes(b"x" * 500)
    _, found = advice(
        tmp_path,
        f"""
        class Files(Numbers):
            def __len__(self):
                return 8192
            def __getitem__(self, index):
                with open("{tmp_path}/sample", "rb", buffering=0) as file:
                    return len(file.read(500))
        train(DataLoader(Files(), batch_size=8192, shuffle=True))
        """,
    )
    assert "on the training thread" in found["workers-none"]["why"]


def test_what_else_the_machine_does_is_no_cost_of_the_loader(tmp_path: Path) -> None:
    """A batch computes 16 ms, and takes eight times as long beside seven others on its CPU."""
    cpu = min(os.sched_getaffinity(0))
    busy = f"import os; os.sched_setaffinity(0, [{cpu}])\nwhile True: pass"
    others = [subprocess.Popen([sys.executable, "-c", busy]) for _ in range(7)]
    try:
        _, found = advice(
            tmp_path,
            f"""
            class Computed(Numbers):
                def __getitem__(self, index):
                    os.sched_setaffinity(0, [{cpu}])
                    until = time.thread_time() + 0.002
                    while time.thread_time() < until:
                        pass
                    return super().__getitem__(index)
            train(DataLoader(Computed(), batch_size=8, shuffle=True))
            """,
        )
    finally:
        for other in others:
            other.kill()
            other.wait()
    assert "workers-none" not in found


def test_a_sample_that_cannot_be_read(tmp_path: Path) -> None:
    _, found = advice(
        tmp_path,
        """
        class Broken(Numbers):
            def __getitem__(self, index):
                raise FileNotFoundError(f"no file for sample {index}")
        train(DataLoader(Broken(), num_workers=1, persistent_workers=True))
        """,
    )
    assert "no file for sample 0" in found["sample"]["what"]


@pytest.mark.long
def test_a_validation_before_training_is_passed_over(tmp_path: Path) -> None:
    done = doctor(
        tmp_path,
        """
        val_loader = DataLoader(Numbers(), batch_size=8)
        train_loader = DataLoader(Numbers(), 8, shuffle=True, num_workers=1, persistent_workers=True)
        with torch.no_grad():
            next(iter(val_loader))
        train(train_loader)
        """,
    )
    assert done.returncode == 0
    assert "train_loader (train" in done.stdout
    assert "val_loader (eval" in done.stdout


@pytest.mark.parametrize(
    "made",
    [
        "loaders = {'val': DataLoader(Numbers(), 8)}; loader = loaders['val']",
        pytest.param("loader = test_batches = DataLoader(Numbers(), 8)", marks=pytest.mark.long),
    ],
)
def test_no_step_happens_whatever_the_loader_is_called(tmp_path: Path, made: str) -> None:
    """Not shuffled, named like a validation, and yet it trains."""
    done = doctor(
        tmp_path,
        made
        + """
        weight = torch.nn.Parameter(torch.zeros(16))
        optimizer = torch.optim.SGD([weight], lr=0.1)
        for batch in loader:
            (batch * weight).sum().backward()
            optimizer.step()
            print("TRAINED", flush=True)
        """.replace("\n        ", "\n"),
        "--timeout",
        "30",
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "TRAINED" not in done.stdout
    assert "(train, train.py:17)" in done.stdout


def test_uneven_batches_over_real_ranks(tmp_path: Path) -> None:
    _, found = advice(
        tmp_path,
        """
        import torch.distributed as dist
        dist.init_process_group("gloo")
        rank = dist.get_rank()
        train(DataLoader(Numbers(64 + 16 * rank), batch_size=8, num_workers=1, persistent_workers=True))
        """,
        "--ranks",
        "2",
    )
    assert "8 batches on rank 0 and 10 on rank 1" in found["uneven-batches"]["what"]


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("raise OSError('no such disk')", "OSError: no such disk"),
        pytest.param("print('done')", "made no torch.utils.data.DataLoader", marks=pytest.mark.long),
        pytest.param("sys.exit(3)", "exit code 3", marks=pytest.mark.long),
    ],
)
def test_scripts_that_do_not_come_to_training(tmp_path: Path, source: str, said: str) -> None:
    done = doctor(tmp_path, source)
    assert done.returncode == 1
    assert said in done.stderr
    assert "Traceback" not in done.stderr.splitlines()[0]


@pytest.mark.long
def test_a_script_that_takes_too_long(tmp_path: Path) -> None:
    done = doctor(tmp_path, "time.sleep(300)", "--timeout", "10")
    assert done.returncode == 1
    assert "within 10 s" in done.stderr
    assert 'train.py", line 17' in done.stderr  # where it stood
    assert "runpy" not in done.stderr


def test_nothing_that_the_script_started_is_left(tmp_path: Path) -> None:
    """Not even what left its session: a server, a daemon."""
    done = doctor(
        tmp_path,
        """
        import subprocess
        quiet = dict(stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        started = [
            subprocess.Popen(["sleep", "300"], start_new_session=new, **quiet).pid
            for new in (False, True)
        ]
        open(__file__ + ".pids", "w").write(repr(started))
        train(DataLoader(Numbers(), batch_size=8, shuffle=True, num_workers=1, persistent_workers=True))
        """,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    pids = ast.literal_eval((tmp_path / "train.py.pids").read_text())
    wait_until("their end", lambda: not any(alive(pid) for pid in pids))


def alive(pid: int) -> bool:
    """Whether a process runs: one that nobody has waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_doctor_that_is_ended_ends_the_script(tmp_path: Path) -> None:
    script = tmp_path / "slow.py"
    script.write_text(
        "import os, time\nopen(__file__ + '.pid', 'w').write(str(os.getpid()))\ntime.sleep(300)\n"
    )
    process = subprocess.Popen([sys.executable, "-m", "loaderwatch", "doctor", str(script)])
    try:
        wait_until(
            "the script",
            lambda: (tmp_path / "slow.py.pid").is_file() and (tmp_path / "slow.py.pid").read_text(),
        )
        process.terminate()
        assert process.wait(PATIENCE_S) == 143
    finally:
        process.kill()
        process.wait()
    assert not alive(int((tmp_path / "slow.py.pid").read_text()))


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    wants_ranks = doctor(tmp_path, 'torch.distributed.init_process_group("gloo")')
    assert "loaderwatch doctor --ranks" in wants_ranks.stderr
    raises = doctor(tmp_path, 'raise KeyError("data")')
    assert "bootstrap" not in raises.stderr
    assert "KeyError: 'data'" in raises.stderr


SHARDED = """
    import torch.distributed as dist
    from torch.utils.data.distributed import DistributedSampler
    dist.init_process_group("gloo")
    class Trainer:
        def __init__(self):
            data = Numbers(1001)
            workers = dict(num_workers=1, persistent_workers=True)
            self.loader = DataLoader(data, 8, sampler=DistributedSampler(data), **workers)
        def fit(self):
            for epoch in range(3):
                train(self.loader)
                SET
    Trainer().fit()
    """


@pytest.mark.long
def test_set_epoch_that_the_script_never_calls(tmp_path: Path) -> None:
    code, found = advice(tmp_path, SHARDED.replace("SET", "pass"), "--ranks", "2")
    assert code == 1
    assert "set_epoch(epoch) on the sampler of loader" in found["set-epoch"]["change"]
    assert found["set-epoch"]["ranks"] == [0, 1]
    _, found = advice(
        tmp_path, SHARDED.replace("SET", "self.loader.sampler.set_epoch(epoch + 1)"), "--ranks", "2"
    )
    assert "set-epoch" not in found


@pytest.mark.parametrize("how", [pytest.param("spawn", marks=pytest.mark.long), "fork"])
def test_ranks_that_the_script_starts_itself(tmp_path: Path, how: str) -> None:
    """No rank trains, and all are asked."""
    source = f"""
        import torch.distributed as dist
        def rank(number, store):
            dist.init_process_group("gloo", init_method="file://" + store, rank=number, world_size=2)
            train(DataLoader(Numbers(64 + 16 * number), batch_size=8, num_workers=1, persistent_workers=True))
            open(store + ".trained", "w").close()
        if __name__ == "__main__":
            store = {str(tmp_path / "store")!r}
            torch.multiprocessing.start_processes(rank, (store,), 2, start_method={how!r})
        """
    code, found = advice(tmp_path, source)
    assert code == 1
    assert "8 batches on rank 0 and 10 on rank 1" in found["uneven-batches"]["what"]
    assert not (tmp_path / "store.trained").exists()


@pytest.mark.long
def test_a_timeout_shorter_than_a_batch(tmp_path: Path) -> None:
    source = """
        class Slow(Numbers):
            def __getitem__(self, index):
                time.sleep(0.2)
                return super().__getitem__(index)
        train(DataLoader(Slow(), 8, shuffle=True, num_workers=1, persistent_workers=True, timeout=LIMIT))
        """
    _, found = advice(tmp_path, source.replace("LIMIT", "1"))
    assert found["timeout"]["severity"] == "critical"
    assert "takes about" in found["timeout"]["what"]
    assert advice(tmp_path, source.replace("LIMIT", "60")) == (0, {})


@pytest.mark.long
def test_threads_that_do_not_compute(tmp_path: Path) -> None:
    """A client's event loop in the worker and the thread that serves tensor descriptors do not contend."""
    source = """
        import threading
        class Remote(Numbers):
            def __init__(self):
                super().__init__()
                self.table = torch.zeros(100)
                self.client = None
            def __getitem__(self, index):
                if self.client is None:
                    self.client = [
                        threading.Thread(target=time.sleep, args=(30,), daemon=True) for _ in range(4)
                    ]
                    for thread in self.client:
                        thread.start()
                began = time.thread_time()
                while time.thread_time() < began + 0.005:
                    pass
                return super().__getitem__(index)
        if __name__ == "__main__":
            workers = dict(num_workers=2, persistent_workers=True, multiprocessing_context=HOW)
            train(DataLoader(Remote(), 8, shuffle=True, **workers))
        """
    for how in ("'fork'", "'spawn'"):
        assert advice(tmp_path, source.replace("HOW", how)) == (0, {})


@pytest.mark.long
def test_samples_that_kill_the_worker(tmp_path: Path) -> None:
    code, found = advice(
        tmp_path,
        """
        class Broken(Numbers):
            def __getitem__(self, index):
                os.kill(os.getpid(), 11)
        train(DataLoader(Broken(), num_workers=1, persistent_workers=True))
        """,
    )
    assert code == 1
    assert "SIGSEGV" in found["sample"]["what"]


def test_a_run_from_its_server_its_file_and_a_recording(
    data_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def printed(*argv: str) -> tuple[int, Any]:
        code = main(["doctor", "--json", *argv])
        return code, json.loads(capsys.readouterr().out)

    with ServeProcess(data_dir, "--port", "0") as server:
        access = server.start()
        feed = Feed()
        first = feed.envelope(steps=40)
        (process,) = first.processes
        loaders = [
            msgspec.structs.replace(process.loaders[0], same_epoch_passes=3, num_workers=0, timeout_s=5.0)
        ]
        access.send(
            msgspec.structs.replace(first, processes=[msgspec.structs.replace(process, loaders=loaders)])
        )
        wait_until("the advice", lambda: access.get("/runs/run-1/audit"))
        asked = access.get("/runs/run-1/audit")
        assert {"set-epoch", "timeout"} <= {one["check"] for one in asked}
        assert printed("run-1") == (1, asked)
        assert main(["analyze", "--hang-after", "5", "run-1"]) == 2
        assert "judges its runs by its own limit" in capsys.readouterr().err
        server.stop()
    for which in ("run-1", "train.py", str(data_dir / "runs" / "run-1.duckdb")):
        code, found = printed(which)
        assert code == 1
        assert {"set-epoch", "timeout"} <= {one["check"] for one in found}


@pytest.mark.parametrize(
    "file",
    sorted(RECORDINGS.glob("healthy*.lwrec")) + sorted(RECORDINGS.glob("n*.lwrec")),
    ids=lambda f: f.stem,
)
def test_runs_that_are_healthy_get_no_warning(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", str(file)]) == 0, capsys.readouterr().out


def test_wrong_usage(tmp_path: Path) -> None:
    for arguments in (["nosuch.py"], ["no-such-run"], ["--ranks", "0", "x.py"], []):
        done = subprocess.run(
            [sys.executable, "-m", "loaderwatch", "doctor", *arguments],
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )
        assert done.returncode == 2, arguments
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("setting", "checks"),
    [
        ("A", {"workers-none"}),
        pytest.param("C", {"refused"}, marks=pytest.mark.long),
        pytest.param("D", {"worker-threads"}, marks=pytest.mark.long),
    ],
)
def test_the_repro_of_stalls_every_few_steps(setting: str, checks: set[str]) -> None:
    done = subprocess.run(
        [
            *(sys.executable, "-m", "loaderwatch", "doctor", "--json", "-m"),
            *("tests.scenarios.repro_every_few_steps", setting),
        ],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        cwd=Path(__file__).parents[2],
    )
    assert done.returncode == 1, done.stderr
    assert checks <= {one["check"] for one in json.loads(done.stdout)}
