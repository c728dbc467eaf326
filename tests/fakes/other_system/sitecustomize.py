"""On PYTHONPATH, makes every Python look like another system, or like another PyTorch, to its scripts.

OTHER_SYSTEM is "macos", "windows" or "torch" (a PyTorch with other private names). Names that the system does
not have are deleted, so that their use fails as it would there. /proc and /dev/shm are missing. On
"windows" open or mapped files can neither be renamed nor removed, and locks are msvcrt's.

``sys.platform`` and ``os.name`` stay: too much of Python's own library goes by them.
"""

from __future__ import annotations

import errno
import fcntl
import importlib
import importlib.util
import multiprocessing.context
import os
import sys
import types
from collections.abc import Callable
from importlib.abc import MetaPathFinder
from pathlib import Path
from typing import Any

import psutil  # noqa: F401 - while it finds what it needs of Linux

from loaderwatch.core import system

NOWHERE = Path("/nowhere")
REAL_PROC = Path("/proc")

NOT_ON_MACOS: dict[str, tuple[str, ...]] = {
    "os": ("posix_fallocate", "sched_getaffinity", "sched_setaffinity", "pidfd_open"),
    "signal": ("SIGRTMIN", "SIGRTMAX", "pidfd_send_signal"),
    "time": ("CLOCK_BOOTTIME",),
    "mmap": ("MAP_POPULATE",),
}
NOT_ON_WINDOWS: dict[str, tuple[str, ...]] = {
    "os": (
        *("fork", "forkpty", "killpg", "setsid", "getpgid", "wait3", "wait4"),
        *("getuid", "geteuid", "getgid", "getegid", "chown", "lchown", "getloadavg"),
        *("statvfs", "fstatvfs", "fchmod", "pread", "pwrite", "mkfifo", "set_blocking", "posix_spawn"),
        *("O_CLOEXEC", "O_NOFOLLOW", "O_NONBLOCK", "O_NOCTTY", "O_DIRECTORY", "O_SYNC"),
    ),
    "signal": ("SIGHUP", "SIGUSR1", "SIGUSR2", "SIGALRM", "SIGSTOP", "SIGCONT", "alarm", "setitimer"),
    "time": ("clock_gettime", "clock_gettime_ns", "CLOCK_MONOTONIC", "CLOCK_MONOTONIC_RAW"),
    "faulthandler": ("register", "unregister"),
}
NO_MODULES_ON_WINDOWS = ("fcntl", "resource", "pwd", "grp", "termios")


def take_away(names: dict[str, tuple[str, ...]]) -> None:
    """Delete names from modules of Python's library."""
    for module_name, attributes in names.items():
        module = importlib.import_module(module_name)
        for attribute in attributes:
            if hasattr(module, attribute):
                delattr(module, attribute)


def start_workers_anew() -> None:
    """What multiprocessing does where it does not fork."""
    context = multiprocessing.context
    context._default_context._default_context = (  # type: ignore[attr-defined]
        context._concrete_contexts["spawn"]  # type: ignore[attr-defined]
    )


def uncountable_semaphores() -> None:
    """``sem_getvalue`` is missing on macOS, and with it the size of a queue."""
    _multiprocessing: Any = importlib.import_module("_multiprocessing")

    class SemLock(_multiprocessing.SemLock):  # type: ignore[misc]
        def _get_value(self) -> int:
            raise NotImplementedError

    _multiprocessing.SemLock = SemLock


def like_macos() -> None:
    """No /proc, no real-time signals, no affinity."""
    take_away(NOT_ON_MACOS)
    start_workers_anew()
    uncountable_semaphores()


def like_windows() -> None:
    """No users, no fork, no signals to speak of; open files stay where they are."""
    msvcrt = types.ModuleType("msvcrt")
    msvcrt.LK_NBLCK, msvcrt.LK_UNLCK = 2, 0  # type: ignore[attr-defined]
    flock, exclusive = fcntl.flock, fcntl.LOCK_EX | fcntl.LOCK_NB

    def locking(fd: int, mode: int, size: int) -> None:
        assert (mode, size) == (2, 1)
        try:
            flock(fd, exclusive)
        except BlockingIOError:
            raise PermissionError(errno.EACCES, "Permission denied") from None

    msvcrt.locking = locking  # type: ignore[attr-defined]
    take_away(NOT_ON_MACOS)
    take_away(NOT_ON_WINDOWS)
    for name in NO_MODULES_ON_WINDOWS:
        sys.modules[name] = None  # type: ignore[assignment]
    sys.modules["msvcrt"] = msvcrt  # subprocess, which goes by it, has been imported
    start_workers_anew()
    refuse_what_is_open()


