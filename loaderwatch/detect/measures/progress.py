"""Progress: whether anything of a rank still moves, which distinguishes hung from slow."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from loaderwatch.core.columns import Columns
from loaderwatch.core.facts import SpanInfo, StackDump
from loaderwatch.core.records import UNKNOWN
from loaderwatch.core.threshold import threshold
from loaderwatch.detect.measures.stacks import (
    Frame,
    builds_kernels,
    collective,
    ends_interpreter,
    in_loop_of,
    main_frames,
    saving,
    waits_on_queue,
)
from loaderwatch.detect.measures.statistics import Floats, high, known, mean
from loaderwatch.detect.shared_thresholds import BUSY_CPU_RATIO, IDLE_CPU_RATIO, Limits
from loaderwatch.detect.window import RankWindow, between_s, seconds

WORKER_IDLE = "idle"
LOADER_PHASES = ("iter", "wait", "teardown")
STEP_PHASES = ("step", "h2d", "forward", "backward", "optimizer")
FIRST_FACTOR: Final = threshold(
    3.0, "factor", "chosen: times the floor, for one sample, a first gap, compiling and the end of a process"
)
QUIET_NS: Final = threshold(20_000_000_000, "ns", "chosen: no movement for so long is a standstill")
READING_NS: Final = threshold(
    1_200_000_000, "ns", "processes are read once a second, and a reading may come a little late"
)
UNINTERRUPTIBLE: Final = ord("D")
TERMINAL: Final = ("n_tty_read", "tty_read")  # input(), or a person at a prompt
FROZEN: Final = ("refrigerator", "freezer")  # the control group is paused
FEW_STEPS_OF_PHASE: Final = threshold(3, "steps", "chosen: fewer steps with a phase are no history")
FEW_PROCESS_READINGS: Final = threshold(3, "readings", "chosen: fewer do not show whether a process moves")
STILL_SWITCHES_PER_S: Final = threshold(
    1.0, "switches per s", "chosen: loops that poll or sleep wake more often than a process that stands still"
)
POLLS_RATIO: Final = threshold(0.8, "ratio", "chosen: of the looks that find a process asleep for a set time")
POLLS_PER_S: Final = threshold(5.0, "switches per s", "chosen: a loop that sleeps more often is polling")
IN_LOCK_RATIO: Final = threshold(0.8, "ratio", "chosen: of the looks that find a process waiting for a lock")
HOLE_S: Final = threshold(
    4.0, "s", "chosen: processes are read once a second; a host with no rows for so long was paused"
)
MAIN_READ_CHARS: Final = threshold(
    65_536, "bytes", "chosen: a training process always reads a little, as for progress bars and /proc"
)
MAIN_WRITTEN_CHARS: Final = threshold(
    65_536, "bytes", "chosen: a training process writes a little that is no save, such as its stacks"
)
MAPPED_BYTES: Final = threshold(
    2**18, "bytes", "chosen: less from storage without a read() may be reloaded pages of programs"
)


@dataclass(frozen=True)
class Stuck:
    """A rank whose open span is older than its limit, and of which nothing moves."""

    rank: RankWindow
    span: SpanInfo
    age_s: float
    limit_s: float
    usual_s: float  # 99th percentile of this phase's own history; NaN without one
    reading: bool  # the awaited worker, or the training process, still reads bytes


def stuck(rank: RankWindow, limits: Limits) -> Stuck | None:
    """Return the rank's stuck span; None if it is not stuck. A dead or traced process is never stuck."""
    span = rank.span
    if rank.process.state != "live" or span is None or not span.alive or span.traced:
        return None
    age_s = (rank.made_ns - span.since_ns) / 1e9
    if age_s < limits.hang_floor_s:
        return None
    age_s -= unwatched_s(rank, span.since_ns)
    limit_s, usual_s = limit_of(rank, span, limits)
    if age_s < limit_s:
        return None
    if span.phase in LOADER_PHASES and any(worker.traced for worker in concerned(rank, span)):
        return None  # somebody has a debugger on it
    quiet_s = (rank.made_ns - moved_ns(rank, span)) / 1e9
    if quiet_s < 0.9 * limit_s:
        return None
    return Stuck(rank, span, age_s, limit_s, usual_s, reading=_reading(rank, span))


