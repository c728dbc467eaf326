"""What this system offers. Linux offers all of it, other systems parts: asked here by what is there, never by a name."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Final

try:
    import resource
except ImportError:  # Windows, which does not limit the descriptors of a process
    resource = None  # type: ignore[assignment]

PROC: Final = Path("/proc")
"""What the kernel tells of processes and of the host. A directory on Linux alone."""
SHM: Final = Path("/dev/shm")
"""Files that lie in memory."""

HAS_OWNERS: Final = hasattr(os, "geteuid")
"""Files have owners and modes. Windows has access lists, and a user's own folders are closed to others from the start."""
HAS_FORK: Final = hasattr(os, "fork")
"""A shell can start a process and leave; what it inherits are descriptors by their numbers."""

DETACHED: Final[int] = getattr(subprocess, "DETACHED_PROCESS", 0)
"""For ``creationflags`` on Windows: without the console of whoever starts it, whose closing would end it."""
OWN_GROUP: Final[int] = getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)
"""The same: the Ctrl-C at that console is not for it."""

_UNLIMITED: Final = 2**20
"""Descriptors; more than any process of ours needs."""


def own_user() -> int:
    """The number under which files of this user's are found."""
    return os.geteuid() if HAS_OWNERS else 0


def has_proc() -> bool:
    """Whether processes can be looked at from outside by their files."""
    return PROC.is_dir()


def descriptor_limit() -> int:
    """How many files and connections this process may have open now."""
    if resource is None:
        return _UNLIMITED
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _UNLIMITED if soft == resource.RLIM_INFINITY else min(soft, _UNLIMITED)


def raise_descriptor_limit(wanted: int) -> int:
    """Raise it to ``wanted``, as far as it may be raised; returns what it is then. 1,024 is a usual limit, and few."""
    if resource is not None and descriptor_limit() < wanted:
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    return descriptor_limit()
