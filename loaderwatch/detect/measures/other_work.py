"""Work beside the training thread: another thread of its process, or a process that it has started.

The streamer reads threads and children only of a process that has been in one span outside its loaders for
some seconds, if the kernel lists children. Otherwise the answer is None. For a process that makes progress,
the question is whether another thread holds the interpreter.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Final

import numpy as np

from loaderwatch.core.facts import HELD_RATIO, WOKEN_PER_S, StackDump
from loaderwatch.core.threshold import threshold
from loaderwatch.detect.measures.progress import FEW_PROCESS_READINGS, STILL_SWITCHES_PER_S
from loaderwatch.detect.measures.stacks import (
    Frame,
    main_frames,
    waits_for_thread,
    waits_on_queue,
    working_thread,
)
from loaderwatch.detect.shared_thresholds import IDLE_CPU_RATIO
from loaderwatch.detect.window import RankWindow

HELD_LOOK_BACK_S: Final = threshold(
    30.0, "s", "chosen: how far back to look for another thread that holds the interpreter"
)
LEAST_HELD_S: Final = threshold(6.0, "s", "chosen: a fifth of the look back must be seconds of that kind")
FEW_HELD_STACKS: Final = threshold(
    2, "stacks", "chosen: a single stack may show a thread that held the interpreter by chance"
)
ASLEEP_PART: Final = threshold(
    0.25, "ratio", "chosen: of the blocked time, by one look a second; a thread that sleeps for more polls"
)


@dataclass(frozen=True)
class Held:
    """How long another thread has kept a rank's training thread from running."""

    rank: RankWindow
    blocked_s: float  # neither on a CPU nor waiting for one
    others_ratio: float  # CPU use of the other threads in that time, of one core
    woken_per_s: float
    looked_s: float
    since_ns: int
    dump: StackDump
    frame: Frame  # where the other thread computes


def children_work(rank: RankWindow, pid: int, since_ns: int) -> bool | None:
    """Whether a descendant of the process, except its workers, used a CPU or was woken often since a time."""
    cpu = _mean(rank, pid, since_ns, "children_cpu_ratio")
    woken = _mean(rank, pid, since_ns, "children_switches_per_s")
    if cpu is None or woken is None:
        return None
    return cpu > IDLE_CPU_RATIO or woken > STILL_SWITCHES_PER_S


def threads_work(rank: RankWindow, pid: int, since_ns: int) -> bool | None:
    """Whether another thread of the process was woken often since a time."""
    woken = _mean(rank, pid, since_ns, "threads_switches_per_s")
    return None if woken is None else woken > STILL_SWITCHES_PER_S


def children_ended(rank: RankWindow, pid: int) -> int:
    """Return how many ended children the process has not waited for, at the newest look; 0 if unknown."""
    rows = rank.table("processes")
    values = rows["children_ended"][rows["pid"] == pid]
    values = values[np.isfinite(values)]
    return int(values[-1]) if values.size else 0


def _mean(rank: RankWindow, pid: int, since_ns: int, column: str) -> float | None:
    rows = rank.table("processes")
    values = rows[column][(rows["pid"] == pid) & (rows["t_ns"] >= since_ns)]
    values = values[np.isfinite(values)]
    return float(values.mean()) if values.size >= FEW_PROCESS_READINGS else None


def interpreter_held(rank: RankWindow) -> Held | None:
    """Return how long another thread has recently blocked the rank's training thread; None if none did."""
    rows = rank.table("processes")
    since_ns = rank.made_ns - int(HELD_LOOK_BACK_S * 1e9)
    readings = (rows["pid"] == rank.process.pid) & (rows["worker"] == -1) & (rows["t_ns"] >= since_ns)
    times, switches = rows["t_ns"][readings], rows["voluntary_switches"][readings]
    if times.size < LEAST_HELD_S:
        return None
    took_s = np.diff(times) / 1e9
    main, whole, lacked = (
        rows[name][readings][1:] for name in ("main_cpu_ratio", "cpu_ratio", "run_delay_ratio")
    )
    with np.errstate(invalid="ignore", divide="ignore"):
        blocked = 1 - main - np.nan_to_num(lacked)
        woken = np.diff(switches) / took_s
        held = (
            (blocked >= HELD_RATIO)
            & (whole - main >= HELD_RATIO)
            & (woken >= WOKEN_PER_S * blocked)
            & (took_s > 0)
        )
    if float(took_s[held].sum()) < LEAST_HELD_S:
        return None
    if float(np.nansum(rows["timer_wait"][readings][1:][held])) > ASLEEP_PART * float(blocked[held].sum()):
        return None  # it sleeps for some milliseconds at a time, as a polling loop does
    dumps = [dump for dump in _stacks(rank) if _shows(dump)]
    looked_s = float(took_s.sum())
    if len(dumps) < FEW_HELD_STACKS:
        return None
    dump, frame = _usual(dumps)
    return Held(
        rank=rank,
        blocked_s=float((blocked * took_s)[held].sum()),
        others_ratio=float((whole - main)[held].mean()),
        woken_per_s=float(woken[held].mean()),
        looked_s=looked_s,
        since_ns=since_ns,
        dump=dump,
        frame=frame,
    )


def _stacks(rank: RankWindow) -> list[StackDump]:
    """Return the stacks of the process, including old ones: they show who; the kernel's counts show when."""
    return [
        dump
        for dumps in rank.passing_stacks.values()
        for dump in dumps
        if dump.worker < 0 and dump.pid == rank.process.pid
    ]


def _shows(dump: StackDump) -> bool:
    """Whether another thread computes in Python, and the training thread does not wait for its result."""
    frames = main_frames(dump)
    return (
        working_thread(dump.text) is not None and not waits_on_queue(frames) and not waits_for_thread(frames)
    )


def _usual(dumps: list[StackDump]) -> tuple[StackDump, Frame]:
    """Return the newest stack with the other thread at its most frequent function, and its frame there."""
    seen = [(dump, thread[0]) for dump in dumps if (thread := working_thread(dump.text)) is not None]
    most = Counter((frame.file, frame.function) for _, frame in seen).most_common(1)[0][0]
    return next(pair for pair in reversed(seen) if (pair[1].file, pair[1].function) == most)
