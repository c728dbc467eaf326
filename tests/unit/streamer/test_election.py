"""Locks between real processes."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

from loaderwatch.core.lock import is_held
from loaderwatch.streamer.election import FileLock, Office, elect, standby_missing
from loaderwatch.streamer.streamer_start import is_orphan
from tests.fakes.streaming import wait_for
from tests.waiting import PATIENCE_S

HOLD = """
import sys, time
from pathlib import Path
from loaderwatch.streamer.election import FileLock
lock = FileLock(Path(sys.argv[1]))
assert lock.try_acquire()
print("held", flush=True)
time.sleep(60)
"""


def test_one_holder_until_it_dies(tmp_path: Path) -> None:
    """The kernel gives the lock back, whatever its holder dies of."""
    path = tmp_path / "lock"
    child = subprocess.Popen([sys.executable, "-c", HOLD, str(path)], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    try:
        assert child.stdout.readline() == "held\n"
        lock = FileLock(path)
        assert not lock.try_acquire()
        child.kill()
        child.wait()
        assert lock.acquire()
        assert is_held(path)
        lock.release()
    finally:
        child.kill()
        child.wait()
        child.stdout.close()


def test_active_standby_and_one_too_many(tmp_path: Path) -> None:
    """The second waits, the third learns that it is not needed."""
    assert is_orphan(tmp_path / "gone")
    assert is_orphan(tmp_path)
    (tmp_path / f"main-{os.getpid()}.ring").touch()
    assert not is_orphan(tmp_path)  # its first streamer is on its way
    first = elect(tmp_path)
    assert first is not None
    assert not first.inherited
    assert standby_missing(tmp_path)
    heirs: list[Office | None] = []
    waiting = threading.Thread(target=lambda: heirs.append(elect(tmp_path)))
    waiting.start()
    wait_for(lambda: not standby_missing(tmp_path))
    assert elect(tmp_path) is None
    assert not is_orphan(tmp_path)
    first.lock.release()
    waiting.join(PATIENCE_S)
    assert heirs[0] is not None
    assert heirs[0].inherited
    heirs[0].lock.release()
    assert is_orphan(tmp_path)


def test_a_lock_on_a_file_that_was_removed_does_not_count(tmp_path: Path) -> None:
    """The end of a run removes the folder; who waited must not believe it is the one."""
    folder = tmp_path / "run"
    folder.mkdir()
    first = elect(folder)
    assert first is not None
    heirs: list[Office | None] = []
    waiting = threading.Thread(target=lambda: heirs.append(elect(folder)))
    waiting.start()
    wait_for(lambda: not standby_missing(folder))
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()
    first.lock.release()
    waiting.join(PATIENCE_S)
    assert heirs == [None]