def unwatched_s(rank: RankWindow, since_ns: int) -> float:
    """Return the seconds since a time (ns UTC) in which the host was paused.

    Nothing can move in a docker pause or a suspend. Processes are read once a second. A gap in their rows
    means that the streamer stood still as well.
    """
    times = rank.table("processes")["t_ns"]
    times = times[times >= since_ns - int(HOLE_S * 1e9)]
    holes = np.diff(np.maximum(times, since_ns)) / 1e9
    return float(holes[holes >= HOLE_S].sum())


def limit_of(rank: RankWindow, span: SpanInfo, limits: Limits) -> tuple[float, float]:
    """Return how old this span may get, and its phase's 99th percentile (NaN without a history), in seconds.

    With a history it is the floor, or ten times that percentile if it is more. Else it is a multiple of the
    floor.
    """
    floor_s = limits.hang_floor_s
    if at_end(rank, span):
        return floor_s * FIRST_FACTOR, math.nan  # a process ends only once, so there is no history
    history = history_s(rank, span)
    few = FEW_STEPS_OF_PHASE if span.phase in STEP_PHASES else 1
    if history.size < few:
        factor = limits.first_factor
        if span.phase in LOADER_PHASES and _one_sample(rank, span, floor_s):
            factor = FIRST_FACTOR
        elif span.phase not in LOADER_PHASES and _has_reason(rank):
            factor = 1.0
        elif (
            builds_kernels(frames_now(rank))
            or waits_in_kernel(rank, span)
            or (span.phase == "outside" and (trains_on(rank, span) or collective(frames_now(rank))))
        ):
            factor = FIRST_FACTOR
        return floor_s * factor, high(history, 0.99)
    usual_s = high(history, 0.99)
    limit_s = max(floor_s, limits.hang_factor * usual_s)
    if span.phase in LOADER_PHASES:
        fetches = rank.past("fetches")
        own = fetches["loader"] == (UNKNOWN if span.loader is None else span.loader)
        late_s = high(seconds(fetches["fetch_ns"][own]), 0.99)
        if np.isfinite(late_s):
            limit_s = max(limit_s, 0.5 * limits.hang_factor * late_s)
    return limit_s, usual_s


def _has_reason(rank: RankWindow) -> bool:
    """Whether the process needs no history: it saves (timed from its last write), or its reader ended."""
    return saving(frames_now(rank)) or waits_for_lost_reader(rank)


def waits_for_lost_reader(rank: RankWindow) -> bool:
    """Whether the loop waits on a queue or lock, or polls, although a thread that read for it has ended.

    The thread ended with an error, or before its pass was over.
    """
    if not any(loader.reader_error is not None for loader in rank.process.loaders):
        return False
    return waits_on_queue(frames_now(rank)) or polls(rank) or waits_for_lock(rank)


def waits_for_lock(rank: RankWindow) -> bool:
    """Whether the training process recently stood still in a lock, as in C code of ``queue.SimpleQueue``."""
    span = rank.span
    if span is None:
        return False
    since_ns, rows = recent_ns(rank, span), rank.table("processes")
    locked = rows["lock_wait"][(rows["pid"] == span.pid) & (rows["t_ns"] >= since_ns)]
    return mean(locked) >= IN_LOCK_RATIO and stands_still(rank, span.pid, since_ns)


def polls(rank: RankWindow) -> bool:
    """Whether the training process recently polled: it slept between many looks and used little CPU."""
    span = rank.span
    if span is None:
        return False
    since_ns, rows = recent_ns(rank, span), rank.table("processes")
    mine = (rows["pid"] == span.pid) & (rows["t_ns"] >= since_ns)
    asleep, switches = rows["timer_wait"][mine], rows["voluntary_switches"][mine]
    if asleep.size < FEW_PROCESS_READINGS or not mean(asleep) >= POLLS_RATIO:
        return False
    polled = float(switches[-1] - switches[0]) / ((rank.made_ns - since_ns) / 1e9)
    return polled >= POLLS_PER_S and cpu_ratio(rank, span.pid, since_ns) < BUSY_CPU_RATIO


