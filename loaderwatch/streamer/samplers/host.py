"""The host sampler: it reads a row of the table "hosts" once a second."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeVar

import psutil

from loaderwatch.core.facts import HostInfo
from loaderwatch.core.message import Text
from loaderwatch.core.records import Values
from loaderwatch.core.system import PROC, boot_id
from loaderwatch.streamer.samplers.cgroup import (
    find_cpu_groups,
    find_groups,
    read_cpu_limit,
    read_memory_limit,
    read_oom_kills,
)
from loaderwatch.streamer.samplers.disks import DiskSampler
from loaderwatch.streamer.samplers.process import affinity_count
from loaderwatch.streamer.samplers.procfs import PAGE_BYTES
from loaderwatch.texts import say

_T = TypeVar("_T")

LOOK_AGAIN_NS: Final = 30_000_000_000
VIRTUAL_DISKS: Final = ("loop", "ram", "zram", "dm-", "md", "nbd", "fd", "sr")
BUSY: Final = ("user", "nice", "system", "irq", "softirq", "steal")
"""Kinds of busy CPU time, in psutil's names; guest time is part of user time."""


@dataclass(slots=True)
class _Rates:
    """The rates of growing counters, computed from their last values and times."""

    past: dict[str, tuple[float, int]] = field(default_factory=dict)

    def per_s(self, name: str, value: float | None, now_ns: int) -> float | None:
        """Return the growth per second since the last call; None at first and after a counter's reset."""
        old = self.past.pop(name, None)
        if value is None:
            return None
        self.past[name] = (value, now_ns)
        if old is None or now_ns <= old[1] or value < old[0]:
            return None
        return (value - old[0]) * 1e9 / (now_ns - old[1])


