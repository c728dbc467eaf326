"""Which facilities this operating system has: Linux has all of them. We test for each one, never for the system's name.

Also how Linux names the kernel functions in which a process waits.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from pathlib import Path
from typing import Final

try:
    import resource
except ImportError:  # Windows, which does not limit the descriptors of a process
    resource = None  # type: ignore[assignment]

PROC: Final = Path("/proc")
"""The kernel's files on processes and on the host, which only Linux has."""
SHM: Final = Path("/dev/shm")
"""The folder whose files lie in memory."""

HAS_OWNERS: Final = hasattr(os, "geteuid")
"""Whether files have owners and modes. Windows has access lists instead, and closes a user's folders to others by default."""
HAS_FORK: Final = hasattr(os, "fork")
"""Whether processes can fork: then a shell can start a process and leave, and descriptors are inherited by number."""

DETACHED: Final[int] = getattr(subprocess, "DETACHED_PROCESS", 0)
"""The ``creationflags`` (Windows) that keep a process off its parent's console, whose closing would end it."""
OWN_GROUP: Final[int] = getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)
"""The ``creationflags`` (Windows) that keep a Ctrl-C at that console away from a process."""

_UNLIMITED: Final = 2**20
"""The number of descriptors that stands for no limit, more than any process of ours needs."""

# What a process waits for, by the name of the kernel function in which it stands (/proc/<pid>/wchan)
FILE_LOCK_FUNCTIONS: Final = ("locks_lock_inode", "fcntl_setlk", "flock")
"""Parts of the names of the kernel functions in which a process waits for a file lock."""
LOCK_FUNCTIONS: Final = ("futex", *FILE_LOCK_FUNCTIONS)
"""The same of any lock."""
TIMER_FUNCTIONS: Final = ("nanosleep", "nsleep")
"""Parts of the names of those in which it sleeps for a set time, as it does between two tries to get a lock."""
SOCKET_FUNCTIONS: Final = ("sk_", "tcp", "inet", "unix", "wait_woken")
"""Parts of the names of those in which it waits for a connection."""
PIPE_FUNCTIONS: Final = ("pipe",)
"""Parts of the names of those in which it waits for a pipe."""
CHILD_FUNCTIONS: Final = ("do_wait",)
"""Parts of the name of that in which it waits for a child process to end: waitpid(), kernel/exit.c of Linux."""
ANSWER_FUNCTIONS: Final = (
    *SOCKET_FUNCTIONS,
    *PIPE_FUNCTIONS,
    *CHILD_FUNCTIONS,
    *("skb_wait", "poll", "select"),  # datagrams, and whichever of several comes first
)
"""Parts of the names of those in which it waits for another process, or for another machine."""
_FUTEX: Final = "futex"


def own_user() -> int:
    """Return this user's id, 0 where the system has none."""
    return os.geteuid() if HAS_OWNERS else 0


def has_proc() -> bool:
    """Whether the system tells of processes by files in /proc."""
    return PROC.is_dir()


def boot_id(proc: Path = PROC) -> str | None:
    """Return the id of this boot of the host, None where the system has none; monotonic times of another boot mean nothing."""
    try:
        return (proc / "sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return None


def pid_in_use(pid: int) -> bool:
    """Whether a process has this id, another user's included, which psutil does not see where /proc hides it (hidepid)."""
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
    """Raise the limit to ``wanted``, or as far as the system allows; return the limit then (1,024 is usual, and few)."""
    if resource is not None and descriptor_limit() < wanted:
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    return descriptor_limit()


def usable_cpus(fs_root: Path = Path("/")) -> float:
    """Return how many CPUs this process may use at once: its affinity, and a container's quota."""
    cpus = float(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)
    with contextlib.suppress(OSError, ValueError):  # no quota; "max" stands for none
        quota, period = (fs_root / "sys/fs/cgroup/cpu.max").read_text("ascii").split()
        cpus = min(cpus, int(quota) / int(period))
    return cpus


def free_memory_bytes(fs_root: Path = Path("/")) -> int:
    """Return how much memory processes can still take, a container's limit included."""
    import psutil  # only who asks for this needs it

    free = int(psutil.virtual_memory().available)
    groups = fs_root / "sys/fs/cgroup"
    for limit, used in (
        ("memory.max", "memory.current"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
    ):
        with contextlib.suppress(OSError, ValueError):  # no such limit; "max" stands for none
            free = min(free, int((groups / limit).read_text()) - int((groups / used).read_text()))
    return max(0, free)


def waits_in(functions: tuple[str, ...], wchan: str | None) -> bool:
    """Return whether the kernel function is one of these; False where none is known.

    A futex is nothing else, however its function is called: newer kernels say ``futex_do_wait``, and ``do_wait`` alone is
    that of ``waitpid()``.
    """
    if wchan is None or (_FUTEX in wchan and _FUTEX not in functions):
        return False
    return any(name in wchan for name in functions)