def at_end(rank: RankWindow, span: SpanInfo) -> bool:
    """Whether the stack shows that the script is over but its process does not end."""
    return span.phase not in LOADER_PHASES and ends_interpreter(frames_now(rank))


def trains_on(rank: RankWindow, span: SpanInfo) -> bool:
    """Whether the stack shows that a process will come back to the training loader once it makes progress.

    Outside its loops it must be in a loop that does. Otherwise the loop over the batches goes on. But while
    its iterator lives, nobody sees the end of a loop that was left with ``break``.
    """
    in_loop = in_loop_of(frames_now(rank), rank.process.calls) if dump_now(rank) is not None else None
    return in_loop is True if span.phase == "outside" else in_loop is not False


def wait_limit_s(rank: RankWindow, loader: int, limits: Limits) -> float:
    """Return how many seconds a wait for this loader's next batch may take before it counts as a hang."""
    span = SpanInfo(
        rank=rank.rank, worker=-1, pid=rank.process.pid, phase="wait", since_ns=rank.made_ns, loader=loader
    )
    return limit_of(rank, span, limits)[0]


def moved_ns(rank: RankWindow, span: SpanInfo) -> int:
    """Return when the span last moved, ns UTC; in a loader phase also when a worker that it waits for did."""
    times = [span.since_ns]
    if span.sample_since_ns is not None:
        times.append(span.sample_since_ns)
    if span.phase in LOADER_PHASES:
        times += [_worker_moved_ns(worker) for worker in concerned(rank, span)]
    return max(times)


def concerned(rank: RankWindow, span: SpanInfo) -> list[SpanInfo]:
    """Return the live workers whose progress matters: the awaited one; if unknown, all of the loader."""
    own = [w for w in rank.workers if w.alive and (span.loader is None or w.loader in (None, span.loader))]
    awaited = [w for w in own if w.worker == span.awaited_worker]
    return awaited or own


def _worker_moved_ns(worker: SpanInfo) -> int:
    return max(worker.since_ns, worker.sample_since_ns or worker.since_ns)


def _one_sample(rank: RankWindow, span: SpanInfo, floor_s: float) -> bool:
    """Whether a worker was in one known sample all the time: start-up is over, so the limit is shorter."""
    known_since = [
        item.sample_since_ns for item in [*concerned(rank, span), span] if item.sample_index is not None
    ]
    return any(since is not None and (rank.made_ns - since) / 1e9 >= floor_s for since in known_since)


def history_s(rank: RankWindow, span: SpanInfo) -> Floats:
    """Return how long spans of this kind took before, in seconds, shape (spans,)."""
    steps, loader = rank.past("steps"), UNKNOWN if span.loader is None else span.loader
    own = steps["loader"] == loader
    if span.phase == "wait" and span.batch:
        # In the middle of an epoch. The first wait includes the start of the workers, so it does not count.
        return known(seconds(steps["wait_ns"][own & (steps["batch"] > 0)]))
    if span.phase == "wait":
        begins = rank.table("epoch_begins")
        first = seconds(begins["first_wait_ns"][begins["loader"] == loader])
        return known(np.concatenate([seconds(steps["wait_ns"][own]), first]))
    if span.phase in STEP_PHASES:
        return known(between_s(steps)[own])
    if span.phase == "iter":
        return _of(rank.table("epoch_begins"), "iter_ns", loader)
    if span.phase == "teardown":
        return _of(rank.table("epoch_ends"), "teardown_ns", loader)
    if span.phase == "outside":
        return _between_steps_s(rank) if rank.process.trains_without_loader else gaps_s(rank)
    if span.phase == "user" and span.phase_name in rank.process.phase_names:
        phases = rank.past("phases")
        same = phases["name"] == rank.process.phase_names.index(span.phase_name)
        return known(seconds(phases["duration_ns"][same]))
    return np.empty(0)


