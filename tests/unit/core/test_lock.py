"""Lock files on a system without ``flock``: Windows, whose locks are exclusive and whose waiting gives up."""

from __future__ import annotations

import errno
import fcntl
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from loaderwatch.core import lock
from loaderwatch.streamer import election
from loaderwatch.streamer.election import FileLock, clear_away, elect
from tests.waiting import PATIENCE_S


def locking(fd: int, mode: int, size: int) -> None:
    """``msvcrt.locking``, without waiting."""
    assert (mode, size) == (2, 1)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise PermissionError(errno.EACCES, "Permission denied") from None


@pytest.fixture(autouse=True)
def no_flock(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on Windows."""
    monkeypatch.setattr(lock, "fcntl", None)
    monkeypatch.setattr(lock, "msvcrt", SimpleNamespace(locking=locking, LK_NBLCK=2), raising=False)
    monkeypatch.setattr(lock, "_ASK_AGAIN_S", 0.01)
    monkeypatch.setattr(election, "HELD_FILES_STAY", True)


def test_a_lock_is_asked_for_taken_and_given_up(tmp_path: Path) -> None:
    path = tmp_path / "a.lock"
    assert not lock.is_held(path)
    mine, other = FileLock(path), FileLock(path)
    assert mine.try_acquire()
    assert lock.is_held(path)
    assert not other.try_acquire()
    mine.release()
    assert not lock.is_held(path)
    assert other.try_acquire()
    other.release()


def test_a_standby_waits_as_long_as_it_takes(tmp_path: Path) -> None:
    """Windows' own waiting, and any standby in it, ends after 10 s. Here a hundred tries stand for ten."""
    active = elect(tmp_path)
    assert active is not None
    offices: list[election.Office | None] = []
    standing_by = threading.Event()
    heir = threading.Thread(target=lambda: offices.append(elect(tmp_path, standing_by.set)))
    heir.start()
    assert standing_by.wait(PATIENCE_S)
    time.sleep(1.0)
    assert heir.is_alive()
    active.lock.release()
    heir.join(PATIENCE_S)
    assert offices[0] is not None
    assert offices[0].inherited
    offices[0].lock.release()


def test_the_last_to_leave_clears_the_folder_away(tmp_path: Path) -> None:
    """A held lock file cannot be removed, so the end of a run leaves it. A folder with more files stays."""
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "streamer.lock").touch()
    (folder / "main-1.ring").touch()
    clear_away(folder)
    assert {path.name for path in folder.iterdir()} == {"main-1.ring", "streamer.lock"}
    (folder / "main-1.ring").unlink()
    clear_away(folder)
    assert not folder.exists()
    clear_away(folder)
