"""Who holds a file lock."""

from __future__ import annotations

from pathlib import Path

from loaderwatch.streamer.samplers.procfs import FileLocks, holders

TEXT = b"""1: POSIX  ADVISORY  WRITE 11 fe:00:2285664 1073741825 1073741825
2: POSIX  ADVISORY  READ 12 fe:00:2285664 1073741826 1073742335
3: FLOCK  ADVISORY  WRITE 13 00:1b:1153870 0 EOF
3: -> FLOCK  ADVISORY  WRITE 14 00:1b:1153870 0 EOF
4: OFDLCK ADVISORY  WRITE -1 00:1b:1153870 0 EOF
5: LEASE  ACTIVE
"""


def test_those_that_exclude_others_and_no_waiters() -> None:
    assert holders(TEXT) == {11, 13}


def test_one_reading_serves_all_processes_of_a_look(tmp_path: Path) -> None:
    (tmp_path / "locks").write_bytes(TEXT)
    locks = FileLocks(tmp_path)
    assert locks.held_by(11, 1) is True
    (tmp_path / "locks").write_bytes(b"")
    assert locks.held_by(13, 1) is True
    assert locks.held_by(13, 2) is False


def test_unknown_where_the_kernel_does_not_say(tmp_path: Path) -> None:
    assert FileLocks(tmp_path).held_by(1, 1) is None