def _between_steps_s(rank: RankWindow) -> Floats:
    """Return the seconds from each step to the model's next call without a loader, shape (steps,)."""
    steps = rank.past("steps")
    alone = [loader.loader for loader in rank.process.loaders if loader.between_steps]
    return known(seconds(steps["wait_ns"][np.isin(steps["loader"], alone)]))


def gaps_s(rank: RankWindow) -> Floats:
    """Return the seconds, shape (gaps,), that the process spent between two passes over its loaders."""
    begins, ends = rank.table("epoch_begins"), rank.table("epoch_ends")
    over_ns = ends["request_ns"] + np.maximum(0, ends["teardown_ns"])
    times = np.concatenate([begins["request_ns"], over_ns])
    opened = np.concatenate([np.ones(begins["request_ns"].size), -np.ones(over_ns.size)])
    order = np.argsort(times, kind="stable")
    times, opened = times[order], opened[order]
    outside = np.cumsum(opened)[:-1] <= 0
    gaps: Floats = np.diff(times)[outside & (opened[1:] > 0)] / 1e9
    return gaps


def _of(table: Columns, column: str, loader: int) -> Floats:
    return known(seconds(table[column][table["loader"] == loader]))


def _reading(rank: RankWindow, span: SpanInfo) -> bool:
    """Whether the awaited worker, or the training process itself, still reads bytes since the span began."""
    workers = concerned(rank, span) if span.phase in LOADER_PHASES else []
    pids = [w.pid for w in workers if w.phase != WORKER_IDLE]
    if pids:
        return any(_read_since(rank, pid, span.since_ns) > 0 for pid in pids)
    return _read_since(rank, span.pid, span.since_ns) > MAIN_READ_CHARS


def _read_since(rank: RankWindow, pid: int, since_ns: int) -> float:
    """Return the bytes that a process read (read() or memory map) in the second half since ``since_ns``."""
    chars, stored = (grown_lately(rank, pid, since_ns, name) for name in ("read_chars", "read_bytes"))
    return max(stored if stored >= MAPPED_BYTES else 0.0, chars if np.isfinite(chars) else 0.0)


def grown_lately(rank: RankWindow, pid: int, since_ns: int, counter: str) -> float:
    """Return the growth of a process's counter in the second half of the time since then; NaN if unknown."""
    rows = rank.table("processes")
    half_ns = since_ns + (rank.made_ns - since_ns) // 2
    mask = (rows["pid"] == pid) & (rows["t_ns"] >= half_ns) & np.isfinite(rows[counter])
    values = rows[counter][mask]
    return float(values[-1] - values[0]) if values.size >= 2 else float("nan")


def cpu_ratio(rank: RankWindow, pid: int, since_ns: int) -> float:
    """Return the mean CPU use of a process since a time (ns UTC), in cores; NaN if unknown."""
    rows = rank.table("processes")
    mask = (rows["pid"] == pid) & (rows["t_ns"] >= since_ns) & np.isfinite(rows["cpu_ratio"])
    values = rows["cpu_ratio"][mask]
    return float(values.mean()) if values.size else float("nan")


def wrote_ns(rank: RankWindow, pid: int, since_ns: int) -> int:
    """Return when a process last wrote by write(), ns UTC; ``since_ns`` if not since then, or if unknown."""
    rows = rank.table("processes")
    mask = (rows["pid"] == pid) & (rows["t_ns"] >= since_ns) & np.isfinite(rows["written_chars"])
    values, times = rows["written_chars"][mask], rows["t_ns"][mask]
    earlier = np.flatnonzero(values[-1:] - values > MAIN_WRITTEN_CHARS)
    return int(times[earlier[-1] + 1]) if earlier.size else since_ns


