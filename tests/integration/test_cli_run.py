"""``loaderwatch run``: scripts that do not name loaderwatch are watched, alone and under a launcher."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from loaderwatch.core.records import RecordKind
from tests.conftest import RingFolder
from tests.waiting import PATIENCE_S

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("data_dir", "no_streamer")]

SCRIPT = """
import sys
import torch
from torch.utils.data import DataLoader, TensorDataset

if __name__ == "__main__":
    loader = DataLoader(TensorDataset(torch.arange(64)), batch_size=8, shuffle=True, num_workers=1)
    for batch in loader:
        pass
    print("arguments", sys.argv[1:], "module", __name__)
    sys.exit(int(sys.argv[1]))
"""


def loaderwatch_run(*arguments: str, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "loaderwatch", "run", *arguments],
        env={**os.environ, "OMP_NUM_THREADS": "1", **env},
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "train_it.py"
    path.write_text(SCRIPT)
    return path


@pytest.mark.parametrize(
    "how", ["script", "module", *(pytest.param(how, marks=pytest.mark.long) for how in ("command", "shell"))]
)
def test_a_script_is_watched_and_ends_as_by_itself(script: Path, rings: RingFolder, how: str) -> None:
    arguments = {
        "script": [str(script), "3", "--x"],
        "module": ["-m", "train_it", "3", "--x"],
        "command": ["--", sys.executable, str(script), "3", "--x"],
        "shell": ["--", "sh", "-c", f"{sys.executable} {script} 3 --x"],
    }[how]
    done = loaderwatch_run("--name", "mine", *arguments, cwd=script.parent)
    assert done.returncode == 3, done.stderr
    assert "arguments ['3', '--x'] module __main__" in done.stdout
    assert len(rings.main().of(RecordKind.STEP)) == 8
    (process,) = rings.processes()
    assert [(info.role, info.num_workers) for info in process.loaders] == [("train", 1)]
    assert (rings.directory / "mine").is_dir()


def test_an_argument_longer_than_a_file_s_name_is_an_argument(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import sys; print(len(sys.argv[1]))")
    done = loaderwatch_run("train.py", "x" * 5000, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "5000\n"), done.stderr


def test_ranks_of_torchrun_are_watched_and_torchrun_is_not(script: Path, rings: RingFolder) -> None:
    done = loaderwatch_run("--", *TORCHRUN, str(script), "0", cwd=script.parent)
    assert done.returncode == 0, done.stderr
    assert sorted(process.rank for process in rings.processes()) == [0, 1]


def test_a_sitecustomize_of_the_environment_still_runs(script: Path, rings: RingFolder) -> None:
    (script.parent / "sitecustomize.py").write_text("print('the own one')")
    done = loaderwatch_run(
        "--", sys.executable, str(script), "0", cwd=script.parent, PYTHONPATH=str(script.parent)
    )
    assert "the own one" in done.stdout
    assert len(rings.main().of(RecordKind.STEP)) == 8


UNWATCHED = (
    "loaderwatch: {} iterated no DataLoader and stepped no optimizer of PyTorch's, so nothing was measured;"
    " if it reads data some other way, wrap that iterable:"
    " loader = loaderwatch.attach(loader)\n"
)


@pytest.mark.parametrize("as_module", [False, True])
def test_a_script_without_a_loader_is_left_alone_and_told(
    tmp_path: Path, rings: RingFolder, as_module: bool
) -> None:
    """In one line, the last of all; a child that was forked says nothing of its own."""
    script = tmp_path / "plain.py"
    script.write_text(
        "import atexit, os, sys\n"
        "print('torch' in sys.modules, flush=True)\n"
        "os.fork() or sys.exit()\n"
        "os.wait()\n"
        "atexit.register(lambda: print('last words', file=sys.stderr))\n"
    )
    done = loaderwatch_run(*(["-m", "plain"] if as_module else ["plain.py"]), cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "False\n")
    assert done.stderr == "last words\n" + UNWATCHED.format("plain" if as_module else "plain.py")
    assert rings.processes() == []


@pytest.mark.parametrize(
    ("end", "code"),
    [
        ("raise SystemExit(3)", 3),
        ("import sys; sys.exit('no data')", 1),
        ("raise ValueError", 1),
        ("import os; os._exit(0)", 0),
        ("import signal; signal.raise_signal(signal.SIGTERM)", -15),
        ("import loaderwatch; list(loaderwatch.attach(iter([1, 2])))", 0),
        (
            "import sys, subprocess; subprocess.run([sys.executable, '-c', 'pass'], check=True)\nsys.exit(2)",
            2,
        ),
    ],
)
def test_a_script_that_failed_or_was_watched_is_told_nothing(tmp_path: Path, end: str, code: int) -> None:
    (tmp_path / "train.py").write_text(end)
    done = loaderwatch_run("train.py", cwd=tmp_path)
    assert done.returncode == code, done.stderr
    assert "iterated no DataLoader" not in done.stderr


def test_a_command_is_not_told(tmp_path: Path) -> None:
    """What a command starts is its own matter: a launcher's ranks may read their data elsewhere."""
    (tmp_path / "plain.py").write_text("print('done')")
    done = loaderwatch_run("--", sys.executable, "plain.py", cwd=tmp_path)
    assert (done.stdout, done.stderr) == ("done\n", "")
    assert loaderwatch_run("plain.py", cwd=tmp_path, LOADERWATCH_DISABLE="1").stderr == ""


