"""The process sampler: it reads a row of the table "processes" for each training process and worker."""

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
from loaderwatch.streamer.samplers.procfs import FileLocks, ProcessFiles, parse_stat

PIN_NAME: Final = "pt_data_pin"
"""PyTorch's name for the thread of each iterator that pins memory (pytorch#128448)."""


class ThreadTimes:
    """Reads some threads of one process. It reads each name twice, because a new thread has no name yet."""

    def __init__(self, pid: int, proc_root: Path = PROC) -> None:
        self._folder = proc_root / str(pid) / "task"
        self._main = str(pid)
        self._new: set[str] = set()  # thread ids
        self._others: set[str] = set()
        self._pinning: set[str] = set()
        self._cpu_ns: dict[str, int] = {}
        self._at_ns = 0

    def look(self, now_ns: int, *, pins: bool) -> tuple[float | None, float | None]:
        """Return CPU time per second since the last call: of the main and the busiest pin thread.

        A value is None if there is no such thread or it is new. ``pins``: threads that pin memory may exist.
        """
        if pins:
            self._find_pinning()
        cpu_ns = {
            tid: spent for tid in (self._main, *self._pinning) if (spent := self._spent(tid)) is not None
        }
        elapsed_ns = now_ns - self._at_ns
        previous_ns, self._cpu_ns, self._at_ns = self._cpu_ns, cpu_ns, now_ns
        ratios = {
            tid: (spent - previous_ns[tid]) / elapsed_ns
            for tid, spent in cpu_ns.items()
            if tid in previous_ns and elapsed_ns > 0
        }
        return ratios.pop(self._main, None), max(ratios.values(), default=None)

    def _find_pinning(self) -> None:
        try:
            threads = set(os.listdir(self._folder)) - {self._main}  # noqa: PTH208 - no Path per thread
        except OSError:
            threads = set()
        self._others &= threads
        self._pinning &= threads
        unknown = threads - self._others - self._pinning
        self._pinning |= {tid for tid in unknown if self._name(tid) == PIN_NAME}
        unknown -= self._pinning
        self._others |= unknown & self._new
        self._new = unknown - self._others

    def _name(self, thread: str) -> str | None:
        try:
            return (self._folder / thread / "comm").read_text(errors="replace").strip()
        except OSError:
            return None

    def _spent(self, thread: str) -> int | None:
        try:
            stat = parse_stat((self._folder / thread / "stat").read_bytes())
        except OSError:
            return None
        return stat.cpu_ns if stat else None


FDS_EVERY: Final = 5  # in samples: listing descriptors costs as much as all else together
LETTERS: Final = {"stopped": "T", "zombie": "Z"}
"""psutil's states as letters of /proc. "running" is missing: macOS and Windows report it for sleepers too."""
PSS_EVERY_NS: Final = 10_000_000_000
PSS_REST: Final = 500
"""After a PSS reading, none follows for this many times its duration: 0.2 % of a core in all."""


def process_began_s(pid: int) -> float | None:
    """Return when a process began: pid and start identify it. None if it has ended. This needs no /proc."""
    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return None
        return float(process.create_time())
    except psutil.NoSuchProcess:
        return None
    except psutil.Error:  # the system does not say, so the process exists
        return 0.0


def name_and_user(pid: int) -> tuple[str | None, str | None]:
    """Return the names of a process's program and user; None if unknown."""
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
    """One reading of a process: its values for the row, and the facts for its open span."""

    state: str | None
    read_chars: int | None
    traced: bool | None
    wchan: str | None
    values: Values  # of the table "processes"


class ProcessSampler:
    """Reads processes one by one and keeps the last values to compute rates."""

    def __init__(self, proc_root: Path = PROC) -> None:
        self._proc_root = proc_root
        self._has_proc = proc_root.is_dir()
        self._past: dict[tuple[int, int], _Past] = {}  # by pid and start
        self._file_locks = FileLocks(proc_root)
        self._next_pss_ns = 0
        # by pid: start time, CPU seconds, time of the reading
        self._elsewhere: dict[int, tuple[float, float, int]] = {}

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

        ``training``: not a worker. ``pins``: it may have threads that pin memory. With ``apart``, its other
        threads and its descendants except those pids are read as well.
        """
        if not self._has_proc:
            return self._sample_elsewhere(files.pid, now_ns)
        stat = files.stat()
        if stat is None or not stat.rss_bytes:
            return None  # a process without memory is becoming a zombie
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
            past.children = None  # their rates belong to one span
            return NOT_LOOKED
        if past.children is None:
            past.children = ChildrenSampler(pid, self._proc_root)
        return past.children.look(now_ns, apart)

    def _pss(self, files: ProcessFiles, past: _Past, now_ns: int) -> int | None:
        """Return the PSS of a worker if it is its turn: the worker not read for the longest is next.

        While the kernel walks the pages, threads of that process cannot map memory, nor load pages once
        another one tries to map. That takes 20 ms and more per GB, so the training process is left out.
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
        """Read the facts for an open span without changing the rates. The result is no row for the table."""
        stat = files.stat()
        if stat is None:
            return None
        status = files.status()
        tracer = status.tracer_pid if status else None
        return Reading(stat.state, files.io()[0], None if tracer is None else tracer != 0, files.wchan(), {})

    def forget_dead(self, living: set[int]) -> None:
        """Drop the last values of processes that have ended."""
        for key in [key for key in self._past if key[0] not in living]:
            del self._past[key]
        for pid in self._elsewhere.keys() - living:
            del self._elsewhere[pid]

    def _sample_elsewhere(self, pid: int, now_ns: int) -> Reading | None:
        """Read a process with psutil, without /proc; return None if it has ended or is not readable."""
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
    """Return 1 if the process sleeps in one of these kernel functions, else 0; None if unknown."""
    if wchan is None:
        return 0.0 if state == "R" else None
    return float(waits_in(functions, wchan))


def affinity_count(pid: int) -> int | None:
    """Return how many CPUs the process may use."""
    try:
        return len(os.sched_getaffinity(pid))
    except (OSError, AttributeError):
        return None


def state_code(state: str | None) -> int:
    """Return the state letter as the table's number."""
    return ord(state) if state else UNKNOWN