class HostSampler:
    """Reads the host as the training process sees it: with its control group, affinity and network.

    psutil provides most values. The others (pressure, control groups, shared memory, refaults) exist on Linux
    only. Tests give other folders as ``proc_root`` and ``fs_root``.
    """

    def __init__(self, proc_root: Path = PROC, fs_root: Path = Path("/")) -> None:
        self._proc = proc_root
        self._has_proc = proc_root.is_dir()
        self._root = fs_root
        self._rates = _Rates()
        self._groups: tuple[int, list[Path]] = (0, [])  # a pid and its control groups
        self._memory_groups: list[Path] = []
        self._disks: frozenset[str] = frozenset()
        self._looked_ns: int | None = None
        self._throttled: tuple[int, int] | None = None
        self._usable_cpus: float | None = None
        self._filling = DiskSampler()
        self._static = HostInfo(
            name=socket.gethostname(),
            cpus=os.cpu_count() or 1,
            memory_bytes=_memory()[1],
            shm_bytes=self._shm()[0] if self._has_proc else None,
            boot_id=boot_id(proc_root),
        )

    def info(self, gpu_off: Text | None) -> HostInfo:
        """Return the host's facts, which rarely change; ``gpu_off`` says why there are no GPU charts."""
        static, filling = self._static, self._filling.filling
        return HostInfo(
            name=static.name,
            cpus=static.cpus,
            usable_cpus=self._usable_cpus,
            memory_bytes=static.memory_bytes,
            shm_bytes=static.shm_bytes,
            boot_id=static.boot_id,
            gpu_status="" if gpu_off is None else say(gpu_off),
            gpu_status_text=gpu_off,
            filling_disk=filling.path if filling else None,
        )

    def sample(self, training_pid: int, now_ns: int, written_bytes: float = 0.0) -> Values:
        """Return the row's values without its time; a value that cannot be read is None or missing.

        ``written_bytes``: what the host's training processes have written to files so far.
        """
        if self._has_proc:  # other systems do not report what a process has written
            self._filling.sample(written_bytes, now_ns)
        filling = self._filling.filling
        available, total = _memory()
        # psutil's load on Windows begins with a 0
        load = _asked(os.getloadavg) if hasattr(os, "getloadavg") else None
        own = _asked(lambda: psutil.Process().memory_info())
        values: Values = {
            "cpu_ratio": self._cpu_ratio(now_ns),
            "load1": None if load is None else load[0],
            "memory_available_bytes": available,
            "memory_total_bytes": total,
            "streamer_cpu_ratio": self._rates.per_s("own cpu", time.process_time(), now_ns),
            "streamer_rss_bytes": None if own is None else own.rss,
            "filling_disk_total_bytes": filling.total_bytes if filling else None,
            "filling_disk_free_bytes": filling.free_bytes if filling else None,
            "filling_disk_bytes_per_s": filling.bytes_per_s if filling else None,
            "filling_disk_save_bytes": filling.save_bytes if filling else None,
            "filling_disk_seen_s": filling.seen_s if filling else None,
        }
        return values | self._of_linux(training_pid, now_ns) if self._has_proc else values

    def _of_linux(self, training_pid: int, now_ns: int) -> Values:
        if self._looked_ns is None or now_ns - self._looked_ns > LOOK_AGAIN_NS:
            self._looked_ns = now_ns
            self._disks = self._list_disks()
            self._groups = (0, self._groups[1])
        if self._groups[0] != training_pid:
            groups = find_cpu_groups(training_pid, self._proc, self._root)
            memory_groups = find_groups(training_pid, "memory", self._proc, self._root)
            self._groups = (training_pid, groups or self._groups[1])
            # if the process has just ended, use its last groups
            self._memory_groups = memory_groups or self._memory_groups
        quota, throttled_ratio = self._quota()
        affinity = affinity_count(training_pid)
        limits = [float(value) for value in (affinity, quota) if value is not None]
        self._usable_cpus = min(limits) if limits else None
        shm_total, shm_used = self._shm()
        disk_read, disk_written = self._disk()
        limit = read_memory_limit(self._memory_groups)
        per_s = self._rates.per_s
        return {
            "usable_cpus": self._usable_cpus,
            "quota_cpus": quota,
            "throttled_ratio": throttled_ratio,
            "psi_cpu_some_ratio": self._pressure("cpu", "some", now_ns),
            "psi_io_some_ratio": self._pressure("io", "some", now_ns),
            "psi_io_full_ratio": self._pressure("io", "full", now_ns),
            "psi_memory_some_ratio": self._pressure("memory", "some", now_ns),
            "psi_memory_full_ratio": self._pressure("memory", "full", now_ns),
            "shm_total_bytes": shm_total,
            "shm_used_bytes": shm_used,
            "disk_read_bytes_per_s": per_s("disk read", disk_read, now_ns),
            "disk_write_bytes_per_s": per_s("disk write", disk_written, now_ns),
            "network_rx_bytes_per_s": per_s("network", self._network(training_pid), now_ns),
            "memory_limit_bytes": limit.limit_bytes if limit else None,
            "memory_used_bytes": limit.used_bytes if limit else None,
            "oom_kills": limit.oom_kills if limit else read_oom_kills(self._memory_groups),
            "refault_bytes_per_s": per_s("refaults", self._refaulted(), now_ns),
            "memory_limit_hits": limit.hits if limit else None,
        }

    def _text(self, name: str) -> str | None:
        try:
            return (self._proc / name).read_text("ascii", "replace").strip()
        except OSError:
            return None

    def _cpu_ratio(self, now_ns: int) -> float | None:
        """Return the busy share of all CPUs since the last sample. psutil's own starts with a false 0."""
        times = _asked(psutil.cpu_times)
        if times is None:
            return None
        busy_s = sum(getattr(times, name, 0.0) for name in BUSY)
        busy_per_s = self._rates.per_s("cpu busy", busy_s, now_ns)
        all_s = busy_s + times.idle + getattr(times, "iowait", 0.0)
        all_per_s = self._rates.per_s("cpu all", all_s, now_ns)
        return min(busy_per_s / all_per_s, 1.0) if busy_per_s is not None and all_per_s else None

    def _quota(self) -> tuple[float | None, float | None]:
        """Return the quota in CPUs, and the share of periods since the last sample that it throttled."""
        limit = read_cpu_limit(self._groups[1])
        if limit is None:
            self._throttled = None
            return None, None
        if limit.periods is None or limit.throttled_periods is None:
            return limit.quota_cpus, None
        old, self._throttled = self._throttled, (limit.periods, limit.throttled_periods)
        if old is None or limit.periods < old[0]:
            return limit.quota_cpus, None
        periods = limit.periods - old[0]
        # Without a period in between, nothing ran that could have been throttled.
        return limit.quota_cpus, min((limit.throttled_periods - old[1]) / periods, 1.0) if periods else 0.0

    def _refaulted(self) -> int | None:
        """Return the bytes of files read again soon after eviction; a larger page cache would hold them."""
        for line in (self._text("vmstat") or "").splitlines():
            name, _, pages = line.partition(" ")
            if name == "workingset_refault_file" and pages.isdecimal():
                return int(pages) * PAGE_BYTES
        return None

    def _pressure(self, kind: str, which: str, now_ns: int) -> float | None:
        """Return PSI's share of the time since the last sample, from its totals: avg10 lags by seconds."""
        for line in (self._text(f"pressure/{kind}") or "").splitlines():
            if line.startswith(which + " "):
                total = line.rpartition("total=")[2]
                if total.isdecimal():
                    stalled = self._rates.per_s(f"psi {kind} {which}", int(total) / 1e6, now_ns)
                    return None if stalled is None else min(stalled, 1.0)
        return None

    def _shm(self) -> tuple[int | None, int | None]:
        """Return total and used bytes of /dev/shm."""
        try:
            space = os.statvfs(self._root / "dev/shm")
        except (OSError, AttributeError):
            return None, None
        return space.f_blocks * space.f_frsize, (space.f_blocks - space.f_bfree) * space.f_frsize

    def _list_disks(self) -> frozenset[str]:
        try:
            names = [path.name for path in (self._root / "sys/block").iterdir()]
        except OSError:
            return frozenset()
        return frozenset(name for name in names if not name.startswith(VIRTUAL_DISKS))

    def _disk(self) -> tuple[int | None, int | None]:
        """Return the bytes read from and written to the host's disks so far; None if there are no disks."""
        counted = _asked(lambda: psutil.disk_io_counters(perdisk=True)) or {}
        disks = [disk for name, disk in counted.items() if name in self._disks]
        if not disks:
            return None, None
        return sum(disk.read_bytes for disk in disks), sum(disk.write_bytes for disk in disks)

    def _network(self, training_pid: int) -> int | None:
        """Return the bytes received so far by the training process's network interfaces, without loopback."""
        text = self._text(f"{training_pid}/net/dev")
        if text is None:
            return None
        received = 0
        for line in text.splitlines()[2:]:
            name, _, rest = line.partition(":")
            first = rest.split()[0] if rest.split() else ""
            if name.strip() != "lo" and first.isdecimal():
                received += int(first)
        return received


def _memory() -> tuple[int | None, int | None]:
    """Return available and total bytes of memory."""
    memory = _asked(psutil.virtual_memory)
    return (None, None) if memory is None else (memory.available, memory.total)


def _asked(ask: Callable[[], _T]) -> _T | None:
    """Return psutil's answer; None if the system hides it or answers in an unexpected form."""
    try:
        return ask()
    except (psutil.Error, OSError, NotImplementedError, LookupError, ValueError):
        return None
