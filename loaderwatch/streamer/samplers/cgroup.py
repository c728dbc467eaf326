"""CPU and memory limits of a process's control groups, v1 and v2.

A container's limit does not show in ``os.cpu_count`` or the affinity mask. Yet once its quota is used up, all
threads of the group stop for the rest of the period (Linux, Documentation/scheduler/sched-bwc.rst).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

NO_LIMIT: Final = 2**60
"""A v1 memory limit above this means that none was set: the kernel reports about 2**63, rounded to pages."""


@dataclass(frozen=True, slots=True)
class CpuLimit:
    """The tightest CPU quota of a process."""

    quota_cpus: float
    periods: int | None  # count so far
    throttled_periods: int | None


@dataclass(frozen=True, slots=True)
class MemoryLimit:
    """The tightest memory limit of a process. A field is None if the kernel does not report it."""

    limit_bytes: int
    used_bytes: int | None  # without page cache that can be dropped at once
    oom_kills: int | None  # count so far
    hits: int | None = None  # how often so far the limit was reached and memory was reclaimed


@dataclass(frozen=True, slots=True)
class _Mount:
    version: int
    root: str  # the mounted part of the hierarchy
    point: Path


def find_cpu_groups(pid: int, proc_root: Path, fs_root: Path) -> list[Path]:
    """Return the folders of the control groups that may limit a process's CPU, innermost first."""
    return find_groups(pid, "cpu", proc_root, fs_root)


def find_groups(pid: int, controller: str, proc_root: Path, fs_root: Path) -> list[Path]:
    """Return the folders of a process's control groups for a controller ("cpu", "memory"), innermost first.

    The ancestors are included, because their limits hold too. Mount points lie below ``fs_root``.
    """
    try:
        memberships = (proc_root / str(pid) / "cgroup").read_text("utf-8", "replace")
        mounts = _mounts(
            controller, (proc_root / str(pid) / "mountinfo").read_text("utf-8", "replace"), fs_root
        )
    except OSError:
        return []
    folders: list[Path] = []
    for line in memberships.splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        version = 2 if number == "0" and not controllers else 1
        if version == 1 and controller not in controllers.split(","):
            continue
        for mount in mounts:
            if mount.version == version:
                folders += _levels(mount, path)
                break
    return folders


def read_cpu_limit(folders: list[Path]) -> CpuLimit | None:
    """Return the tightest quota of the folders; None if there is none."""
    tightest: tuple[float, Path] | None = None
    for folder in folders:
        quota = _quota(folder)
        if quota is not None and (tightest is None or quota < tightest[0]):
            tightest = quota, folder
    if tightest is None:
        return None
    counts = _counts(tightest[1], "cpu.stat")
    return CpuLimit(tightest[0], counts.get("nr_periods"), counts.get("nr_throttled"))


def read_memory_limit(folders: list[Path]) -> MemoryLimit | None:
    """Return the tightest memory limit of the folders; None if there is none."""
    tightest: tuple[int, Path] | None = None
    for folder in folders:
        limit = _first_number(folder, "memory.max", "memory.limit_in_bytes")
        if limit is not None and limit < NO_LIMIT and (tightest is None or limit < tightest[0]):
            tightest = limit, folder
    if tightest is None:
        return None
    limit, folder = tightest
    used = _first_number(folder, "memory.current", "memory.usage_in_bytes")
    stat = _counts(folder, "memory.stat")
    if used is not None:
        used -= stat.get("total_inactive_file", stat.get("inactive_file", 0))  # as kubelet counts it
    hits = _counts(folder, "memory.events").get("max")  # v2; v1 has a file for it
    if hits is None:
        hits = _first_number(folder, "memory.failcnt")
    return MemoryLimit(limit, None if used is None else max(0, used), read_oom_kills([folder]), hits)


def read_oom_kills(folders: list[Path]) -> int | None:
    """Return how often the kernel killed a process of the innermost group for memory; None if unknown."""
    for folder in folders[:1]:
        for name in ("memory.events", "memory.oom_control"):
            kills = _counts(folder, name).get("oom_kill")
            if kills is not None:
                return kills
    return None


def _first_number(folder: Path, *names: str) -> int | None:
    for name in names:
        try:
            text = (folder / name).read_text("ascii").strip()
        except (OSError, UnicodeDecodeError):
            continue
        return int(text) if text.isdecimal() else None
    return None


def _mounts(controller: str, mountinfo: str, fs_root: Path) -> list[_Mount]:
    mounts = []
    for line in mountinfo.splitlines():
        mount_part, separator, type_part = line.partition(" - ")
        fields, tail = mount_part.split(), type_part.split()
        if not separator or len(fields) < 5 or len(tail) < 3:
            continue
        point = fs_root / _unescape(fields[4]).lstrip("/")
        if tail[0] == "cgroup2":
            mounts.append(_Mount(2, _unescape(fields[3]), point))
        elif tail[0] == "cgroup" and controller in tail[2].split(","):
            mounts.append(_Mount(1, _unescape(fields[3]), point))
    return mounts


def _unescape(text: str) -> str:
    return text.replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\")


def _levels(mount: _Mount, path: str) -> list[Path]:
    """Return the folders of the group and its ancestors that are mounted here."""
    root = mount.root.rstrip("/")
    if root and (path == root or path.startswith(root + "/")):
        path = path[len(root) :]
    folder = mount.point.joinpath(*[part for part in path.split("/") if part not in ("", "..", ".")])
    if not folder.is_dir():
        folder = mount.point  # a container may mount only its own group
    levels = [folder]
    while levels[-1] != mount.point:
        levels.append(levels[-1].parent)
    return levels


def _quota(folder: Path) -> float | None:
    try:
        limit, _, period = (folder / "cpu.max").read_text("ascii").partition(" ")
        return None if limit == "max" else _ratio(limit, period)
    except (OSError, UnicodeDecodeError):
        pass
    try:
        limit = (folder / "cpu.cfs_quota_us").read_text("ascii")
        return _ratio(limit, (folder / "cpu.cfs_period_us").read_text("ascii"))
    except (OSError, UnicodeDecodeError):
        return None


def _ratio(limit: str, period: str) -> float | None:
    try:
        quota_us, period_us = int(limit), int(period)
    except ValueError:
        return None
    return quota_us / period_us if quota_us > 0 and period_us > 0 else None


def _counts(folder: Path, name: str) -> dict[str, int]:
    try:
        lines = (folder / name).read_text("ascii").splitlines()
    except (OSError, UnicodeDecodeError):
        return {}
    pairs = (line.split() for line in lines)
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdecimal()}
