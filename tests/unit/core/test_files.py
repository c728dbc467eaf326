"""Folders and files that are this user's alone."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from loaderwatch.core import files
from loaderwatch.core.files import NotPrivate, opener, own_folder, private_folder, write_atomically


@pytest.fixture(autouse=True)
def anything_goes() -> Iterator[None]:
    """The umask that hides nothing."""
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_folders_are_made_private_all_the_way_and_others_left_alone(tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.mkdir(mode=0o755)
    made = private_folder(there / "a" / "b")
    assert mode(made) == mode(made.parent) == 0o700
    assert mode(there) == 0o755
    assert private_folder(there) == there
    assert own_folder(made) == made
    assert own_folder(there) == there, "others may look, but not put anything there"


@pytest.mark.parametrize("trap", ["link", "writable", "another user's", "a file"])
def test_traps_are_refused(tmp_path: Path, trap: str) -> None:
    path = tmp_path / "loaderwatch-1000-abc"
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    if trap == "link":
        path.symlink_to(elsewhere)
    elif trap == "a file":
        path.touch()
    else:
        path.mkdir(mode=0o777 if trap == "writable" else 0o700)
    if trap == "another user's":
        if os.geteuid() != 0:
            pytest.skip("only root can give a folder away")
        os.chown(path, 12345, 12345)
    with pytest.raises((NotPrivate, FileExistsError)) as caught:
        own_folder(path)
    assert str(path) in str(caught.value)


def test_new_files_are_private_and_links_are_not_followed(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with open(path, "ab", opener=opener) as file:
        file.write(b"x")
    assert mode(path) == 0o600
    link = tmp_path / "main-1.stack"
    link.symlink_to(tmp_path / "bashrc")
    with pytest.raises(OSError):
        opener(str(link), os.O_WRONLY | os.O_CREAT)
    assert not (tmp_path / "bashrc").exists()


def test_where_files_have_no_owners_a_folder_is_ones_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Windows has no users by number, and every mode reads as open to all."""
    monkeypatch.setattr(files, "HAS_OWNERS", False)
    monkeypatch.delattr(os, "geteuid")
    folder = tmp_path / "rings"
    folder.mkdir()
    folder.chmod(0o777)
    assert own_folder(folder) == folder
    link = tmp_path / "link"
    link.symlink_to(folder)
    with pytest.raises(NotPrivate, match="it is a link"):
        own_folder(link)


def test_a_file_that_was_open_to_others_is_replaced_by_a_private_one(tmp_path: Path) -> None:
    path = tmp_path / "server.json"
    path.write_text("old")
    path.chmod(0o644)
    write_atomically(path, b"new")
    assert path.read_text() == "new"
    assert mode(path) == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_a_draft_that_lies_there_is_not_written_into(tmp_path: Path) -> None:
    """Whoever put it there could read what is written, or choose where to."""
    path, elsewhere = tmp_path / "token.json", tmp_path / "elsewhere"
    elsewhere.write_text("theirs")
    draft = path.with_name(f"{path.name}.{threading.get_native_id()}{files.DRAFT}")
    draft.symlink_to(elsewhere)
    write_atomically(path, b"ours")
    assert (path.read_text(), elsewhere.read_text()) == ("ours", "theirs")
    assert not path.is_symlink()


def test_what_cannot_be_replaced_stays_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    path.mkdir()
    with pytest.raises(OSError):
        write_atomically(path, b"new")
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("owners", [True, False])
def test_a_file_that_is_being_read_is_replaced_a_moment_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owners: bool
) -> None:
    """On Windows, where that is refused; elsewhere a refusal is one."""
    monkeypatch.setattr(files, "HAS_OWNERS", owners)
    path = tmp_path / "file"
    tries = iter(range(2))

    def refuse_twice(one: Path, other: Path) -> Path:
        if next(tries, None) is not None:
            raise PermissionError("somebody reads it")
        return one.rename(other)

    monkeypatch.setattr(Path, "replace", refuse_twice)
    if owners:
        with pytest.raises(PermissionError):
            write_atomically(path, b"new")
        return
    write_atomically(path, b"new")
    assert path.read_text() == "new"
