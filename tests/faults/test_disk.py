"""Disks that are full or cannot be written, real ones: small file systems mounted for the test."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.fakes.streaming import end_processes
from tests.faults.cluster import BUSY_S, Cluster, wait_for
from tests.faults.light import start_light, start_streamer, states_of_ranks
from tests.faults.mounts import Ballast, Mounts
from tests.faults.processes import active_of


def test_the_outbox_is_full(mounts: Mounts, cluster: Cluster) -> None:
    """Waiting data stays in shared memory, even if the streamer dies; the job's stderr says what to do."""
    cluster.server.start()
    host = cluster.host
    disk = mounts.tmpfs(host.settings.outbox_dir, "256k")
    ballast = Ballast(disk)
    start_light(host)
    wait_for(lambda: cluster.server.get("/runs"))
    ballast.fill()
    time.sleep(1.0)
    os.kill(cluster.server.pid, signal.SIGSTOP)  # so that something waits
    time.sleep(1.0)
    active = active_of(host)
    os.kill(active, signal.SIGKILL)
    start_streamer(host)
    time.sleep(1.0)
    os.kill(cluster.server.pid, signal.SIGCONT)
    wait_for(lambda: "Free some space there" in host.log())
    assert list(host.settings.rings_dir.glob("*/state.json"))
    ballast.free()
    cluster.prove()
    said = [
        line for line in (host.data_dir / "job.log").read_text().splitlines() if "cannot write to" in line
    ]
    assert 1 <= len(said) <= 2  # each streamer says it once
    assert str(host.settings.outbox_dir) in said[0]


@pytest.mark.long
def test_the_store_is_full(mounts: Mounts, cluster: Cluster) -> None:
    """Envelopes are refused with 503 and wait on their hosts; nothing that was stored is damaged."""
    disk = mounts.tmpfs(cluster.server.data_dir, "48m")
    ballast = Ballast(disk)
    cluster.server.start()
    host = cluster.host
    start_light(host, ranks=[0, 1, 2, 3], world_size=4, period_s=0.002)
    wait_for(lambda: cluster.server.get("/runs"))
    time.sleep(1.0)
    ballast.fill()
    wait_for(lambda: len(host.waiting()) > 8)
    wait_for(lambda: "No space left" in cluster.server.get("/runs/run1/summary")["verdict"]["advice"])
    summary = cluster.server.get("/runs/run1/summary")
    assert (summary["state"], summary["verdict"]["severity"]) == ("live", "critical"), (
        "what fails is this server"
    )
    ballast.free()
    cluster.prove()
    assert not list((disk / "runs").glob("*.corrupt*"))


@pytest.mark.long
def test_everything_turns_read_only(mounts: Mounts, cluster: Cluster) -> None:
    """The job's LOADERWATCH_DIR and the server's directory are read-only for a part of the run."""
    cluster.server.start()
    host = cluster.host
    start_light(host)
    wait_for(lambda: states_of_ranks(cluster) == ["live"])
    mounts.read_only(host.data_dir)
    wait_for(lambda: list(host.settings.rings_dir.glob("*/state.json")))  # goes on in shared memory
    mounts.read_only(cluster.server.data_dir)
    time.sleep(2.0)
    mounts.writable(host.data_dir)
    mounts.writable(cluster.server.data_dir)
    cluster.prove()


TRAINING = """
import json, os, sys, torch
from torch.utils.data import DataLoader, Dataset
import loaderwatch
class Numbers(Dataset):
    def __len__(self): return 12
    def __getitem__(self, index): return index
    # Lists of numbers travel through pipes: torch itself needs no shared memory for them.
loader = DataLoader(Numbers(), batch_size=2, num_workers=int(os.environ["WORKERS"]), collate_fn=list)
loaderwatch.attach(loader)
for epoch in range(3):
    if epoch == 1 and len(sys.argv) > 1:
        exec(sys.argv[1])
    print(sorted(sum(loader, [])) == list(range(12)))
"""


