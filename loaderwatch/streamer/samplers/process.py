"""The process sampler, which reads a row of the table "processes" for each training process and worker once a second."""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from time import thread_time_ns
from typing import Final

import psutil

from loaderwatch.core.records import UNKNOWN, Values
from loaderwatch.core.system import ANSWER_FUNCTIONS, LOCK_FUNCTIONS, PROC, TIMER_FUNCTIONS, waits_in
from loaderwatch.streamer.samplers.children import NOT_LOOKED, ChildrenSampler
from loaderwatch.streamer.samplers.file_locks import FileLocks
from loaderwatch.streamer.samplers.procfs import ProcessFiles
from loaderwatch.streamer.samplers.threads import ThreadTimes

FDS_EVERY: Final = 5  # in samples: listing descriptors costs as much as everything else together
LETTERS: Final = {"stopped": "T", "zombie": "Z"}
"""The states that psutil gives, as letters of /proc. "running" is missing, because macOS and Windows say it of sleepers, too."""
PSS_EVERY_NS: Final = 10_000_000_000
PSS_REST: Final = 500
"""After reading a PSS, none is read for so many times as long as it took: 0.2 % of a core, however many processes there are."""


def process_began_s(pid: int) -> float | None:
    """Return when the process with this pid began, which tells it from another; None if it has ended. This needs no /proc."""
    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return None
        return float(process.create_time())
    except psutil.NoSuchProcess:
        return None
    except psutil.Error:  # the system does not say, so there is one
        return 0.0


def name_and_user(pid: int) -> tuple[str | None, str | None]:
    """Return the name of a process's program and of its user; None where the system does not say."""
    try:
        return _name_and_user(pid, psutil.Process(pid).create_time())
    except psutil.Error:
        return None, None


@lru_cache(maxsize=256)  # a user's name may come over the network
def _name_and_user(pid: int, _: float) -> tuple[str | None, str | None]:
    process = psutil.Process(pid)
    try:
        user: str | None = process.username()
    except (psutil.Error, KeyError):
        user = None
    return process.name(), user


@dataclass(slots=True)
class _Past:
    cpu_ns: int
    at_ns: int
    delay_ns: int | None
    fds: int | None = None
    fd_limit: int | None = None
    age: int = 0
    pss_at_ns: int = 0
    threads: ThreadTimes | None = None
    children: ChildrenSampler | None = None


@dataclass(frozen=True, slots=True)
class Reading:
    """One reading of a process: its values for the row, and the facts that its open span carries."""

    state: str | None
    read_chars: int | None
    traced: bool | None
    wchan: str | None
    values: Values  # of the table "processes"


