"""File systems of a test's own: small, full or read-only, seen by this test and its processes only.

The test's thread moves into a mount namespace of its own and back, so that nothing leaks, whatever happens.
"""

from __future__ import annotations

import ctypes
import os
import stat
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import pytest

_CLONE_NEWNS: Final = 0x00020000
_CHUNK: Final = b"\0" * 4096


class Mounts:
    """What may be mounted. Made by ``own_mounts``."""

    def tmpfs(self, path: Path, size: str) -> Path:
        """An empty file system of that size at ``path``, with the mode that the folder has."""
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
        mode = stat.S_IMODE(path.stat().st_mode)
        _mount("-t", "tmpfs", "-o", f"size={size},mode={mode:o}", "none", str(path))
        return path

    def read_only(self, path: Path) -> None:
        """From now on nothing below ``path`` can be opened for writing; files that are open stay so."""
        for _ in range(50):
            _mount("--bind", str(path), str(path))
            with suppress(subprocess.CalledProcessError):
                _mount("-o", "remount,ro,bind", str(path))
                return
            self.writable(path)  # busy: somebody has just opened a file in there
            time.sleep(0.02)
        raise AssertionError(f"{path} is never idle")

    def writable(self, path: Path) -> None:
        """Take ``read_only`` back."""
        subprocess.run(["umount", "--lazy", str(path)], check=True, capture_output=True, timeout=20)

    def hide(self, path: Path) -> None:
        """Cover a directory with one that cannot be written."""
        _mount("-t", "tmpfs", "-o", "size=4k,ro,mode=755", "none", str(path))


@contextmanager
def own_mounts() -> Iterator[Mounts]:
    """Mounts within are not seen outside; skips the test where they are not allowed."""
    libc = ctypes.CDLL(None, use_errno=True)
    before = os.open("/proc/self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
    here = Path.cwd()
    try:
        if libc.unshare(_CLONE_NEWNS) != 0:
            pytest.skip(f"no mount namespace of its own: {os.strerror(ctypes.get_errno())} (needs root)")
        try:
            tried = subprocess.run(
                ["mount", "--make-rprivate", "/"], capture_output=True, text=True, timeout=20
            )
            if tried.returncode:
                pytest.skip(f"mounting is not allowed here: {tried.stderr.strip()}")
            yield Mounts()
        finally:
            assert libc.setns(before, _CLONE_NEWNS) == 0, os.strerror(ctypes.get_errno())
            os.chdir(here)
    finally:
        os.close(before)


def _mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True, capture_output=True, timeout=20)


class Ballast:
    """A file that takes all the space there is, and gives it back."""

    def __init__(self, folder: Path, *, leave: int = 0) -> None:
        self.path = folder / "ballast"
        self.leave = leave  # bytes

    def fill(self) -> None:
        """Until the file system says it is full."""
        with self.path.open("ab", buffering=0) as file, suppress(OSError):
            while True:
                file.write(_CHUNK)
        if self.leave:
            size = self.path.stat().st_size
            os.truncate(self.path, max(0, size - self.leave))

    def free(self) -> None:
        """Space again."""
        self.path.unlink(missing_ok=True)
