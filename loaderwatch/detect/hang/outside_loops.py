"""A process that stands still outside any loader, without a partner to blame: S26 S52 S53."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import msgspec

from loaderwatch.core.answers import Param, Severity, Text
from loaderwatch.core.facts import SpanInfo
from loaderwatch.core.system import PIPE_FUNCTIONS, SOCKET_FUNCTIONS, waits_in
from loaderwatch.detect.codes import HUNG as CODE
from loaderwatch.detect.finding import Explanation, Finding, known_evidence, observed
from loaderwatch.detect.hang import at_exit
from loaderwatch.detect.hang.expected_standstills import (
    AT_WORK_FACTOR,
    is_excused,
    save_works,
    searches,
    serves,
    silent_s,
)
from loaderwatch.detect.hang.loader_hang_causes import blocked, producer_gone, thread_silent
from loaderwatch.detect.measures.gpu import spins_in_collective
from loaderwatch.detect.measures.other_work import children_ended, children_work
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
from loaderwatch.detect.shared_thresholds import IDLE_CPU_RATIO
from loaderwatch.detect.window import RankWindow, RunWindow

# Parts of names of kernel functions in which a process waits for one connection, one pipe or one file lock.
_POINTED: Final = (*SOCKET_FUNCTIONS, *PIPE_FUNCTIONS, "wait_for_partner", "lock_inode", "flock")


def outside(window: RunWindow, found: Sequence[Stuck]) -> list[Finding]:
    """Return a remark if every process stands still outside its loops and its place is known; else none.

    ``found`` are the processes stuck there. A script that has trained may serve requests, wait for a person,
    or have nothing left to do. Where that is possible, the remark never alerts.
    """
    live = [rank for rank in window.ranks.values() if rank.process.state == "live"]
    stands = [item for item in found if _is_seen(item) and is_still(item) and not is_excused(window, item)]
    if not stands or len(stands) < len(live):
        return []
    # A process in no collective comes first: the others may wait for it in theirs.
    apart = [item for item in stands if collective(frames_now(item.rank)) is None]
    # A process whose script still runs comes before ended scripts, which may wait for it at their end.
    odd = max(apart or stands, key=lambda item: (not at_end(item.rank, item.span), item.age_s))
    # It is reported once each rank has passed its own limit, so the largest limit counts.
    finding = alone(replace(odd, limit_s=max(item.limit_s for item in stands)))
    if len(apart) < len(stands) and finding.severity == "warning":
        # The ranks wait for each other. That alerts as one finding once no process has moved for a while.
        finding = msgspec.structs.replace(finding, severity="info")
    over = [item for item in stands if item is not odd and at_end(item.rank, item.span)]
    return [_with_others(finding, over) if over else finding]


def _with_others(finding: Finding, over: Sequence[Stuck]) -> Finding:
    """Return the finding about a rank, extended by ranks that do not end after their scripts."""
    severe = any(alone(item).severity == "critical" for item in over)
    critical = finding.severity == "warning" and severe
    ranks = sorted(item.rank.rank for item in over)
    too = Text("others-do-not-end", {"number": len(over), "ranks": ranks})
    severity = "critical" if critical else finding.severity
    return msgspec.structs.replace(finding, severity=severity, also=[*finding.also, too])


def is_to_train_on(item: Stuck) -> bool:
    """Whether a process has no reason to stay where it is, as far as is known.

    It is in a loop that comes back to its loader, it saves, or it is in a wait that nobody begins on purpose.
    """
    return (
        waits_in_kernel(item.rank, item.span)
        or trains_on(item.rank, item.span)
        or saving(frames_now(item.rank))
    )


def wait_for_each_other(window: RunWindow, found: Sequence[Stuck]) -> bool:
    """Whether ranks before their first loop, or after their last one, wait for a rank that does nothing.

    Some are in a collective, such as ``init_process_group`` or the last barrier, so they wait for no person.
    No process of the run moves, so nothing that they could wait for is at work.
    """
    if not any(collective(frames_now(item.rank)) for item in found):
        return False
    quiet_ns = min(QUIET_NS, int(max(item.limit_s for item in found) * 1e9))  # a smaller limit counts
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
    """Whether a process has not moved for as long as its readings show."""
    return stands_still(item.rank, item.span.pid, recent_ns(item.rank, item.span)) or waits_for_lost_reader(
        item.rank
    )


def _is_seen(item: Stuck) -> bool:
    """Whether the place of the process is known: from its stack, or because no stack can be taken there."""
    return bool(frames_now(item.rank)) or waits_in_kernel(item.rank, item.span)


def alone(item: Stuck) -> Finding:
    """Explain a process that stands still in its own code, with no loader or partner to blame: S26 S52 S53.

    It alerts at once if the process does not move although it should train on, else only after a long time. A
    step that sleeps is usually a throttle (N09), and a child process may be at work.
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
    if stands and span.os_state == "R":  # woken for a moment, for example to write its stack
        span = msgspec.structs.replace(span, os_state=None, wchan=None)
    reason = blocked(span)
    on_thread = orphaned or waits_on_queue(frames) or waits_for_thread(frames)
    if orphaned or waits_on_queue(frames):
        reason = producer_gone(rank.process.loaders)
    elif on_thread:
        reason = thread_silent(dump)
    severity = _severity(item, frames)
    known = severity != "info" and stands and (on_thread or (span.os_state, span.wchan) != (None, None))
    clears = not (waits or without_loader or (read and waits_for_lock(rank)))
    because = reason.said("because") if known else None
    rule, params, remarks = _advice(item, reason, saves=saves, waits=waits, known=known)
    return Finding(
        key=f"{CODE}:rank{rank.rank}",
        code=CODE,
        scenario="S52" if saves else "S41" if waits else "S53" if is_outside else "S26",
        severity=severity,
        confidence=0.85 if severity == "critical" else 0.5,
        began_ns=span.since_ns,
        rule=rule,
        params=params,
        frame=_title(item, frames, because, clears_loader=clears),
        also=[*_cause(item, frames, on_queue=waits_on_queue(frames)), *remarks],
        evidence=[
            observed("no-progress-for", item.age_s, "s"),
            observed("limit-learned-for-this-phase", item.limit_s, "s"),
            *known_evidence(
                ("process-state", span.os_state, "text"),
                ("waits-in-kernel-function", span.wchan if span.wchan not in ("", "0") else None, "text"),
            ),
        ],
        rank=rank.rank,
        host=rank.host,
        pid=span.pid,
        lost_s=item.age_s,
        stacks=[dump] if dump else [],
    )