def _train(
    data_dir: Path, between: str = "", *, workers: int = 0, **environ: str
) -> subprocess.CompletedProcess[str]:
    """Three epochs of a real DataLoader, watched if possible."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("LOADERWATCH_")}
    done = subprocess.run(
        [sys.executable, "-c", TRAINING, *([between] if between else [])],
        env=env
        | {"LOADERWATCH_DIR": str(data_dir), "LOADERWATCH_NO_STREAMER": "1", "WORKERS": str(workers)}
        | environ,
        capture_output=True,
        text=True,
        timeout=BUSY_S,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["True"] * 3, done.stderr
    return done


def test_shared_memory_is_full_when_workers_start(mounts: Mounts, tmp_path: Path) -> None:
    """The training process is watched, its new workers are not; training and its output stay as they are."""
    mounts.tmpfs(Path("/dev/shm"), "4m")
    # What is left is enough for the queues of two epochs of workers, not for a ring (94 kB).
    fill = (
        "from pathlib import Path; from tests.faults.mounts import Ballast;"
        " Ballast(Path('/dev/shm'), leave=81920).fill()"
    )
    done = _train(tmp_path / "lw", fill, workers=2, PYTHONPATH=str(Path(__file__).parents[2]))
    said = done.stderr.splitlines()
    assert len(said) == 1, said  # once, though two workers of two epochs meet it
    assert all(
        "cannot record DataLoader worker" in line and "No space left on device" in line for line in said
    )


@pytest.mark.long
def test_shared_memory_is_full_at_attach(mounts: Mounts, tmp_path: Path) -> None:
    Ballast(mounts.tmpfs(Path("/dev/shm"), "1m")).fill()
    (said,) = _train(tmp_path / "lw").stderr.splitlines()
    assert "/dev/shm" in said
    assert "No space left on device" in said
    assert "training goes on unwatched" in said
    assert "Free some space in /dev/shm, or give the container more: docker run --shm-size" in said
    assert "LOADERWATCH_DIR" not in said, "the rings lie there wherever that is"
    assert not list(Path("/dev/shm").glob("*/*/*"))


@pytest.mark.long
@pytest.mark.parametrize("covered", [True, False])
def test_there_is_no_shared_memory(mounts: Mounts, tmp_path: Path, covered: bool) -> None:
    """/dev/shm is not writable, so rings are in LOADERWATCH_DIR; if that is not either, one line says so."""
    mounts.hide(Path("/dev/shm"))
    data_dir = tmp_path / "lw"
    if covered:
        data_dir.mkdir()
        mounts.hide(data_dir)
        (said,) = _train(data_dir).stderr.splitlines()
        assert str(data_dir) in said
        assert "Read-only file system" in said
        assert "training goes on unwatched" in said
    else:
        assert _train(data_dir).stderr == ""
        assert list((data_dir / "rings").glob("*/main-*.ring"))


@pytest.mark.long
@pytest.mark.parametrize("what", ["lw", "lw/logs"])
def test_the_directory_cannot_be_written_at_attach(mounts: Mounts, tmp_path: Path, what: str) -> None:
    """No streamer can be started: the job says so once, and leaves nothing in shared memory."""
    mounts.tmpfs(Path("/dev/shm"), "64m")
    (tmp_path / what).mkdir(parents=True)
    mounts.hide(tmp_path / what)
    (said,) = _train(tmp_path / "lw", LOADERWATCH_NO_STREAMER="").stderr.splitlines()
    assert str(tmp_path / "lw" / "logs") in said
    assert "Read-only file system" in said
    assert "Set LOADERWATCH_DIR to a writable directory" in said
    assert not list(Path("/dev/shm").glob("loaderwatch-*/*/*.ring"))


AT_HOME = """
import os, sys
from pathlib import Path
import torch
from torch.utils.data import DataLoader
import loaderwatch
from loaderwatch.core.config import load_settings
if __name__ == "__main__":
    for batch in loaderwatch.attach(DataLoader(range(32), batch_size=8)):
        pass
    print(load_settings().data_dir, len(list(load_settings().rings_dir.glob("*/main-*.ring"))))
