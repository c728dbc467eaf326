"""What a run and its server leave on the disk and in shared memory is the user's own, whatever the umask."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from loaderwatch.core.config import load_settings
from tests.fakes.streaming import Streaming, wait_for

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


def open_to_others(root: Path) -> list[str]:
    """Files and folders below, and the root itself, that others may read or enter; sockets and links aside."""
    found = []
    for path in [root, *root.rglob("*")]:
        try:
            status = path.lstat()
        except FileNotFoundError:
            continue
        if status.st_mode & 0o077 and not path.is_symlink():
            found.append(f"{status.st_mode & 0o777:o} {path.relative_to(root.parent)}")
    return found


def test_nobody_else_reads_a_run(data_dir: Path, tmp_path: Path) -> None:
    """A training with workers, streamer and server, all of them started with umask 0."""
    ready = tmp_path / "ready"
    script = tmp_path / "train.py"
    script.write_text(SCRIPT.format(ready=str(ready)))
    with Streaming(data_dir, None) as it:
        del it.environ["LOADERWATCH_TOKEN"]
        trainee = subprocess.Popen(
            [sys.executable, str(script)],
            env=it.environ,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            umask=0,
        )
        it._children.append(trainee)
        settings = load_settings(it.environ)
        wait_for(ready.exists, 90)
        wait_for(settings.server_path.exists, 60)
        wait_for(lambda: list(settings.runs_dir.glob("*.duckdb")), 60)
        assert list(settings.rings_dir.rglob("*.ring"))
        assert open_to_others(settings.data_dir) == []
        assert open_to_others(settings.rings_dir) == []
        names = {path.name for path in settings.data_dir.rglob("*") if path.is_file()}
        assert {"token.json", "server.json", "server.log", "serve.json"} <= names, "these were looked at"


def test_a_folder_that_somebody_prepared_in_shared_memory_is_not_used(data_dir: Path, tmp_path: Path) -> None:
    """Its name can be guessed. The training goes on unwatched and says why; nothing is written through the link."""
    script = tmp_path / "train.py"
    script.write_text(
        SCRIPT.format(ready=str(tmp_path / "ready")).replace("time.sleep(60)", "print('trained')")
    )
    with Streaming(data_dir, None) as it:
        folder = load_settings(it.environ).rings_dir
        elsewhere = tmp_path / "elsewhere"
        elsewhere.mkdir()
        folder.symlink_to(elsewhere)
        try:
            done = subprocess.run(
                [sys.executable, str(script)],
                env=it.environ,
                capture_output=True,
                text=True,
                timeout=90,
                check=False,
            )
        finally:
            folder.unlink()
        assert done.returncode == 0, done.stderr
        assert "trained" in done.stdout
        assert f"cannot write to {folder} (it is a link); training goes on unwatched" in done.stderr
        assert "Traceback" not in done.stderr
        assert list(elsewhere.iterdir()) == []


@pytest.mark.long
@pytest.mark.skipif(not shutil.which("setpriv") or os.geteuid() != 0, reason="needs root and setpriv")
def test_a_folder_that_another_user_prepared_is_named(data_dir: Path, tmp_path: Path) -> None:
    """As user 65534, who may read everything so that it finds Python wherever that is; the folder is root's."""
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
                timeout=90,
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
