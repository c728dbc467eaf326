"""Which facilities this operating system has: Linux has all. Each one is tested for, never the system's name.

Also the names of Linux kernel functions in which a process waits.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from pathlib import Path
from typing import Final

try:
    import resource
except ImportError:  # Windows, which has no limit on a process's descriptors
    resource = None  # type: ignore[assignment]

PROC: Final = Path("/proc")
"""The kernel's files on processes and on the host; only Linux has them."""
SHM: Final = Path("/dev/shm")
"""The folder for files in memory."""

HAS_OWNERS: Final = hasattr(os, "geteuid")
"""Whether files have owners and modes. Windows has access lists, which protect user folders by default."""
HAS_FORK: Final = hasattr(os, "fork")
"""Whether processes can fork. Then a shell can start a process and exit; descriptors keep their numbers."""

DETACHED: Final[int] = getattr(subprocess, "DETACHED_PROCESS", 0)
"""The ``creationflags`` (Windows) that detach a process from its parent's console, whose end would end it."""
OWN_GROUP: Final[int] = getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)
"""The ``creationflags`` (Windows) that protect a process from a Ctrl-C at that console."""

_UNLIMITED: Final = 2**20
"""The number of descriptors for "no limit"; no process of ours needs more."""

# The following constants are parts of names of kernel functions in which a process waits (/proc/<pid>/wchan).
FILE_LOCK_FUNCTIONS: Final = ("locks_lock_inode", "fcntl_setlk", "flock")
"""Waiting for a file lock."""
LOCK_FUNCTIONS: Final = ("futex", *FILE_LOCK_FUNCTIONS)
"""Waiting for any lock."""
TIMER_FUNCTIONS: Final = ("nanosleep", "nsleep")
"""Sleeping for a set time, as between two tries to get a lock."""
SOCKET_FUNCTIONS: Final = ("sk_", "tcp", "inet", "unix", "wait_woken")
"""Waiting for a connection."""
PIPE_FUNCTIONS: Final = ("pipe",)
"""Waiting for a pipe."""
CHILD_FUNCTIONS: Final = ("do_wait",)
"""Waiting for a child process to end: waitpid(), kernel/exit.c of Linux."""
ANSWER_FUNCTIONS: Final = (
    *SOCKET_FUNCTIONS,
    *PIPE_FUNCTIONS,
    *CHILD_FUNCTIONS,
    *("skb_wait", "poll", "select"),  # datagrams, and the first of several events
)
"""Waiting for another process, or for another machine."""
_FUTEX: Final = "futex"


def own_user() -> int:
    """Return this user's id, 0 where the system has none."""
    return os.geteuid() if HAS_OWNERS else 0


def has_proc() -> bool:
    """Whether the system has files on processes in /proc."""
    return PROC.is_dir()


def boot_id(proc: Path = PROC) -> str | None:
    """Return the id of this boot, None without one. Monotonic times of another boot mean nothing."""
    try:
        return (proc / "sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return None


def pid_in_use(pid: int) -> bool:
    """Whether a process has this id, also another user's that hidepid on /proc hides from psutil."""
    if not HAS_OWNERS:
        import psutil  # on Windows this signal would be a Ctrl-C

        return bool(psutil.pid_exists(pid))
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:  # it is another user's
        return True
    return True


def descriptor_limit() -> int:
    """Return how many files and connections this process may have open now."""
    if resource is None:
        return _UNLIMITED
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _UNLIMITED if soft == resource.RLIM_INFINITY else min(soft, _UNLIMITED)


def raise_descriptor_limit(wanted: int) -> int:
    """Raise the limit to ``wanted``, or as far as the system allows; return it (1,024 is usual)."""
    if resource is not None and descriptor_limit() < wanted:
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    return descriptor_limit()


def usable_cpus(fs_root: Path = Path("/")) -> float:
    """Return how many CPUs this process may use at once, by its affinity and a container's quota."""
    cpus = float(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)
    with contextlib.suppress(OSError, ValueError):  # there is no quota; "max" means none
        quota, period = (fs_root / "sys/fs/cgroup/cpu.max").read_text("ascii").split()
        cpus = min(cpus, int(quota) / int(period))
    return cpus


def free_memory_bytes(fs_root: Path = Path("/")) -> int:
    """Return how much memory processes can still take, with respect to a container's limit."""
    import psutil  # imported here, because few callers need it

    free = int(psutil.virtual_memory().available)
    groups = fs_root / "sys/fs/cgroup"
    for limit, used in (
        ("memory.max", "memory.current"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
    ):
        with contextlib.suppress(OSError, ValueError):  # there is no such limit; "max" means none
            free = min(free, int((groups / limit).read_text()) - int((groups / used).read_text()))
    return max(0, free)


def waits_in(functions: tuple[str, ...], wchan: str | None) -> bool:
    """Return whether the kernel function is one of these; False where it is not known.

    A futex counts only as a futex, whatever the function's name: newer kernels use ``futex_do_wait``, while
    ``do_wait`` alone belongs to ``waitpid()``.
    """
    if wchan is None or (_FUTEX in wchan and _FUTEX not in functions):
        return False
    return any(name in wchan for name in functions)
