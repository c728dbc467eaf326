"""A process that stands still outside any loader, with no partner to blame: slow on purpose, or S26 S52 S53."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath
from typing import Final

import msgspec

from loaderwatch.core.answers import Evidence, Severity
from loaderwatch.core.facts import SpanInfo
from loaderwatch.detect.explanation import Explanation
from loaderwatch.detect.finding import Finding, known_evidence
from loaderwatch.detect.hang.reasons import blocked, producer_gone
from loaderwatch.detect.limits import BUSY_CPU_RATIO, IDLE_CPU_RATIO
from loaderwatch.detect.measures.gpu import spins_in_collective
from loaderwatch.detect.measures.progress import (
    Stuck,
    cpu_ratio,
    stack_of,
    stands_still,
    still_stands_there,
    trains_on,
    wrote_ns,
)
from loaderwatch.detect.measures.stacks import (
    Frame,
    collective,
    compiling,
    main_frames,
    saving,
    user_frame,
    waits_for_child,
    waits_on_queue,
)
from loaderwatch.detect.text import duration
from loaderwatch.detect.window import RankWindow, RunWindow

CODE = "hung"
QUIET_NS = 20_000_000_000
READING_NS = 1_200_000_000  # processes are read once a second
ALONE_FACTOR = 10.0  # a lone process that stands still is reported at its limit, but alerts only at this many
SAVE_ADVICE: Final = (
    "See whether the mount that it saves to answers (df, the kernel log), and whether it is a pipe that nobody reads. Save to a local"
    " disk first and copy from there in another process, so that no dead mount stops training."
)
_TERMINAL = ("n_tty_read", "tty_read")  # input(), or a person at a prompt
_EVENTS = ("accept", "ep_poll", "poll_schedule", "do_select", "do_sys_poll", "sigsuspend", "sigtimedwait")
_SOCKETS = ("socket.py", "ssl.py")


def is_excused(item: Stuck) -> bool:
    """Whether a process is slow on purpose: it builds kernels, saves, asks a person, or simply computes."""
    frames = main_frames(stack_of(item.rank, -1, None))
    if compiling(frames) or _asks_a_person(item, frames):
        return True
    if saving(frames):
        return _gets_on(item)
    name = collective(frames)
    if name not in (None, "backward"):
        return False
    working = cpu_ratio(item.rank, item.span.pid, item.span.since_ns + int(item.age_s * 5e8))
    busy = working > (BUSY_CPU_RATIO if name else IDLE_CPU_RATIO) or item.reading
    if busy and item.rank.process.cuda:
        # Waiting for the GPU burns a CPU as well, so CPU time proves nothing; a kernel that spins does.
        spins = spins_in_collective(item.rank, item.span.since_ns) is not None
        return not spins and item.age_s < ALONE_FACTOR * item.limit_s
    return busy


def _gets_on(item: Stuck) -> bool:
    """Whether a process that saves has written, computed or been woken within its limit (a slow save is N22)."""
    pid, since_ns = item.span.pid, _within(item, int(item.limit_s * 1e9))
    return wrote_ns(item.rank, pid, since_ns) > since_ns or not stands_still(item.rank, pid, since_ns)


def _asks_a_person(item: Stuck, frames: Sequence[Frame]) -> bool:
    """Whether the process waits in ``input()`` at a terminal.

    Newer kernels name the same function for that and for a read from a network connection.
    """
    wchan = item.span.wchan or ""
    if wchan in _TERMINAL:
        return True
    listens = any(PurePath(frame.file).name in _SOCKETS for frame in frames[:3])
    return wchan == "wait_woken" and item.rank.process.terminal and not listens


def outside(window: RunWindow, found: Sequence[Stuck]) -> list[Finding]:
    """Return a remark if every process stands still outside its loops, and a stack says where; else none.

    ``found`` are the processes that are stuck there. A script that has trained may serve, wait for a person, or have
    nothing left to do: then the remark never alerts.
    """
    live = [rank for rank in window.ranks.values() if rank.process.state == "live"]
    stands = [item for item in found if _is_seen(item) and is_still(item) and not is_excused(item)]
    if not stands or len(stands) < len(live):
        return []
    # One that is in no collective comes first: the others may wait for it in theirs.
    apart = [item for item in stands if collective(main_frames(stack_of(item.rank, -1, None))) is None]
    return [alone(max(apart or stands, key=lambda item: item.age_s))]


def is_to_train_on(item: Stuck) -> bool:
    """Whether a process comes to its loader again, as far as is known: it saves, or it is in a loop that does."""
    return trains_on(item.rank, item.span) or saving(main_frames(stack_of(item.rank, -1, None)))


def wait_for_each_other(window: RunWindow, found: Sequence[Stuck]) -> bool:
    """Whether ranks before their first loop or after their last wait for one that does nothing either.

    They wait for no person then, and nothing works that they could wait for: some are in a collective, as in
    ``init_process_group`` or the last barrier, and no process of the run moves.
    """
    if not any(collective(main_frames(stack_of(item.rank, -1, None))) for item in found):
        return False
    return all(_does_nothing(rank) for rank in window.ranks.values() if rank.process.state == "live")


def _does_nothing(rank: RankWindow) -> bool:
    span = rank.span
    if span is None or rank.made_ns - span.since_ns < QUIET_NS:
        return False
    if spins_in_collective(rank, span.since_ns) is not None:
        return True
    return stands_still(rank, span.pid, max(span.since_ns + READING_NS, rank.made_ns - QUIET_NS))


def is_still(item: Stuck) -> bool:
    """Whether a process has not moved for as long as that can be told."""
    return stands_still(item.rank, item.span.pid, _within(item, QUIET_NS))


def _within(item: Stuck, ns: int) -> int:
    """Return when readings of the last ``ns`` begin that tell of the span alone: the first one in it tells of before as well."""
    return max(item.span.since_ns + READING_NS, item.rank.made_ns - ns)


def _is_seen(item: Stuck) -> bool:
    dump = stack_of(item.rank, -1, None)
    return dump is not None and dump.taken_ns > item.span.since_ns and bool(main_frames(dump))


def alone(item: Stuck) -> Finding:
    """Explain a process that stands still in its own code, with no loader and no partner to blame: S26, S52, S53.

    It alerts at once where it does not move at all, although it was to train on; else when it has taken long. A step that
    sleeps is a throttle as a rule (N09), and a child may be at work.
    """
    rank, span, dump = item.rank, item.span, stack_of(item.rank, -1, None)
    frames = main_frames(dump)
    where, saves = user_frame(frames), saving(frames)
    is_outside = span.phase == "outside"
    phase = f'phase "{span.phase_name}"' if span.phase_name else span.phase
    place = "the code outside its loops" if is_outside else f"its {phase}"
    at = f" at {where}" if where else f" in {place}"
    goes_on = is_to_train_on(item)
    waits = waits_on_queue(frames) and any(loader.reader is not None for loader in rank.process.loaders)
    stands = is_still(item) and still_stands_there(rank, dump, _within(item, QUIET_NS))
    if stands and span.os_state == "R":  # woken for a moment, as to write its stack
        span = msgspec.structs.replace(span, os_state=None, wchan=None)
    reason = blocked(span, "the training process")
    if waits_on_queue(frames):
        reason = producer_gone(rank.process.loaders)
    severity: Severity = "info"
    on_purpose = waits_for_child(frames) or (not is_outside and "nanosleep" in (span.wchan or ""))
    unstarted = stands and not on_purpose and _has_not_begun(rank) and not _serves(span)
    if goes_on and stands and not on_purpose:
        severity = "critical"
    elif unstarted or (goes_on and item.age_s >= ALONE_FACTOR * item.limit_s):
        severity = "warning"
    known = (severity == "critical" or unstarted) and (span.os_state, span.wchan) != (None, None)
    because = f", {reason.because}" if known else ""
    age = duration(item.age_s)
    return Finding(
        key=f"{CODE}:rank{rank.rank}",
        code=CODE,
        scenario="S52" if saves else "S41" if waits else "S53" if is_outside else "S26",
        severity=severity,
        confidence=0.85 if severity == "critical" else 0.5,
        began_ns=span.since_ns,
        title=f"A save hangs{at}: nothing has been written for {duration(_silent_s(item))}{because}."
        if saves
        else f"Training has stood still{at} for {age}{because}{'' if waits else '; the data loader is not the cause'}.",
        cause=f"The training process waits {'on a queue' if waits else 'for something'} in its own code and uses no CPU."
        + (_outside_means(rank, goes_on) if is_outside else "")
        + (f" It has not returned from saving for {age}." if saves else ""),
        advice=reason.advice if waits else _advice(item, reason, saves=saves, known=known),
        evidence=[
            Evidence(label="no progress for", value=item.age_s, unit="s"),
            Evidence(label="limit learned for this phase", value=item.limit_s, unit="s"),
            *known_evidence(
                ("process state", span.os_state, "text"),
                ("waits in kernel function", span.wchan if span.wchan not in ("", "0") else None, "text"),
            ),
        ],
        rank=rank.rank,
        host=rank.host,
        pid=span.pid,
        lost_s=item.age_s,
        stacks=[dump] if dump else [],
    )


def _has_not_begun(rank: RankWindow) -> bool:
    """Whether the process has a training loader and never asked it for a batch."""
    span = rank.span
    trains = any(loader.role == "train" for loader in rank.process.loaders)
    return trains and span is not None and not span.batches and not rank.table("epoch_begins")["rank"].size


def _serves(span: SpanInfo) -> bool:
    """Whether the process waits for whoever may come, as a server or an event loop does."""
    return any(mark in (span.wchan or "") for mark in _EVENTS)


def _outside_means(rank: RankWindow, goes_on: bool) -> str:
    if _has_not_begun(rank):
        return " It has not asked its loader for a first batch yet."
    if goes_on:
        return " It is between two passes over its loader, in a loop that comes to the loader again."
    return " It is outside its training loops: between two epochs, or after the last."


def _silent_s(item: Stuck) -> float:
    """Return for how many seconds the process has written nothing, as far back as its readings reach."""
    return (item.rank.made_ns - wrote_ns(item.rank, item.span.pid, item.span.since_ns)) / 1e9


def _advice(item: Stuck, reason: Explanation, *, saves: bool, known: bool) -> str:
    if saves:
        return f"`ls -l /proc/{item.span.pid}/fd` shows what it writes. {SAVE_ADVICE}"
    long = ' If it is meant to take long, put it in `with loaderwatch.phase("…")`.'
    if known:
        return f"{reason.advice}{long}"
    return f"Look at the stack: a request without a timeout, a full disk or pipe, a lock.{long}"
