"""The file system that the job fills: its free space, and by how much that falls with each save.

The job fills a file system if its free space reaches new lows while the training processes write at least
half of the loss. A look at a file system may hang if its server is dead, so a thread does it.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import psutil

LOOK_NS: Final = 2_000_000_000
LEAST_FALL: Final = 4 << 20  # bytes below the last low; smaller falls are logs
HANGS_NS: Final = 30_000_000_000
"""From this duration on a look hangs, and older results are no longer reported."""
KEPT: Final = 64  # saves from which the usual one is computed
LEAST_SAVES: Final = 3
STEADY_NS: Final = 60_000_000_000
"""A disk that falls in every look for this long is filled steadily, not by one save."""
LATE: Final = 3.0
"""This many usual intervals without a new low mean that the job deletes as much as it writes."""
NO_FOLDERS: Final = ("/dev/", "/proc/", "/sys/")
NO_DISKS: Final = frozenset(
    {"proc", "sysfs", "devtmpfs", "devpts", "cgroup", "cgroup2", "autofs", "mqueue", "squashfs"}
)


@dataclass(frozen=True, slots=True)
class Filling:
    """A file system that the job fills."""

    path: str  # where it is mounted
    total_bytes: int
    free_bytes: int
    bytes_per_s: float
    save_bytes: float | None  # of one save; None if the disk fills without pauses
    seen_s: float  # how long the disk has been filling like this

    @property
    def left_s(self) -> float:
        """Return the seconds until it is full."""
        return self.free_bytes / self.bytes_per_s


@dataclass(slots=True)
class _Save:
    """A series of looks, each of which found a new low of the free space."""

    began_ns: int
    ended_ns: int
    before_bytes: int
    after_bytes: int


@dataclass(slots=True)
class _Disk:
    low_bytes: int
    written_bytes: float  # by the job, when the low was reached
    looked_ns: int
    saves: deque[_Save] = field(default_factory=lambda: deque(maxlen=KEPT))


class Disks:
    """What is known of each file system between looks."""

    def __init__(self) -> None:
        self._disks: dict[str, _Disk] = {}

    def look(
        self, spaces: Mapping[str, tuple[int, int]], written_bytes: float, now_ns: int
    ) -> Filling | None:
        """Return the file system that is full first if the job goes on like this; None if it fills none.

        ``spaces``: (total, free) in bytes by mount point. ``written_bytes``: what the job has written so far.
        """
        filling = [
            one
            for path, (total, free) in spaces.items()
            if (one := self._look_at(path, total, free, written_bytes, now_ns)) is not None
        ]
        return min(filling, key=lambda one: one.left_s, default=None)

    def _look_at(self, path: str, total: int, free: int, written: float, now_ns: int) -> Filling | None:
        disk = self._disks.get(path)
        if disk is None or written < disk.written_bytes:  # a restarted job counts from 0
            self._disks[path] = _Disk(free, written, now_ns)
            return None
        fall = disk.low_bytes - free
        if fall >= LEAST_FALL:
            if 2 * (written - disk.written_bytes) >= fall:
                last = disk.saves[-1] if disk.saves else None
                if last is not None and last.ended_ns == disk.looked_ns:
                    last.ended_ns, last.after_bytes = now_ns, free
                else:
                    if _is_over(disk.saves, now_ns):
                        disk.saves.clear()
                    disk.saves.append(_Save(disk.looked_ns, now_ns, disk.low_bytes, free))
            disk.low_bytes, disk.written_bytes = free, written
        disk.looked_ns = now_ns
        trend = _trend(disk.saves, now_ns) if disk.saves else None
        return (
            None
            if trend is None
            else Filling(path, total, free, *trend, (now_ns - disk.saves[0].began_ns) / 1e9)
        )


def _is_over(saves: deque[_Save], now_ns: int) -> bool:
    """Whether no save came for far longer than usual; the next save starts a new series."""
    return len(saves) >= LEAST_SAVES and now_ns - saves[-1].ended_ns > LATE * _every_ns(saves)


def _every_ns(saves: deque[_Save]) -> float:
    return (saves[-1].ended_ns - saves[0].ended_ns) / (len(saves) - 1)


def _trend(saves: deque[_Save], now_ns: int) -> tuple[float, float | None] | None:
    """Return how many bytes a disk loses per second and per save; None if it loses none."""
    first, last = saves[0], saves[-1]
    if len(saves) >= LEAST_SAVES:
        bytes_per_save = (first.after_bytes - last.after_bytes) / (len(saves) - 1)
        return None if _is_over(saves, now_ns) else (bytes_per_save / _every_ns(saves) * 1e9, bytes_per_save)
    lasted = last.ended_ns - last.began_ns
    if lasted < STEADY_NS or last.ended_ns != now_ns:
        return None
    return (last.before_bytes - last.after_bytes) / lasted * 1e9, None


class DiskSampler:
    """Looks at the file systems every two seconds, in a thread of its own."""

    def __init__(self) -> None:
        self._disks = Disks()
        self._looked_ns: int | None = None
        self._thread: threading.Thread | None = None
        self.filling: Filling | None = None
        """The file system that is full first, as of the last finished look."""

    @property
    def looks(self) -> bool:
        """Whether a look is under way."""
        return self._thread is not None and self._thread.is_alive()

    def sample(self, written_bytes: float, now_ns: int) -> None:
        """Begin a look if one is due and none is under way."""
        if self._looked_ns is not None and now_ns - self._looked_ns < LOOK_NS:
            return
        if self.looks:
            if self._looked_ns is not None and now_ns - self._looked_ns > HANGS_NS:
                self.filling = None
            return
        self._looked_ns = now_ns
        self._thread = threading.Thread(
            target=self._look, args=(written_bytes, now_ns), name="loaderwatch-disks", daemon=True
        )
        self._thread.start()

    def _look(self, written_bytes: float, now_ns: int) -> None:
        self.filling = self._disks.look(read_spaces(), written_bytes, now_ns)


def read_spaces() -> dict[str, tuple[int, int]]:
    """Return total and free bytes of each file system that this process can write to, by mount point.

    A file system with several mount points counts once, under its shortest path. Shared memory is left out.
    """
    spaces: dict[str, tuple[int, int]] = {}
    seen: set[int] = set()
    try:
        mounts = psutil.disk_partitions(all=True)
    except (psutil.Error, OSError):
        return spaces
    for mount in sorted(mounts, key=lambda mount: len(mount.mountpoint)):
        path = mount.mountpoint
        if mount.fstype in NO_DISKS or "ro" in mount.opts.split(",") or path.startswith(NO_FOLDERS):
            continue
        try:
            device = Path(path).stat().st_dev
            space = psutil.disk_usage(path) if device not in seen and Path(path).is_dir() else None
        except OSError:
            continue
        seen.add(device)
        if space is not None and space.total:
            spaces[path] = (space.total, space.free)
    return spaces