"""


@pytest.mark.parametrize("home", ["read-only", "not there", "of somebody"])
def test_a_home_that_cannot_be_written(mounts: Mounts, tmp_path: Path, home: str) -> None:
    """The temporary folder replaces it, and one line says so. A name that somebody else took is not used."""
    mounts.tmpfs(Path("/dev/shm"), "64m")
    own, temporary = tmp_path / "home", tmp_path / "temporary"
    temporary.mkdir()
    (own / ".local").mkdir(parents=True)
    expected = temporary / f"loaderwatch-{os.getuid()}"
    if home == "of somebody":
        expected.mkdir()
        os.chown(expected, 65534, 65534)
        expected = expected.with_name(f"{expected.name}-2")
    mounts.hide(own)
    (script := tmp_path / "train.py").write_text(AT_HOME)
    environ = {k: v for k, v in os.environ.items() if not k.startswith(("LOADERWATCH_", "XDG_"))}
    environ |= {"HOME": str(own / "none" if home == "not there" else own), "TMPDIR": str(temporary)}
    try:
        done = subprocess.run(
            [sys.executable, str(script)],
            env=environ
            | {"LOADERWATCH_SERVER": "http://127.0.0.1:9", "LOADERWATCH_TOKEN": "a-token-of-tests"},
            capture_output=True,
            text=True,
            timeout=BUSY_S,
        )
        assert done.stdout.split() == [str(expected), "1"], done.stderr
        said = [line for line in done.stderr.splitlines() if "takes its place" in line]
        assert said == [f"loaderwatch: your own data directory cannot be written; {expected} takes its place"]
        assert "unwatched" not in done.stderr
        assert list((expected / "logs").glob("streamer-*.log"))
        assert not expected.stat().st_mode & 0o077
    finally:
        end_processes(expected)


@pytest.mark.parametrize("damage", ["read-only", "full"])
@pytest.mark.parametrize("lacks", ["nothing else", "a data directory", "a home", "a home and shared memory"])
def test_nothing_can_be_written_to_a_folder_for_temporary_files(
    mounts: Mounts, damage: str, lacks: str
) -> None:
    """Training goes on: watched with LOADERWATCH_DIR and shared memory, else with a line that says why."""
    mounts.tmpfs(Path("/dev/shm"), "64m")
    mounts.tmpfs(kept := Path("/mnt"), "64m")
    for folder in filter(Path.is_dir, map(Path, ("/tmp", "/var/tmp", "/usr/tmp"))):
        if damage == "read-only":
            mounts.hide(folder)
        else:
            Ballast(mounts.tmpfs(folder, "64k")).fill()
    (script := kept / "train.py").write_text(AT_HOME)
    for name in ("lw", "home"):
        (kept / name).mkdir()
    environ = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("LOADERWATCH_", "XDG_")) and name not in ("TMPDIR", "TEMP", "TMP")
    }
    environ |= {"HOME": str(kept / "home"), "PYTHONPATH": str(Path(__file__).parents[2])}
    if lacks in ("nothing else", "a data directory"):
        environ |= {"LOADERWATCH_DIR": str(kept / "lw"), "LOADERWATCH_NO_STREAMER": "1"}
    if lacks == "a data directory":
        environ["LOADERWATCH_NO_STREAMER"] = ""
        mounts.hide(kept / "lw")
    if "home" in lacks:
        environ["LOADERWATCH_NO_STREAMER"] = "1"
        mounts.hide(kept / "home")
    if "shared memory" in lacks:
        mounts.hide(Path("/dev/shm"))
    done = subprocess.run(
        [sys.executable, "-m", "loaderwatch", "run", str(script)],
        env=environ,
        cwd="/proc",  # no file can be made here, either
        capture_output=True,
        text=True,
        timeout=BUSY_S,
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    data_dir, rings = done.stdout.split()
    if lacks == "nothing else":
        assert (data_dir, rings) == (str(kept / "lw"), "1")
        assert "unwatched" not in done.stderr
    elif lacks == "a data directory" or damage == "read-only":
        assert rings == "0"
        said = done.stderr.splitlines()
        assert all("training goes on unwatched" in line for line in said), said
        # Where no mark can be left, each opening of the session says it: at the iteration and at attach().
        assert len(said) in ((1, 2) if "shared memory" in lacks else (1,)), said


def test_two_ranks_say_one_line(mounts: Mounts, tmp_path: Path) -> None:
    """Each of them opens its session twice: as torch is imported, and at the first iteration."""
    mounts.tmpfs(Path("/dev/shm"), "64m")
    (data_dir := tmp_path / "lw").mkdir()
    mounts.hide(data_dir)
    script = tmp_path / "train.py"
    script.write_text(
        "from torch.utils.data import DataLoader\nfor batch in DataLoader(range(32), batch_size=8):\n"
        "    pass\nprint('trained')\n"
    )
    launcher = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2")
    done = subprocess.run(
        [sys.executable, "-m", "loaderwatch", "run", "--", sys.executable, *launcher, str(script)],
        env={**os.environ, "LOADERWATCH_DIR": str(data_dir), "LOADERWATCH_NO_STREAMER": ""},
        capture_output=True,
        text=True,
        timeout=BUSY_S,
    )
    assert done.stdout.count("trained") == 2, done.stderr
    said = [line for line in done.stderr.splitlines() if "loaderwatch: " in line]
    assert len(said) == 1, said
    assert "cannot start the streamer" in said[0]


def test_the_servers_directory_cannot_be_written(mounts: Mounts, tmp_path: Path) -> None:
    data = tmp_path / "data"
    for damage in ("read-only", "full"):
        if damage == "read-only":
            data.mkdir()
            mounts.hide(data)
        else:
            Ballast(mounts.tmpfs(data, "64k")).fill()
        tried = subprocess.run(
            [sys.executable, "-m", "loaderwatch", "serve", "--data-dir", str(data), "--port", "0"],
            capture_output=True,
            text=True,
            timeout=BUSY_S,
        )
        assert tried.returncode == 1
        (said,) = tried.stderr.strip().splitlines()
        assert str(data) in said
        assert ("Read-only file system" if damage == "read-only" else "No space left on device") in said
