"""What a run and its server leave on the disk and in shared memory is the user's own, whatever the umask."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from loaderwatch.core.config import load_settings
from tests.fakes.feed import Feed
from tests.fakes.serving import ServeProcess
from tests.fakes.streaming import Streaming, wait_for
from tests.waiting import PATIENCE_S

SCRIPT = """
import time
import loaderwatch
from torch.utils.data import DataLoader
loader = loaderwatch.attach(DataLoader(list(range(64)), num_workers=2))
for _ in loader:
    time.sleep(0.02)
open({ready!r}, "w").close()
time.sleep(60)
"""

DEMO_LIMIT_S = 240.0

UMASKS = [pytest.param(0o022, marks=pytest.mark.long), 0o000]
"""What is open to others under the usual one is so under 0 too."""


def open_to_others(root: Path) -> list[str]:
    """Files and folders below that others may read or enter; sockets and links aside."""
    found = []
    for path in root.rglob("*"):
        try:
            status = path.lstat()
        except FileNotFoundError:
            continue
        if status.st_mode & 0o077 and not path.is_symlink():
            found.append(f"{status.st_mode & 0o777:o} {path.relative_to(root.parent)}")
    return found


def telling_files(root: Path, tokens_of: Path) -> list[str]:
    """Names of files below that hold a token of a data directory."""
    tokens = json.loads((tokens_of / "token.json").read_bytes()).values()
    found = []
    for path in root.rglob("*"):
        try:
            content = path.read_bytes()
        except OSError:  # a folder, or gone
            continue
        if any(token.encode() in content for token in tokens):
            found.append(path.name)
    return sorted(found)


@contextmanager
def under(umask: int) -> Iterator[None]:
    """What is started in the block makes files with this umask."""
    before = os.umask(umask)
    try:
        yield
    finally:
        os.umask(before)


def folder_open_to_others(data_dir: Path) -> Path:
    """A LOADERWATCH_DIR as people make one: everybody may enter it."""
    data_dir.mkdir()
    data_dir.chmod(0o755)
    return data_dir


@pytest.mark.parametrize("umask", UMASKS)
def test_nobody_else_reads_a_run(data_dir: Path, tmp_path: Path, umask: int) -> None:
    """A training with workers, its streamer and the server that it starts: during training and afterwards."""
    folder_open_to_others(data_dir)
    ready = tmp_path / "ready"
    script = tmp_path / "train.py"
    script.write_text(SCRIPT.format(ready=str(ready)))
    with Streaming(data_dir, None, LOADERWATCH_REDACT="1") as it:
        del it.environ["LOADERWATCH_TOKEN"]
        with under(umask):
            trainee = subprocess.Popen(
                [sys.executable, "-m", "loaderwatch", "run", str(script)],
                env=it.environ,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
        it._children.append(trainee)
        settings = load_settings(it.environ)
        wait_for(ready.exists, 90)
        wait_for(settings.server_path.exists)
        wait_for(lambda: list(settings.runs_dir.glob("*.duckdb")))
        assert list(settings.rings_dir.rglob("*.ring"))
        assert settings.rings_dir.stat().st_mode & 0o777 == 0o700
        for folder in (data_dir, settings.rings_dir):
            assert open_to_others(folder) == []
        assert telling_files(data_dir, data_dir) == ["server.json", "token.json"]
        assert telling_files(settings.rings_dir, data_dir) == []
        names = {path.name for path in data_dir.rglob("*") if path.is_file()}
        assert {"token.json", "server.json", "server.log", "serve.json", "redact.key"} <= names, "looked at"
        assert any(name.startswith("streamer-") for name in names), names

        os.killpg(trainee.pid, signal.SIGKILL)
        wait_for(lambda: not it.streamer_pids(), 60)
        for pid in it.pids("serve"):
            os.kill(pid, signal.SIGTERM)
        wait_for(lambda: not it.pids(), 30)
        assert open_to_others(data_dir) == []
        assert telling_files(data_dir, data_dir) == ["token.json"]
        assert list(settings.rings_dir.rglob("*")) == []


@pytest.mark.parametrize("umask", [0o022, 0o000])
def test_nobody_else_reads_what_a_server_keeps(data_dir: Path, umask: int) -> None:
    """One that a person started: its address, with the token, goes to the terminal alone."""
    folder_open_to_others(data_dir)
    with (
        under(umask),
        ServeProcess(data_dir, "--port", "0", "--notify", "json://127.0.0.1:9/alerts") as server,
    ):
        access = server.start()
        access.send(Feed().envelope(steps=50))
        wait_for(lambda: list(data_dir.rglob("*.duckdb")))
        assert open_to_others(data_dir) == []
        assert telling_files(data_dir, data_dir) == ["server.json", "token.json"]
        code, said, _ = server.stop()
        assert (code, access.owner in said) == (0, True)
    assert open_to_others(data_dir) == []
    assert telling_files(data_dir, data_dir) == ["token.json"]


@pytest.mark.long
@pytest.mark.timeout(DEMO_LIMIT_S + 60)
@pytest.mark.parametrize("umask", UMASKS)
def test_nobody_else_reads_the_demo(data_dir: Path, umask: int) -> None:
    """Its log had the owner's token and was open to everybody; a log of an earlier version still is."""
    folder = folder_open_to_others(data_dir) / "demo"
    log = folder / "logs" / "demo-server.log"
    log.parent.mkdir(parents=True)
    log.write_text("loaderwatch: the page is at http://127.0.0.1:8790/?token=of-old\n")
    for old in (folder, log.parent):
        old.chmod(0o755)
    log.chmod(0o644)
    rings = load_settings({"LOADERWATCH_DIR": str(folder)}).rings_dir
    command = [sys.executable, "-m", "loaderwatch", "demo", "--fast", "--acts", "healthy", "--port", "0"]
    with under(umask):
        demo = subprocess.Popen(
            [*command, "--exit"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
    try:
        wait_for(lambda: demo.poll() is not None or list(rings.rglob("worker-*.ring")), DEMO_LIMIT_S)
        assert demo.poll() is None, demo.communicate()[0]
        for place in (data_dir, rings):
            assert open_to_others(place) == []
        assert telling_files(data_dir, folder) == ["server.json", "token.json"]
        assert telling_files(rings, folder) == []
        demo.send_signal(signal.SIGINT)  # how it plays to its end is tested elsewhere
        said = demo.communicate(timeout=DEMO_LIMIT_S)[0]
    finally:
        if demo.poll() is None:
            os.killpg(demo.pid, signal.SIGKILL)
    assert demo.returncode == 130, said
    owner = json.loads((folder / "token.json").read_bytes())["owner"]
    assert f"?token={owner}" in said, "the person at the terminal gets the address"
    assert "of-old" not in log.read_text()
    assert log.read_text(), "where the page is, but not how to get in"
    assert open_to_others(data_dir) == []
    assert telling_files(data_dir, folder) == ["token.json"]


@pytest.mark.parametrize("trap", ["link", "link that leads nowhere", "file"])
def test_a_folder_that_somebody_prepared_in_shared_memory_is_not_used(
    data_dir: Path, tmp_path: Path, trap: str
) -> None:
    """Its name can be guessed. The training goes on unwatched and says why; the link is not followed."""
    script = tmp_path / "train.py"
    script.write_text(
        SCRIPT.format(ready=str(tmp_path / "ready")).replace("time.sleep(60)", "print('trained')")
    )
    with Streaming(data_dir, None) as it:
        folder = load_settings(it.environ).rings_dir
        elsewhere = tmp_path / "elsewhere"
        elsewhere.mkdir()
        if trap == "file":
            folder.touch()
        else:
            folder.symlink_to(elsewhere if trap == "link" else elsewhere / "nowhere")
        why = "it is a link" if trap == "link" else "it is no folder"
        try:
            done = subprocess.run(
                [sys.executable, str(script)],
                env=it.environ,
                capture_output=True,
                text=True,
                timeout=PATIENCE_S,
                check=False,
            )
        finally:
            folder.unlink()
        assert done.returncode == 0, done.stderr
        assert "trained" in done.stdout
        assert f"cannot write to {folder} ({why}); training goes on unwatched" in done.stderr
        assert "Traceback" not in done.stderr
        assert list(elsewhere.iterdir()) == []


@pytest.mark.long
@pytest.mark.skipif(not shutil.which("setpriv") or os.geteuid() != 0, reason="needs root and setpriv")
def test_a_folder_that_another_user_prepared_is_named(data_dir: Path, tmp_path: Path) -> None:
    """As user 65534, which may read everything, so that it finds Python anywhere; the folder is root's."""
    script = tmp_path / "train.py"
    script.write_text(
        "import os; from pathlib import Path; from loaderwatch.core.config import load_settings\n"
        "print(load_settings().rings_dir, os.getuid())\n"
        + SCRIPT.format(ready=str(tmp_path / "ready")).replace("time.sleep(60)", "print('trained')")
    )
    tmp_path.chmod(0o777)
    become = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    become += ["--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"]
    with Streaming(data_dir, None) as it:
        environ = it.environ | {"LOADERWATCH_DIR": str(tmp_path / "data"), "HOME": str(tmp_path)}
        if subprocess.run([*become, "true"], check=False, capture_output=True).returncode:
            pytest.skip("this container may not hand on capabilities")
        mark = hashlib.sha256(environ["LOADERWATCH_DIR"].encode()).hexdigest()[:8]
        folder = Path(f"/dev/shm/loaderwatch-65534-{mark}")
        folder.mkdir(mode=0o755)
        try:
            done = subprocess.run(
                [*become, sys.executable, str(script)],
                env=environ,
                capture_output=True,
                text=True,
                timeout=PATIENCE_S,
                check=False,
            )
            assert done.stdout.splitlines()[:1] == [f"{folder} 65534"], done.stderr
            assert done.stdout.endswith("trained\n")
            assert (
                f"cannot write to {folder} (it belongs to user 0, not to you); training goes on unwatched"
                in done.stderr
            )
            assert "Traceback" not in done.stderr
            assert list(folder.iterdir()) == []
        finally:
            shutil.rmtree(folder)