def _stands(item: Stuck) -> bool:
    """Whether the process does not move at all and still stands where its stack shows."""
    if waits_in_kernel(item.rank, item.span) or waits_for_lost_reader(item.rank):
        return True
    since_ns = recent_ns(item.rank, item.span)
    return is_still(item) and still_stands_there(item.rank, dump_now(item.rank), since_ns)


def _severity(item: Stuck, frames: Sequence[Frame]) -> Severity:
    rank, span, late = item.rank, item.span, item.age_s >= AT_WORK_FACTOR * item.limit_s
    if waits_in_kernel(rank, span):
        return "critical"
    if saving(frames) and _was_silent_when_seen(item) and not save_works(item, frames):
        return "critical"
    if searches(item, frames):
        return "critical"
    asleep = sleeps(rank, span)
    no_child_works = (
        not waits_for_child(frames) or children_work(rank, span.pid, recent_ns(rank, span)) is False
    )
    stands = _stands(item) and no_child_works
    if is_to_train_on(item):
        on_purpose = asleep and span.phase != "outside" and not waits_for_lost_reader(item.rank)
        return "critical" if stands and not on_purpose else "warning" if late else "info"
    if not stands or asleep or serves(item):
        return "info"
    if _has_not_begun(rank):
        return "critical" if _is_pointed(span) else "warning"
    return "warning" if _is_stuck_at_the_end(item, frames) else "info"


def _was_silent_when_seen(item: Stuck) -> bool:
    """Whether nothing was written for the limit when the stack was taken; later the process may move on."""
    dump = dump_now(item.rank)
    wrote = item.rank.made_ns - int(silent_s(item) * 1e9)
    return dump is not None and dump.taken_ns - wrote >= item.limit_s * 1e9


def _is_stuck_at_the_end(item: Stuck, frames: Sequence[Frame]) -> bool:
    """Whether a process that has trained stands where nobody stays on purpose.

    That is a wait for one thing, or any place at all if other ranks stand still as well.
    """
    if item.span.phase != "outside":
        return False
    return user_frame(frames) is not None and (_is_pointed(item.span) or item.rank.process.world_size > 1)