class ProcessSampler:
    """Reads processes one by one, and keeps the last values for rates."""

    def __init__(self, proc_root: Path = PROC) -> None:
        self._proc_root = proc_root
        self._has_proc = proc_root.is_dir()
        self._past: dict[tuple[int, int], _Past] = {}  # by pid and start
        self._file_locks = FileLocks(proc_root)
        self._next_pss_ns = 0
        self._elsewhere: dict[
            int, tuple[float, float, int]
        ] = {}  # by pid: when it began, CPU seconds, when read

    def sample(
        self,
        files: ProcessFiles,
        now_ns: int,
        *,
        training: bool = False,
        pins: bool = False,
        apart: Collection[int] | None = None,
    ) -> Reading | None:
        """Read a process; return None if it has ended.

        ``training`` means that it is no worker, ``pins`` that it may have threads that pin memory. With ``apart`` its other threads
        and its descendants are read as well, without those.
        """
        if not self._has_proc:
            return self._sample_elsewhere(files.pid, now_ns)
        stat = files.stat()
        if stat is None or not stat.rss_bytes:
            return None  # a process without memory is about to be a zombie
        status = files.status()
        read_chars, written_chars, read_bytes = files.io()
        key = (files.pid, stat.start_ticks)
        past = self._past.get(key)
        delay_ns = files.run_delay_ns()
        cpu_ratio: float | None = None
        delay_ratio: float | None = None
        if past is None:
            past = self._past[key] = _Past(stat.cpu_ns, now_ns, delay_ns)
        elif now_ns > past.at_ns:
            cpu_ratio = (stat.cpu_ns - past.cpu_ns) / (now_ns - past.at_ns)
            if delay_ns is not None and past.delay_ns is not None:
                delay_ratio = min(1.0, max(0.0, (delay_ns - past.delay_ns) / (now_ns - past.at_ns)))
            past.cpu_ns, past.at_ns, past.delay_ns = stat.cpu_ns, now_ns, delay_ns
        if past.age % FDS_EVERY == 0:
            past.fds = files.count_fds()
            past.fd_limit = files.fd_limit()
        past.age += 1
        if training and past.threads is None:
            past.threads = ThreadTimes(files.pid, self._proc_root)
        others = self._children(files.pid, past, apart, now_ns)
        main_ratio, pin_ratio = past.threads.look(now_ns, pins=pins) if past.threads else (None, None)
        tracer = status.tracer_pid if status else None
        wchan = files.wchan()
        return Reading(
            state=stat.state,
            read_chars=read_chars,
            traced=None if tracer is None else tracer != 0,
            wchan=wchan,
            values={
                "cpu_ratio": cpu_ratio,
                "rss_bytes": stat.rss_bytes,
                "threads": stat.threads,
                "fds": past.fds,
                "read_bytes": read_bytes,
                "read_chars": read_chars,
                "voluntary_switches": status.voluntary_switches if status else None,
                "involuntary_switches": status.involuntary_switches if status else None,
                "major_faults": stat.major_faults,
                "affinity_cpus": affinity_count(files.pid),
                "fd_limit": past.fd_limit,
                "anonymous_bytes": status.anonymous_bytes if status else None,
                "pss_bytes": None if past.threads else self._pss(files, past, now_ns),
                "run_delay_ratio": delay_ratio,
                "main_cpu_ratio": main_ratio,
                "pin_cpu_ratio": pin_ratio,
                "written_chars": written_chars,
                "lock_wait": _stands_in(LOCK_FUNCTIONS, wchan, stat.state),
                "timer_wait": _stands_in(TIMER_FUNCTIONS, wchan, stat.state),
                "holds_file_lock": self._file_locks.held_by(files.pid, now_ns),
                "answer_wait": _stands_in(ANSWER_FUNCTIONS, wchan, stat.state),
                **others,
            },
        )

    def _children(self, pid: int, past: _Past, apart: Collection[int] | None, now_ns: int) -> Values:
        if apart is None:
            past.children = None  # their rates are of one span
            return NOT_LOOKED
        if past.children is None:
            past.children = ChildrenSampler(pid, self._proc_root)
        return past.children.look(now_ns, apart)

    def _pss(self, files: ProcessFiles, past: _Past, now_ns: int) -> int | None:
        """Return the PSS of a worker if it is its turn; the turn is that of the worker not read for longest.

        While the kernel walks the pages, threads of that process cannot map memory, nor bring in pages after one that tried to. That
        is 20 ms and more for each GB, so the training process is left out.
        """
        if now_ns < self._next_pss_ns or now_ns - past.pss_at_ns < PSS_EVERY_NS:
            return None
        if past.pss_at_ns > min(other.pss_at_ns for other in self._past.values() if other.threads is None):
            return None
        began_ns = thread_time_ns()
        value = files.pss_bytes()
        self._next_pss_ns = now_ns + PSS_REST * (thread_time_ns() - began_ns)
        past.pss_at_ns = now_ns
        return value

    def look(self, files: ProcessFiles) -> Reading | None:
        """Read the facts that the open span carries, without changing the rates; the row is not for the table."""
        stat = files.stat()
        if stat is None:
            return None
        status = files.status()
        tracer = status.tracer_pid if status else None
        return Reading(stat.state, files.io()[0], None if tracer is None else tracer != 0, files.wchan(), {})

    def forget_dead(self, living: set[int]) -> None:
        """Drop the last values of processes that are gone."""
        for key in [key for key in self._past if key[0] not in living]:
            del self._past[key]
        for pid in self._elsewhere.keys() - living:
            del self._elsewhere[pid]

    def _sample_elsewhere(self, pid: int, now_ns: int) -> Reading | None:
        """Read a process with psutil, on systems without /proc; return None if it has ended or may not be read."""
        try:
            process = psutil.Process(pid)
            with process.oneshot():
                state = LETTERS.get(process.status())
                if state == "Z":
                    return None
                began_s, times = process.create_time(), process.cpu_times()
                rss_bytes, threads = process.memory_info().rss, process.num_threads()
                if not rss_bytes:
                    return None  # it ended during this reading: a zombie has no memory
        except psutil.NoSuchProcess:
            return None
        except psutil.Error:
            return Reading(None, None, None, None, {})
        cpu_ratio = None
        past, cpu_s = self._elsewhere.get(pid), times.user + times.system
        if past is not None and past[0] == began_s and now_ns > past[2]:
            cpu_ratio = (cpu_s - past[1]) * 1e9 / (now_ns - past[2])
        self._elsewhere[pid] = (began_s, cpu_s, now_ns)
        values: Values = {"cpu_ratio": cpu_ratio, "rss_bytes": rss_bytes, "threads": threads}
        return Reading(state, None, None, None, values)


def _stands_in(functions: tuple[str, ...], wchan: str | None, state: str) -> float | None:
    """Return 1 for a process that sleeps in one of these kernel functions, 0 for another or one that runs; None where nobody says."""
    if wchan is None:
        return 0.0 if state == "R" else None
    return float(waits_in(functions, wchan))


def affinity_count(pid: int) -> int | None:
    """Return how many CPUs the process may run on."""
    try:
        return len(os.sched_getaffinity(pid))
    except (OSError, AttributeError):
        return None


def state_code(state: str | None) -> int:
    """Return the state letter as the table's number."""
    return ord(state) if state else UNKNOWN