def stands_still(rank: RankWindow, pid: int, since_ns: int) -> bool:
    """Whether a process has used no CPU and was not woken since a time; False if unknown.

    A loop that polls, sleeps between two looks or communicates with other ranks gives up its CPU again and
    again. Each time is counted as a voluntary switch.
    """
    rows = rank.table("processes")
    mask = (rows["pid"] == pid) & (rows["t_ns"] >= since_ns) & np.isfinite(rows["voluntary_switches"])
    if mask.sum() < FEW_PROCESS_READINGS or not cpu_ratio(rank, pid, since_ns) < IDLE_CPU_RATIO:
        return False
    switches, times = rows["voluntary_switches"][mask], rows["t_ns"][mask]
    return float(switches[-1] - switches[0]) <= STILL_SWITCHES_PER_S * (int(times[-1]) - int(times[0])) / 1e9


def recent_ns(rank: RankWindow, span: SpanInfo, ns: int = QUIET_NS) -> int:
    """Return the start (ns UTC) of the readings of the last ``ns`` that cover nothing before the span."""
    return max(span.since_ns + READING_NS, rank.made_ns - ns)


def sleeps(rank: RankWindow, span: SpanInfo) -> bool:
    """Whether a process sleeps for a set time. If it was just woken to write its stack, most looks decide."""
    if span.os_state != "R":
        return "nanosleep" in (span.wchan or "")
    rows = rank.table("processes")
    mine = (rows["pid"] == span.pid) & (rows["t_ns"] >= recent_ns(rank, span))
    return mean(rows["timer_wait"][mine]) >= POLLS_RATIO


def waits_in_kernel(rank: RankWindow, span: SpanInfo) -> bool:
    """Whether the training process has been in an uninterruptible wait (state D) for the whole look back.

    Nobody begins such a wait on purpose: storage or a driver does not answer. A process that reads or writes
    slowly wakes up in between.
    """
    since_ns = recent_ns(rank, span)
    rows = rank.table("processes")
    states = rows["state"][(rows["pid"] == span.pid) & (rows["t_ns"] >= since_ns)]
    return (
        span.os_state == "D"
        and not any(mark in (span.wchan or "") for mark in FROZEN)
        and bool((states == UNINTERRUPTIBLE).all())
        and stands_still(rank, span.pid, since_ns)
    )


def is_stopped(rank: RankWindow, span: SpanInfo) -> bool:
    """Whether a signal has kept the training process stopped (state T): then no stack can be taken."""
    rows = rank.table("processes")
    states = rows["state"][(rows["pid"] == span.pid) & (rows["t_ns"] >= recent_ns(rank, span))]
    return span.os_state == "T" and bool((states == ord("T")).all())


def still_stands_there(rank: RankWindow, dump: StackDump | None, still_since_ns: int) -> bool:
    """Whether a process that stands still since ``still_since_ns`` already did when its stack was taken.

    Between two stacks a process may end its save, or its last epoch, and then wait for something else.
    """
    if dump is None:
        return False
    if dump.taken_ns >= still_since_ns:
        return True
    wrote = wrote_ns(rank, dump.pid, dump.taken_ns) > dump.taken_ns
    return not wrote and stands_still(rank, dump.pid, dump.taken_ns)


def stack_of(rank: RankWindow, worker: int, pid: int | None) -> StackDump | None:
    """Return the newest stack dump of a process (worker -1: the training process); None if there is none."""
    own = [dump for dump in rank.stacks if dump.worker == worker and dump.text]
    dumps = [dump for dump in own if pid in (None, dump.pid)]
    return max(dumps, key=lambda dump: dump.taken_ns, default=None)


def dump_now(rank: RankWindow) -> StackDump | None:
    """Return the newest stack of the training process if it was taken in the open span; else None."""
    dump, span = stack_of(rank, -1, None), rank.span
    return dump if dump is not None and span is not None and dump.taken_ns > span.since_ns else None


def frames_now(rank: RankWindow) -> Sequence[Frame]:
    """Return the frames of ``dump_now``, innermost first; none without such a stack."""
    return main_frames(dump_now(rank))