def _is_pointed(span: SpanInfo) -> bool:
    return waits_in(_POINTED, span.wchan)


def _title(item: Stuck, frames: Sequence[Frame], because: Text | str | None, *, clears_loader: bool) -> Text:
    where, span, rank = user_frame(frames), item.span, item.rank
    stands = "works" if _works(item) else "still"
    if searches(item, frames):
        stands = "searches"
    if saving(frames):
        stands = "save"
    place = "named-phase" if span.phase_name else "phase"
    if span.phase == "outside":
        place = "outside"
    params: dict[str, Param] = {
        "rank": rank.rank if rank.process.world_size >= 2 else None,
        "stands": stands,
        "place": "line" if where else place,
        "at": where.text if where else None,
        "phase": span.phase_name or span.phase,
        "age_s": item.age_s,
        "silent_s": silent_s(item) if stands == "save" else None,
        "because": because or None,
        "clears": clears_loader,
    }
    return Text("stands-alone", params)


def _cause(item: Stuck, frames: Sequence[Frame], *, on_queue: bool) -> list[Text]:
    rank, span = item.rank, item.span
    if searches(item, frames):
        usual_s = item.usual_s if math.isfinite(item.usual_s) else None
        return [Text("search-comes-to-no-end", {"usual_s": usual_s})]
    if _works(item):
        does = "works"
    elif is_still(item):
        does = "queue" if on_queue else "waits"
    else:
        does = "looks"
    seen = [Text("stands-in-its-code", {"does": does})]
    if builds_kernels(frames):
        seen.append(Text("compiles-kernels" if _works(item) else "compilers-do-nothing"))
    if ended := _lost_children(item):
        seen.append(Text("children-have-ended", {"children": ended}))
    if waits_in_kernel(rank, span) and not frames:
        seen.append(Text("takes-no-signal"))
    if span.phase == "outside":
        seen.append(Text("outside-its-loops", {"outside": _outside_means(rank, is_to_train_on(item))}))
    if saving(frames):
        seen.append(Text("save-has-not-returned", {"age_s": item.age_s}))
    return seen


def _lost_children(item: Stuck) -> int:
    """Return how many child processes have ended while the process waits for something that they may owe."""
    wchan = item.span.wchan  # None for a process that was just ended
    waits = wchan is None or waits_in(PIPE_FUNCTIONS, wchan) or waits_in(SOCKET_FUNCTIONS, wchan)
    return children_ended(item.rank, item.span.pid) if waits and is_still(item) else 0


def _works(item: Stuck) -> bool:
    return (
        item.reading or cpu_ratio(item.rank, item.span.pid, recent_ns(item.rank, item.span)) > IDLE_CPU_RATIO
    )


def _has_not_begun(rank: RankWindow) -> bool:
    """Whether the process has a training loader and never requested a batch from it."""
    span = rank.span
    trains = any(loader.role == "train" for loader in rank.process.loaders)
    return trains and span is not None and not span.batches and not rank.table("epoch_begins")["rank"].size


def _outside_means(rank: RankWindow, goes_on: bool) -> str:
    """Return where outside its loops the process is, as a parameter of the message ``outside-its-loops``."""
    if _has_not_begun(rank):
        return "before-first-batch"
    if rank.process.trains_without_loader:
        return "between-steps" if goes_on else "after-step"
    return "between-passes" if goes_on else "outside"


def _advice(
    item: Stuck, reason: Explanation, *, saves: bool, waits: bool, known: bool
) -> tuple[str, dict[str, Param], list[Text]]:
    """Return the rule with the advice, the rule's parameters, and remarks to add after it."""
    pid: dict[str, Param] = {"pid": item.span.pid}
    if waits:
        return reason.rule, reason.params, []
    if builds_kernels(frames_now(item.rank)) and not _works(item):
        return "compilers-hang", pid, []
    if saves:
        return "save-hangs", pid, []
    if searches(item, frames_now(item.rank)):
        return "optimizer-search-endless", {}, []
    if _lost_children(item):
        return "child-ended-without-answer", pid, []
    rule, params = (reason.rule, reason.params) if known else ("stands-still-in-own-code", {})
    return rule, params, [Text("meant-to-take-long")]