def refuse_what_is_open() -> None:
    """Renaming and removing fail for files of ours that a process of this test has open or mapped."""
    ours = os.environ["LOADERWATCH_DIR"]

    def refuse(path: Any, who_has: Callable[[str], bool]) -> None:
        name = os.path.realpath(path) if isinstance(path, (str, os.PathLike)) else ""
        if name.startswith(ours) and who_has(name):
            text = "The process cannot access the file because it is being used by another process"
            raise PermissionError(errno.EACCES, text, str(path))

    def removing(own: Any) -> Any:
        def remove(path: Any, **more: Any) -> None:
            refuse(path, lambda name: _is_open(name) or _is_mapped(name))
            own(path, **more)

        return remove

    def renaming(own: Any) -> Any:
        def rename(source: Any, target: Any, **more: Any) -> None:
            refuse(source, lambda name: _is_open(name) or _is_mapped(name))
            refuse(
                target, _is_mapped
            )  # one that is only read is read for a moment, and would be a matter of luck
            own(source, target, **more)

        return rename

    os.unlink, os.remove = removing(os.unlink), removing(os.remove)
    os.rename, os.replace = renaming(os.rename), renaming(os.replace)


def _processes() -> list[Path]:
    mark = f"LOADERWATCH_DIR={os.environ['LOADERWATCH_DIR']}\0".encode()
    found = []
    for process in REAL_PROC.glob("[0-9]*"):
        try:
            if mark in (process / "environ").read_bytes():
                found.append(process)
        except OSError:
            continue
    return found


def _is_open(name: str) -> bool:
    for process in _processes():
        try:
            for fd in (process / "fd").iterdir():
                if os.path.samefile(fd, name):  # noqa: PTH121 - of what a descriptor leads to
                    return True
        except OSError:
            continue
    return False


def _is_mapped(name: str) -> bool:
    for process in _processes():
        try:
            if any(line.endswith(f" {name}") for line in (process / "maps").read_text().splitlines()):
                return True
        except OSError:
            continue
    return False


class OtherTorch(MetaPathFinder):
    """Removes private names from PyTorch's DataLoader after its import, and attributes from its iterators."""

    NAME = "torch.utils.data.dataloader"

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> Any:
        if fullname != self.NAME:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        assert spec is not None
        loader: Any = spec.loader
        execute = loader.exec_module

        def exec_module(module: Any) -> None:
            execute(module)
            rename(module)

        loader.exec_module = exec_module
        return spec


def rename(module: Any) -> None:
    """Other names for what is private; of the iterators, only for who is not PyTorch."""
    del module._BaseDataLoaderIter  # its subclasses keep it as their base
    hidden = {
        "_task_info",
        "_worker_result_queue",
        "_rcvd_idx",
        "_tasks_outstanding",
        "_data_queue",
        "_workers",
    }
    own = module._MultiProcessingDataLoaderIter

    def __getattribute__(self: Any, name: str) -> Any:
        if name in hidden and sys._getframe(1).f_globals.get("__name__", "").startswith("loaderwatch"):
            raise AttributeError(name)
        return object.__getattribute__(self, name)

    own.__getattribute__ = __getattribute__


def other_torch() -> None:
    """Names that we use and that nobody promised us."""
    sys.meta_path.insert(0, OtherTorch())


WHICH = os.environ.get("OTHER_SYSTEM")
if WHICH in ("macos", "windows"):
    system.PROC = NOWHERE  # type: ignore[misc]
    system.SHM = NOWHERE  # type: ignore[misc]
    {"macos": like_macos, "windows": like_windows}[WHICH]()
    # what was read from the names above before they were taken away:
    system.HAS_OWNERS = hasattr(os, "geteuid")  # type: ignore[misc]
    system.HAS_FORK = hasattr(os, "fork")  # type: ignore[misc]
elif WHICH == "torch":
    other_torch()
