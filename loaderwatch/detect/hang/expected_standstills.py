"""Who is slow on purpose: a process that is long in one place and not hung. Every excuse has an end, but for a person's."""

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
    10.0, "factor", "chosen: times its limit; until then who may be at work, or reads, is believed to be"
)
CHILDREN_CPUS: Final = threshold(
    0.5, "CPUs", "chosen: if a host, without the streamer, uses less, no compiler of a process is at work"
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
    """Whether a process is slow on purpose: it builds kernels, saves, asks a person, runs a program, or simply computes."""
    rank, span = item.rank, item.span
    frames = frames_now(rank)
    if asks_a_person(item, frames):
        return True  # who may come back tomorrow
    if waits_in_kernel(rank, span):
        return False
    if saving(frames):
        return _save_gets_on(item, frames)
    if item.age_s >= AT_WORK_FACTOR * item.limit_s:
        return False
    if runs_program(frames) and window.world_size > 1:
        return True  # alone it is a remark, which wakes nobody
    if compiling(frames):
        return _compiles(window, item)
    if searches(item, frames):
        return False
    name = collective(frames)
    if name not in (None, "backward"):
        return False
    # Waiting for the GPU burns a CPU as well, so CPU time proves nothing where a kernel spins.
    if rank.process.cuda and spins_in_collective(rank, span.since_ns) is not None:
        return False
    return _recent_cpu(item) > (BUSY_CPU_RATIO if name else IDLE_CPU_RATIO) or item.reading


def searches(item: Stuck, frames: Sequence[Frame]) -> bool:
    """Whether the process is at work in a step of its optimizer: nobody evaluates, saves or waits in one.

    A search along a line, or for a closure's minimum, finds no end where the loss is no number.
    """
    optimizes = item.span.phase == "optimizer" and in_optimizer(frames)
    return optimizes and collective(frames) is None and _recent_cpu(item) > BUSY_CPU_RATIO


def silent_s(item: Stuck) -> float:
    """Return for how many seconds the process has written nothing, as far back as its readings reach."""
    return (item.rank.made_ns - wrote_ns(item.rank, item.span.pid, item.span.since_ns)) / 1e9


def _save_gets_on(item: Stuck, frames: Sequence[Frame]) -> bool:
    """Whether a process that saves has written within its limit (a slow save is N22), or within ten times that is at work."""
    silent = silent_s(item)
    return silent < item.limit_s or (silent < AT_WORK_FACTOR * item.limit_s and save_works(item, frames))


def save_works(item: Stuck, frames: Sequence[Frame]) -> bool:
    """Whether a process that saves computes what it is about to write, or sends it: bytes of a connection are counted nowhere."""
    since_ns = recent_ns(item.rank, item.span, int(item.limit_s * 1e9))
    if _on_connection(frames):
        return not stands_still(item.rank, item.span.pid, since_ns)
    return cpu_ratio(item.rank, item.span.pid, since_ns) > BUSY_CPU_RATIO


def _compiles(window: RunWindow, item: Stuck) -> bool:
    """Whether the process computes, or somebody on its host does: a compiler's workers are processes of their own.

    A pool of compilers that waits for itself uses no CPU anywhere. Where the children are not known, all of the host counts.
    """
    if not _recent_cpu(item) < IDLE_CPU_RATIO:  # NaN where it is not known
        return True
    works = children_work(item.rank, item.span.pid, item.span.since_ns + int(item.age_s * 5e8))
    if works is not None:
        return works
    host = window.hosts.get(item.rank.host)
    if host is None:
        return True
    rows = {name: host.hosts[name][-CHILDREN_ROWS:] for name in ("cpu_ratio", "streamer_cpu_ratio")}
    own = [0.0 if value != value else float(value) for value in rows["streamer_cpu_ratio"]]
    used = [float(ratio) * host.info.cpus for ratio in rows["cpu_ratio"]]
    busy = [cpus - ours for cpus, ours in zip(used, own, strict=True) if cpus == cpus]
    return not busy or sum(busy) / len(busy) > CHILDREN_CPUS


def _recent_cpu(item: Stuck) -> float:
    """Return the CPU use in the second half of the span, in cores; NaN where it is not known."""
    return cpu_ratio(item.rank, item.span.pid, item.span.since_ns + int(item.age_s * 5e8))


def asks_a_person(item: Stuck, frames: Sequence[Frame]) -> bool:
    """Whether the process waits in ``input()`` at a terminal.

    Newer kernels name the same function for that and for a read from a network connection.
    """
    wchan = item.span.wchan or ""
    if wchan in TERMINAL:
        return True
    return wchan == "wait_woken" and item.rank.process.terminal and not _on_connection(frames)


def _on_connection(frames: Sequence[Frame]) -> bool:
    return any(PurePath(frame.file).name in _SOCKETS for frame in frames[:3])


def serves(item: Stuck) -> bool:
    """Whether a process waits for whoever may come: in an event loop, in a server, or for a thread that is one."""
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
    """Whether a thread waits for whoever connects, or for any of several connections."""
    found = [(PurePath(frame.file).name, frame.function) for frame in frames[:2]]
    return ("socket.py", "accept") in found or ("selectors.py", "select") in found


def _within(marks: Sequence[str], frames: Sequence[Frame]) -> bool:
    return any(mark in frame.file for frame in frames for mark in marks)
