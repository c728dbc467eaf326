"""Folders and files that are this user's alone."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from loaderwatch.core import files
from loaderwatch.core.files import (
    NotPrivate,
    check_own,
    opener,
    own_folder,
    private_folder,
    read_own,
    write_atomically,
)


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


@pytest.mark.parametrize("trap", ["link", "link that leads nowhere", "writable", "another user's", "a file"])
def test_traps_are_refused(tmp_path: Path, trap: str) -> None:
    path = tmp_path / "loaderwatch-1000-abc"
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    if trap == "link":
        path.symlink_to(elsewhere)
    elif trap == "link that leads nowhere":
        path.symlink_to(tmp_path / "nowhere")
    elif trap == "a file":
        path.touch()
    else:
        path.mkdir(mode=0o777 if trap == "writable" else 0o700)
    if trap == "another user's":
        if os.geteuid() != 0:
            pytest.skip("only root can give a folder away")
        os.chown(path, 12345, 12345)
    with pytest.raises(NotPrivate) as caught:
        own_folder(path)
    assert str(path) in str(caught.value)


needs_root = pytest.mark.skipif(os.name == "nt" or os.geteuid() != 0, reason="only root can give files away")
OTHER = 12345


def given(folder: Path) -> Path:
    """A file as we write it, in a folder of our own."""
    folder.mkdir(mode=0o700, exist_ok=True)
    write_atomically(folder / "token.json", b"ours")
    return folder / "token.json"


def test_what_is_our_own_is_read(tmp_path: Path) -> None:
    path = given(tmp_path / "data")
    assert read_own(path) == b"ours"
    check_own(tmp_path / "missing")
    check_own(path / "below a file")
    with pytest.raises(FileNotFoundError):
        read_own(tmp_path / "missing")
    (tmp_path / "link").symlink_to(tmp_path / "data")
    assert read_own(tmp_path / "link" / "token.json") == b"ours", (
        "a person may keep the folder on another disk"
    )
    (tmp_path / "data" / "mounted").symlink_to(path)
    assert read_own(tmp_path / "data" / "mounted") == b"ours", "as Kubernetes mounts a secret"
    path.chmod(0o644)
    (tmp_path / "data").chmod(0o755)
    assert read_own(path) == b"ours", "others may look"


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_what_others_can_change_is_not_read(tmp_path: Path, mode: int) -> None:
    path = given(tmp_path / "data")
    path.chmod(mode)
    with pytest.raises(NotPrivate, match=r"others may write to it; chmod go-w: .*token\.json"):
        read_own(path)
    path.chmod(0o600)
    path.parent.chmod(mode | 0o100)
    with pytest.raises(NotPrivate, match=r"others may write to it; chmod go-w: .*data'"):
        read_own(path)
    with pytest.raises(NotPrivate):
        check_own(path.parent)
    path.parent.chmod(0o1777)
    assert read_own(path) == b"ours", "in a folder like /tmp others can replace no file of ours"
    check_own(path.parent, sticky_too=True)
    for refuses in (check_own, own_folder):
        with pytest.raises(NotPrivate):
            refuses(path.parent)


@needs_root
def test_what_is_another_users_is_not_read(tmp_path: Path) -> None:
    path = given(tmp_path / "data")
    os.chown(path, OTHER, OTHER)
    with pytest.raises(NotPrivate, match=f"it belongs to user {OTHER}, not to you"):
        read_own(path)
    os.chown(path, 0, 0)
    os.chown(path.parent, OTHER, OTHER)
    with pytest.raises(NotPrivate, match=f"it belongs to user {OTHER}, not to you"):
        read_own(path)
    link = tmp_path / "link"
    link.symlink_to(tmp_path)
    os.chown(link, OTHER, OTHER, follow_symlinks=False)
    with pytest.raises(NotPrivate, match=f"it is a link of user {OTHER}'s"):
        check_own(link)
    link.unlink()
    link.symlink_to(tmp_path / "not there yet")
    check_own(link)
    os.chown(link, OTHER, OTHER, follow_symlinks=False)
    with pytest.raises(NotPrivate, match=f"it is a link of user {OTHER}'s"):
        check_own(link)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with names here")
def test_what_is_no_file_keeps_nobody_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "token.json", 0o600)
    with pytest.raises(NotPrivate, match="it is no file"):
        read_own(tmp_path / "token.json")
    (tmp_path / "folder").mkdir(mode=0o700)
    before = len([*Path("/dev/fd").iterdir()])
    for _ in range(3):
        with pytest.raises(IsADirectoryError):
            read_own(tmp_path / "folder")
    assert len([*Path("/dev/fd").iterdir()]) == before


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
    """Its owner could read what is written, or choose where to."""
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
