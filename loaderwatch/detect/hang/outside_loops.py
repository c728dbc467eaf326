"""A process that stands still outside any loader, with no partner to blame: S26 S52 S53."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import msgspec

from loaderwatch.core.answers import Evidence, Severity
from loaderwatch.core.facts import SpanInfo
from loaderwatch.core.system import PIPE_FUNCTIONS, SOCKET_FUNCTIONS, waits_in
from loaderwatch.detect.explanation import Explanation
from loaderwatch.detect.finding import Finding, Texts, known_evidence, reworded
from loaderwatch.detect.hang import at_exit
from loaderwatch.detect.hang.excuses import (
    ALONE_FACTOR,
    is_excused,
    save_works,
    searches,
    serves,
    silent_s,
)
from loaderwatch.detect.hang.rank_positions import names
from loaderwatch.detect.hang.reasons import blocked, producer_gone, thread_silent
from loaderwatch.detect.limits import IDLE_CPU_RATIO
from loaderwatch.detect.measures.children import children_ended, children_work
from loaderwatch.detect.measures.gpu import spins_in_collective
from loaderwatch.detect.measures.progress import (
    QUIET_NS,
    Stuck,
    at_end,
    cpu_ratio,
    dump_now,
    frames_now,
    recent_ns,
    sleeps,
    stands_still,
    still_stands_there,
    trains_on,
    waits_for_lock,
    waits_for_lost_reader,
    waits_in_kernel,
)
from loaderwatch.detect.measures.stacks import (
    Frame,
    builds_kernels,
    collective,
    main_frames,
    saving,
    user_frame,
    waits_for_child,
    waits_for_thread,
    waits_on_queue,
)
from loaderwatch.detect.text import count, duration
from loaderwatch.detect.window import RankWindow, RunWindow

CODE = "hung"
_OUTSIDE: Final = "the code outside its loops"
SAVE_ADVICE: Final = (
    "See whether the mount that it saves to answers (df, the kernel log), and whether it is a pipe that nobody reads. Save to a local"
    " disk first and copy from there in another process, so that no dead mount stops training."
)
_POINTED: Final = (*SOCKET_FUNCTIONS, *PIPE_FUNCTIONS, "wait_for_partner", "lock_inode", "flock")
"""Parts of the names of kernel functions in which a process waits for one thing: a connection, a pipe, a lock on a file."""


def outside(window: RunWindow, found: Sequence[Stuck]) -> list[Finding]:
    """Return a remark if every process stands still outside its loops, and a stack says where; else none.

    ``found`` are the processes that are stuck there. A script that has trained may serve, wait for a person, or have
    nothing left to do: then the remark never alerts.
    """
    live = [rank for rank in window.ranks.values() if rank.process.state == "live"]
    stands = [item for item in found if _is_seen(item) and is_still(item) and not is_excused(window, item)]
    if not stands or len(stands) < len(live):
        return []
    # One that is in no collective comes first: the others may wait for it in theirs.
    apart = [item for item in stands if collective(frames_now(item.rank)) is None]
    # And one whose script goes on before those whose scripts are over, which wait for it in what they take down.
    odd = max(apart or stands, key=lambda item: (not at_end(item.rank, item.span), item.age_s))
    # It is told once each rank has passed its own limit: the last one's is the one that held.
    finding = alone(replace(odd, limit_s=max(item.limit_s for item in stands)))
    if len(apart) < len(stands) and finding.severity == "warning":
        # They wait for each other, which is told as one alert once no process has moved for a while.
        finding = msgspec.structs.replace(finding, severity="info")
    over = [item for item in stands if item is not odd and at_end(item.rank, item.span)]
    return [_with_others(finding, over) if over else finding]


def _with_others(finding: Finding, over: Sequence[Stuck]) -> Finding:
    """Return the finding about a rank with those whose scripts are over and that do not end either."""
    severe = any(alone(item).severity == "critical" for item in over)
    told = finding.severity == "warning" and severe
    one, ranks = len(over) == 1, names([item.rank.rank for item in over])
    scripts = f"The script of {ranks} is" if one else f"The scripts of {ranks} are"
    return reworded(
        finding,
        severity="critical" if told else finding.severity,
        cause=f"{finding.cause} {scripts} over, and {'its process does' if one else 'their processes do'} not end either.",
    )


def is_to_train_on(item: Stuck) -> bool:
    """Whether a process is not where it may stay, as far as is known.

    It is in a loop that comes to its loader again, it saves, or it is in a wait that nobody begins on purpose.
    """
    return (
        waits_in_kernel(item.rank, item.span)
        or trains_on(item.rank, item.span)
        or saving(frames_now(item.rank))
    )


def wait_for_each_other(window: RunWindow, found: Sequence[Stuck]) -> bool:
    """Whether ranks before their first loop or after their last wait for one that does nothing either.

    They wait for no person then, and nothing works that they could wait for: some are in a collective, as in
    ``init_process_group`` or the last barrier, and no process of the run moves.
    """
    if not any(collective(frames_now(item.rank)) for item in found):
        return False
    quiet_ns = min(QUIET_NS, int(max(item.limit_s for item in found) * 1e9))  # who asks for less gets less
    return all(
        _does_nothing(rank, quiet_ns) for rank in window.ranks.values() if rank.process.state == "live"
    )


def _does_nothing(rank: RankWindow, quiet_ns: int) -> bool:
    span = rank.span
    if span is None or rank.made_ns - span.since_ns < quiet_ns:
        return False
    if spins_in_collective(rank, span.since_ns) is not None:
        return True
    return stands_still(rank, span.pid, recent_ns(rank, span, quiet_ns))


def is_still(item: Stuck) -> bool:
    """Whether a process has not moved for as long as that can be told."""
    return stands_still(item.rank, item.span.pid, recent_ns(item.rank, item.span)) or waits_for_lost_reader(
        item.rank
    )


def _is_seen(item: Stuck) -> bool:
    """Whether it is known where the process stands: its stack says so, or it is where no stack can be taken."""
    return bool(frames_now(item.rank)) or waits_in_kernel(item.rank, item.span)


def alone(item: Stuck) -> Finding:
    """Explain a process that stands still in its own code, with no loader and no partner to blame: S26, S52, S53.

    It alerts at once where it does not move at all, although it was to train on; else when it has taken long. A step that
    sleeps is a throttle as a rule (N09), and a child may be at work.
    """
    rank, span, dump = item.rank, item.span, dump_now(item.rank)
    frames = main_frames(dump)
    if at_end(rank, span) and not saving(frames) and not waits_in_kernel(rank, span):
        return at_exit.finding(item)
    saves, is_outside = saving(frames), span.phase == "outside"
    orphaned = waits_for_lost_reader(rank)
    without_loader = rank.process.trains_without_loader
    read = without_loader or any(loader.reader is not None for loader in rank.process.loaders)
    waits = orphaned or (waits_on_queue(frames) and read)
    stands = _stands(item)
    if stands and span.os_state == "R":  # woken for a moment, as to write its stack
        span = msgspec.structs.replace(span, os_state=None, wchan=None)
    reason = blocked(span, "the training process")
    on_thread = orphaned or waits_on_queue(frames) or waits_for_thread(frames)
    if orphaned or waits_on_queue(frames):
        reason = producer_gone(rank.process.loaders)
    elif on_thread:
        reason = thread_silent(dump)
    severity = _severity(item, frames)
    known = severity != "info" and stands and (on_thread or (span.os_state, span.wchan) != (None, None))
    return Finding(
        key=f"{CODE}:rank{rank.rank}",
        code=CODE,
        scenario="S52" if saves else "S41" if waits else "S53" if is_outside else "S26",
        severity=severity,
        confidence=0.85 if severity == "critical" else 0.5,
        began_ns=span.since_ns,
        texts=Texts(
            title=_title(
                item,
                frames,
                reason.because if known else "",
                clears_loader=not (waits or without_loader or (read and waits_for_lock(rank))),
            ),
            cause=_cause(item, frames, on_queue=waits_on_queue(frames)),
            advice=reason.advice if waits else _advice(item, reason, saves=saves, known=known),
        ),
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


def _stands(item: Stuck) -> bool:
    """Whether the process does not move at all, and stands where its stack says."""
    if waits_in_kernel(item.rank, item.span) or waits_for_lost_reader(item.rank):
        return True
    since_ns = recent_ns(item.rank, item.span)
    return is_still(item) and still_stands_there(item.rank, dump_now(item.rank), since_ns)


def _severity(item: Stuck, frames: Sequence[Frame]) -> Severity:
    rank, span, late = item.rank, item.span, item.age_s >= ALONE_FACTOR * item.limit_s
    if waits_in_kernel(rank, span):
        return "critical"
    if saving(frames) and _was_silent_when_seen(item) and not save_works(item, frames):
        return "critical"
    if searches(item, frames):
        return "critical"
    asleep = sleeps(rank, span)
    in_vain = not waits_for_child(frames) or children_work(rank, span.pid, recent_ns(rank, span)) is False
    stands = _stands(item) and in_vain
    if is_to_train_on(item):
        on_purpose = asleep and span.phase != "outside" and not waits_for_lost_reader(item.rank)
        return "critical" if stands and not on_purpose else "warning" if late else "info"
    if not stands or asleep or serves(item):
        return "info"
    if _has_not_begun(rank):
        return "critical" if _is_pointed(span) else "warning"
    return "warning" if _is_stuck_at_the_end(item, frames) else "info"


def _was_silent_when_seen(item: Stuck) -> bool:
    """Whether the process had written nothing for its limit when its stack was taken: one that polls may be elsewhere since."""
    dump = dump_now(item.rank)
    wrote = item.rank.made_ns - int(silent_s(item) * 1e9)
    return dump is not None and dump.taken_ns - wrote >= item.limit_s * 1e9


def _is_stuck_at_the_end(item: Stuck, frames: Sequence[Frame]) -> bool:
    """Whether a process that has trained stands where nobody stays on purpose.

    That is a wait for one thing, or any place at all where the other ranks stand still as well.
    """
    if item.span.phase != "outside":
        return False
    return user_frame(frames) is not None and (_is_pointed(item.span) or item.rank.process.world_size > 1)


def _is_pointed(span: SpanInfo) -> bool:
    return waits_in(_POINTED, span.wchan)


def _title(item: Stuck, frames: Sequence[Frame], because: str, *, clears_loader: bool) -> str:
    where, span, age = user_frame(frames), item.span, duration(item.age_s)
    world, rank = item.rank.process.world_size, f"rank {item.rank.rank}"
    who = "Training" if world < 2 else rank.capitalize()
    phase = f'phase "{span.phase_name}"' if span.phase_name else span.phase
    at = f" at {where}" if where else f" in {_OUTSIDE if span.phase == 'outside' else f'its {phase}'}"
    because = f", {because}" if because else ""
    loader = "; the data loader is not the cause" if clears_loader else ""
    if saving(frames):
        return f"A save{'' if world < 2 else f' of {rank}'} hangs{at}: nothing has been written for {duration(silent_s(item))}{because}."
    if searches(item, frames):
        return f"{who} has been in one step of its optimizer for {age},{at}, and computes there{loader}."
    if _works(item):
        return f"{who} has not come further than{at} for {age}{because}, and computes or reads there{loader}."
    return f"{who} has stood still{at} for {age}{because}{loader}."


def _cause(item: Stuck, frames: Sequence[Frame], *, on_queue: bool) -> str:
    rank, span = item.rank, item.span
    if searches(item, frames):
        usual = (
            f"; 99 % of its steps end within {duration(item.usual_s)}" if math.isfinite(item.usual_s) else ""
        )
        return f"The optimizer calls its closure again and again, or searches along a line, and comes to no end{usual}."
    if _works(item):
        text = "The training process is at work in its own code, for far longer than ever before."
    elif is_still(item):
        text = f"The training process waits {'on a queue' if on_queue else 'for something'} in its own code and uses no CPU."
    else:
        text = "The training process waits in its own code: it sleeps, or looks again and again."
    if builds_kernels(frames):
        text += (
            " It compiles."
            if _works(item)
            else " It waits for its compilers, and nobody compiles: none of its children or of this host computes."
        )
    if ended := _lost_children(item):
        text += (
            f" {count(ended, 'process')} that it started {'has' if ended == 1 else 'have'} ended, and nobody has asked for"
            f" {'its' if ended == 1 else 'their'} exit code: what {'it was' if ended == 1 else 'they were'} to send does not come."
        )
    if waits_in_kernel(rank, span) and not frames:
        text += " No stack of it can be taken: in such a wait it takes no signal."
    if span.phase == "outside":
        text += _outside_means(rank, is_to_train_on(item))
    if saving(frames):
        text += f" It has not returned from saving for {duration(item.age_s)}."
    return text


def _lost_children(item: Stuck) -> int:
    """Return how many processes that it started are gone, where it waits for something that may be theirs to give."""
    wchan = item.span.wchan  # not known of a process that has just been ended
    waits = wchan is None or waits_in(PIPE_FUNCTIONS, wchan) or waits_in(SOCKET_FUNCTIONS, wchan)
    return children_ended(item.rank, item.span.pid) if waits and is_still(item) else 0


def _works(item: Stuck) -> bool:
    return (
        item.reading or cpu_ratio(item.rank, item.span.pid, recent_ns(item.rank, item.span)) > IDLE_CPU_RATIO
    )


def _has_not_begun(rank: RankWindow) -> bool:
    """Whether the process has a training loader and never asked it for a batch."""
    span = rank.span
    trains = any(loader.role == "train" for loader in rank.process.loaders)
    return trains and span is not None and not span.batches and not rank.table("epoch_begins")["rank"].size


def _outside_means(rank: RankWindow, goes_on: bool) -> str:
    if _has_not_begun(rank):
        return " It has not asked its loader for a first batch yet."
    if rank.process.trains_without_loader:
        return (
            " It is between two steps of its optimizer."
            if goes_on
            else " It is past a step of its optimizer, which may be the last."
        )
    if goes_on:
        return " It is between two passes over its loader, in a loop that comes to the loader again."
    return " It is outside its training loops: between two epochs, or after the last."


def _advice(item: Stuck, reason: Explanation, *, saves: bool, known: bool) -> str:
    if builds_kernels(frames_now(item.rank)) and not _works(item):
        return (
            f"`ps --ppid {item.span.pid}` shows its compilers, and `py-spy dump --pid` where one stands. TORCHINDUCTOR_COMPILE_THREADS=1 has"
            " inductor compile in the training process itself, without a pool."
        )
    if saves:
        return f"`ls -l /proc/{item.span.pid}/fd` shows what it writes. {SAVE_ADVICE}"
    if searches(item, frames_now(item.rank)):
        return (
            "Look whether the loss is a number (torch.isfinite): a search does not end where it is NaN. Bound it: max_iter and max_eval of"
            " LBFGS, a least step size in a search of your own."
        )
    if _lost_children(item):
        return (
            f"`ps --ppid {item.span.pid}` shows it as <defunct>; its own output, or `dmesg` where it was killed, says why it ended. Close the"
            " child's ends of a pipe in the parent after the start, so that recv() fails when the child is gone; or poll() with a timeout"
            " and look at is_alive()."
        )
    long = ' If it is meant to take long, put it in `with loaderwatch.phase("…")`.'
    if known:
        return f"{reason.advice}{long}"
    return f"Look at the stack: a request without a timeout, a full disk or pipe, a lock.{long}"
