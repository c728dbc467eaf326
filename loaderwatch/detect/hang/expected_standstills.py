"""Processes that are slow on purpose and not hung. Every excuse but waiting for a person has a limit."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath
from typing import Final

from loaderwatch.core.threshold import threshold
from loaderwatch.detect.measures.gpu import spins_in_collective
from loaderwatch.detect.measures.other_work import children_work
from loaderwatch.detect.measures.progress import (
    TERMINAL,
    Stuck,
    cpu_ratio,
    dump_now,
    frames_now,
    recent_ns,
    stands_still,
    waits_in_kernel,
    wrote_ns,
)
from loaderwatch.detect.measures.stacks import (
    Frame,
    collective,
    compiling,
    in_optimizer,
    main_frames,
    runs_program,
    saving,
    threads,
    waits_for_thread,
)
from loaderwatch.detect.shared_thresholds import BUSY_CPU_RATIO, IDLE_CPU_RATIO
from loaderwatch.detect.window import RunWindow

AT_WORK_FACTOR: Final = threshold(
    10.0, "factor", "chosen: times the limit; a process that may be at work or reads is believed so long"
)
CHILDREN_CPUS: Final = threshold(
    0.5, "CPUs", "chosen: if a host without the streamer uses less, no compiler process is at work"
)
CHILDREN_ROWS: Final = threshold(10, "rows", "chosen: ten seconds of a host, which is read once a second")
_EVENTS: Final = (
    "accept",
    "ep_poll",
    "poll_schedule",
    "do_select",
    "do_sys_poll",
    "sigsuspend",
    "sigtimedwait",
    "pause",
)
_SOCKETS: Final = ("socket.py", "ssl.py")
_SERVERS: Final = ("/socketserver.py", "/asyncio/base_events.py", "/uvicorn/", "/tornado/", "/grpc/")


def is_excused(window: RunWindow, item: Stuck) -> bool:
    """Whether a process is slow on purpose: it compiles, saves, asks a person, runs a program or computes."""
    rank, span = item.rank, item.span
    frames = frames_now(rank)
    if asks_a_person(item, frames):
        return True  # the person may come back tomorrow
    if waits_in_kernel(rank, span):
        return False
    if saving(frames):
        return _save_gets_on(item, frames)
    if item.age_s >= AT_WORK_FACTOR * item.limit_s:
        return False
    if runs_program(frames) and window.world_size > 1:
        return True  # a lone process gets a remark instead, which wakes nobody
    if compiling(frames):
        return _compiles(window, item)
    if searches(item, frames):
        return False
    name = collective(frames)
    if name not in (None, "backward"):
        return False
    # Waiting for the GPU also uses a CPU, so CPU time proves nothing while a kernel spins.
    if rank.process.cuda and spins_in_collective(rank, span.since_ns) is not None:
        return False
    return _recent_cpu(item) > (BUSY_CPU_RATIO if name else IDLE_CPU_RATIO) or item.reading


def searches(item: Stuck, frames: Sequence[Frame]) -> bool:
    """Whether the process works in its optimizer's step, where nobody evaluates, saves or waits.

    A line search, or a search for a closure's minimum, never ends if the loss is not a number.
    """
    optimizes = item.span.phase == "optimizer" and in_optimizer(frames)
    return optimizes and collective(frames) is None and _recent_cpu(item) > BUSY_CPU_RATIO


def silent_s(item: Stuck) -> float:
    """Return for how many seconds the process has written nothing, as far back as its readings reach."""
    return (item.rank.made_ns - wrote_ns(item.rank, item.span.pid, item.span.since_ns)) / 1e9


def _save_gets_on(item: Stuck, frames: Sequence[Frame]) -> bool:
    """Whether a save wrote within its limit (a slow save is N22), or within ten times it if it is at work."""
    silent = silent_s(item)
    return silent < item.limit_s or (silent < AT_WORK_FACTOR * item.limit_s and save_works(item, frames))


def save_works(item: Stuck, frames: Sequence[Frame]) -> bool:
    """Whether a saving process computes or sends data. Bytes sent over a connection are not counted."""
    since_ns = recent_ns(item.rank, item.span, int(item.limit_s * 1e9))
    if _on_connection(frames):
        return not stands_still(item.rank, item.span.pid, since_ns)
    return cpu_ratio(item.rank, item.span.pid, since_ns) > BUSY_CPU_RATIO


def _compiles(window: RunWindow, item: Stuck) -> bool:
    """Whether the process or another one on its host computes: compiler workers are separate processes.

    A pool of compilers that waits for itself uses no CPU. If the children are unknown, the whole host counts.
    """
    if not _recent_cpu(item) < IDLE_CPU_RATIO:  # also if unknown (NaN)
        return True
    works = children_work(item.rank, item.span.pid, item.span.since_ns + int(item.age_s * 5e8))
    if works is not None:
        return works
    host = window.hosts.get(item.rank.host)
    if host is None:
        return True
    recent = {name: host.hosts[name][-CHILDREN_ROWS:] for name in ("cpu_ratio", "streamer_cpu_ratio")}
    streamer_cpus = [0.0 if value != value else float(value) for value in recent["streamer_cpu_ratio"]]
    used_cpus = [float(ratio) * host.info.cpus for ratio in recent["cpu_ratio"]]
    busy = [used - ours for used, ours in zip(used_cpus, streamer_cpus, strict=True) if used == used]
    return not busy or sum(busy) / len(busy) > CHILDREN_CPUS


def _recent_cpu(item: Stuck) -> float:
    """Return the CPU use in the second half of the span, in cores; NaN if unknown."""
    return cpu_ratio(item.rank, item.span.pid, item.span.since_ns + int(item.age_s * 5e8))


def asks_a_person(item: Stuck, frames: Sequence[Frame]) -> bool:
    """Whether the process waits in ``input()`` at a terminal.

    Newer kernels use the same function for that and for reading from a network connection.
    """
    wchan = item.span.wchan or ""
    if wchan in TERMINAL:
        return True
    return wchan == "wait_woken" and item.rank.process.terminal and not _on_connection(frames)


def _on_connection(frames: Sequence[Frame]) -> bool:
    return any(PurePath(frame.file).name in _SOCKETS for frame in frames[:3])


def serves(item: Stuck) -> bool:
    """Whether a process waits for requests: in an event loop, in a server, or for a thread that is one."""
    dump = dump_now(item.rank)
    frames = main_frames(dump)
    if any(mark in (item.span.wchan or "") for mark in _EVENTS) or _within(_SERVERS, frames):
        return True
    return (
        dump is not None
        and waits_for_thread(frames)
        and any(_within(_SERVERS, stack) or _listens(stack) for stack in threads(dump.text))
    )


def _listens(frames: Sequence[Frame]) -> bool:
    """Whether a thread waits for a connection, or for data from several connections."""
    innermost = [(PurePath(frame.file).name, frame.function) for frame in frames[:2]]
    return ("socket.py", "accept") in innermost or ("selectors.py", "select") in innermost


def _within(marks: Sequence[str], frames: Sequence[Frame]) -> bool:
    return any(mark in frame.file for frame in frames for mark in marks)