@pytest.mark.parametrize("arguments", [[], ["--"], ["nosuch.py"], ["--", "no-such-program"]])
def test_wrong_usage(tmp_path: Path, arguments: list[str]) -> None:
    done = loaderwatch_run(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


SPAWNED = """
import torch
import torch.multiprocessing
from torch.utils.data import DataLoader, TensorDataset

def rank(number):
    for batch in DataLoader(TensorDataset(torch.arange(64)), batch_size=8, shuffle=True):
        pass

if __name__ == "__main__":
    torch.multiprocessing.spawn(rank, nprocs=2)
"""


def test_ranks_that_the_script_spawns_are_watched(tmp_path: Path, rings: RingFolder) -> None:
    script = tmp_path / "spawning.py"
    script.write_text(SPAWNED)
    done = loaderwatch_run(str(script), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    watched = {process.pid for process in rings.processes()}
    assert len(watched) == 2
    assert "iterated no DataLoader" not in done.stderr, "the ranks did"
    assert list(rings.directory.glob("watched-*")) == []


JOINS = """
import subprocess, sys
import torch
import torch.distributed as dist

# a helper process without a rank of its own
subprocess.run([sys.executable, "-c", "import torch, torch.distributed"], check=True)
dist.init_process_group("gloo")
dist.barrier()
dist.destroy_process_group()
"""
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]


def test_ranks_are_watched_before_they_have_a_loader_and_helpers_are_not(
    tmp_path: Path, rings: RingFolder
) -> None:
    (tmp_path / "joining.py").write_text(JOINS)
    done = loaderwatch_run("--", *TORCHRUN, "joining.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = sorted(rings.processes(), key=lambda process: process.rank)
    assert [(process.rank, process.world_size, process.backend) for process in found] == [
        (0, 2, "gloo"),
        (1, 2, "gloo"),
    ]
    assert [process.loaders for process in found] == [[], []]


SPAWNED_TO_JOIN = """
import sys
import torch.distributed as dist
import torch.multiprocessing

def rank(number):
    dist.init_process_group("gloo", init_method=f"file://{sys.argv[1]}", rank=number, world_size=2)
    dist.barrier()
    dist.destroy_process_group()

if __name__ == "__main__":
    torch.multiprocessing.spawn(rank, nprocs=2)
"""


def test_spawned_ranks_are_watched_from_the_joining_on_by_the_ranks_they_give(
    tmp_path: Path, rings: RingFolder
) -> None:
    (tmp_path / "joining.py").write_text(SPAWNED_TO_JOIN)
    done = loaderwatch_run("joining.py", str(tmp_path / "store"), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert sorted((process.rank, process.world_size) for process in rings.processes()) == [(0, 2), (1, 2)]
    assert done.stderr.endswith(UNWATCHED.format("joining.py")), "they have no loader all the same"


@pytest.mark.parametrize(
    ("world", "environ"),
    [
        (1, {}),  # a group of one waits for nobody
        (
            0,
            {"RANK": "0", "WORLD_SIZE": "2"},
        ),  # the node of a cluster, on which torchrun is yet to start ranks
        (0, {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1"}),
        (0, {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "2", "LOADERWATCH_RANK": "1"}),  # a rank's child
        (0, {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "2", "LOADERWATCH_DISABLE": "1"}),
    ],
)
def test_what_is_no_rank_of_several_is_no_run(
    tmp_path: Path, rings: RingFolder, world: int, environ: dict[str, str]
) -> None:
    join = f"init_process_group('gloo', 'file://{tmp_path}/store', rank=0, world_size={world})"
    (tmp_path / "alone.py").write_text(
        f"import torch.distributed\n{f'torch.distributed.{join}' if world else ''}\n"
    )
    done = loaderwatch_run("--", sys.executable, "alone.py", cwd=tmp_path, **environ)
    assert (done.returncode, done.stderr) == (0, "")
    assert rings.processes() == []


def test_what_a_rank_attaches_with_comes_too_late_and_is_told(tmp_path: Path, rings: RingFolder) -> None:
    """It is no reason to end the training."""
    (tmp_path / "train.py").write_text(
        "import torch, loaderwatch\n"
        "list(loaderwatch.attach(iter([1, 2]), run='other', server='http://elsewhere:1'))\n"
        "print('trained')\n"
    )
    done = loaderwatch_run(
        "--name", "mine", "train.py", cwd=tmp_path, RANK="1", LOCAL_RANK="1", WORLD_SIZE="2"
    )
    assert (done.returncode, done.stdout) == (0, "trained\n"), done.stderr
    assert done.stderr == (
        "loaderwatch: this rank is recorded as 'mine' since it began, not as 'other'; use --name other\n"
        "loaderwatch: this rank has sent to the server of this machine since it began,"
        " not to http://elsewhere:1; set LOADERWATCH_SERVER=http://elsewhere:1\n"
    )
    (process,) = rings.processes()
    assert (process.rank, len(process.loaders)) == (1, 1)


@pytest.mark.parametrize("target", ["sub/named.py", "link.py"])
def test_a_script_finds_itself_as_under_python(tmp_path: Path, target: str) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "named.py").write_text(
        "import sys; print(__file__, sys.argv, sys.path[0], __name__, __package__, __spec__)\n"
        "print(sys.modules['__main__'].__dict__ is globals(), __doc__)\n"
    )
    (tmp_path / "link.py").symlink_to("sub/named.py")
    plain = subprocess.run(
        [sys.executable, target, "1"], cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert loaderwatch_run(target, "1", cwd=tmp_path).stdout == plain.stdout


@pytest.mark.parametrize("module", ["nosuch.module", "nosuch", "json.nosuch", "json"])
def test_a_module_that_there_is_not_is_told_as_python_tells_it(tmp_path: Path, module: str) -> None:
    plain = subprocess.run(
        [sys.executable, "-m", module], cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE_S
    )
    done = loaderwatch_run("-m", module, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (1, plain.stderr)
