"""A process that does not end after its script: S53; if a worker does not end, S22, S35 or S36.

At its end Python waits for all non-daemon threads, ``multiprocessing`` for all children, and ``atexit``
functions for anything. Nobody stays there on purpose. So a process that does nothing for the limit is stuck.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from loaderwatch.core.answers import Param, Severity, Text
from loaderwatch.core.facts import AT_END, SpanInfo, StackDump
from loaderwatch.detect.codes import HUNG as CODE
from loaderwatch.detect.finding import Finding, known_evidence, observed
from loaderwatch.detect.hang.expected_standstills import AT_WORK_FACTOR, serves
from loaderwatch.detect.hang.loader_hang_causes import blocked, loader_evidence, loader_name
from loaderwatch.detect.measures.other_work import children_work, threads_work
from loaderwatch.detect.measures.progress import (
    WORKER_IDLE,
    Stuck,
    cpu_ratio,
    dump_now,
    recent_ns,
    stack_of,
    stands_still,
    still_stands_there,
)
from loaderwatch.detect.measures.stacks import (
    NATIVE,
    Frame,
    ends_loader_workers,
    main_frames,
    thread_places,
    user_frame,
    waits_for_child,
    waits_for_thread,
)
from loaderwatch.detect.shared_thresholds import IDLE_CPU_RATIO
from loaderwatch.detect.window import RankWindow


@dataclass(frozen=True)
class _Awaited:
    """What a process waits for at its end."""

    waits: str  # its name in the title; "library" and "function" if only the process's own line is known
    works: bool | None  # whether it makes progress; None if unknown
    rule: str
    params: dict[str, Param]  # of the rule
    title: dict[str, Param] = field(default_factory=dict)
    scenario: str = "S53"
    worker: SpanInfo | None = None
    dump: StackDump | None = None  # of that worker


def finding(item: Stuck) -> Finding:
    """Explain a process that does not end."""
    rank, span, dump = item.rank, item.span, dump_now(item.rank)
    frames = main_frames(dump)
    awaited = _awaited(item, frames, dump)
    worker = awaited.worker
    index = worker.sample_index if worker is not None else None
    stacks = [stack for stack in (awaited.dump, dump) if stack is not None]
    return Finding(
        key=f"{CODE}:rank{rank.rank}",
        code=CODE,
        scenario=awaited.scenario,
        severity=_severity(item, awaited),
        confidence=0.85 if awaited.works is False else 0.5,
        began_ns=span.since_ns,
        rule=awaited.rule,
        params=awaited.params,
        frame=_title(item, awaited),
        also=[_cause(awaited), *([Text("worker-outlives-sigterm")] if worker is not None else [])],
        evidence=[
            observed("no-progress-for", item.age_s, "s"),
            observed("limit-learned-for-this-phase", item.limit_s, "s"),
            *known_evidence(
                ("phase", AT_END, "text"),
                ("loader", loader_evidence(rank, worker) if worker is not None else None, "text"),
                ("sample", index, "index"),
                ("process-state", (worker or span).os_state, "text"),
                ("waits-in-kernel-function", _wchan(worker or span), "text"),
            ),
        ],
        rank=rank.rank,
        host=rank.host,
        worker=worker.worker if worker is not None else None,
        pid=worker.pid if worker is not None else span.pid,
        sample_indices=[] if index is None else [index],
        lost_s=item.age_s,
        stacks=stacks,
    )


def _wchan(span: SpanInfo) -> str | None:
    return span.wchan if span.wchan not in ("", "0") else None


def _since_ns(item: Stuck) -> int:
    return recent_ns(item.rank, item.span, int(item.limit_s * 1e9))


def _severity(item: Stuck, awaited: _Awaited) -> Severity:
    """Return the severity: critical if nothing moves that could end the wait, a warning if that is unknown.

    If something moves, it is a warning from ten times the limit on. A server never alerts.
    """
    rank, span = item.rank, item.span
    if serves(item):
        return "info"
    late = item.age_s >= AT_WORK_FACTOR * item.limit_s
    sleeps = "nanosleep" in (span.wchan or "")
    still = stands_still(rank, span.pid, _since_ns(item))
    if awaited.works or sleeps or not still or not still_stands_there(rank, dump_now(rank), _since_ns(item)):
        return "warning" if late else "info"
    return "warning" if awaited.works is None else "critical"


def _awaited(item: Stuck, frames: Sequence[Frame], dump: StackDump | None) -> _Awaited:
    rank, span = item.rank, item.span
    if ends_loader_workers(frames):
        worker = _worker_left(rank)
        if worker is not None:
            return _for_worker(item, worker)
    where = user_frame(frames)
    at = where.text if where is not None else None
    pid: dict[str, Param] = {"pid": span.pid}
    if waits_for_child(frames):
        works = children_work(rank, span.pid, _since_ns(item))
        return _Awaited("child", works, "child-outlives-script", pid, {"at": at})
    if waits_for_thread(frames) and where is None:
        lines = [place.text for place in thread_places(dump.text)] if dump is not None else []
        works = threads_work(rank, span.pid, _since_ns(item))
        # Which of several threads are non-daemon is unknown.
        waits = "threads" if len(lines) > 1 else "thread"
        return _Awaited(waits, works, "thread-outlives-script", {}, {"lines": lines or None})
    reason = blocked(span)
    title: dict[str, Param] = {"at": at, "because": reason.said("because")}
    if NATIVE in frames:
        return _Awaited("library", False, "library-outlives-script", pid, title)
    return _Awaited("function", False, reason.rule, reason.params, title)


def _worker_left(rank: RankWindow) -> SpanInfo | None:
    """Return a worker that has not ended: busy ones before idle ones, then the one that has stood longest."""
    alive = [worker for worker in rank.workers if worker.alive]
    return min(alive, key=lambda w: (w.phase == WORKER_IDLE, w.sample_since_ns or w.since_ns), default=None)


def _for_worker(item: Stuck, worker: SpanInfo) -> _Awaited:
    rank = item.rank
    dump = stack_of(rank, worker.worker, worker.pid)
    where = user_frame(main_frames(dump))
    loader = rank.loader(worker.loader)
    busy = worker.phase != WORKER_IDLE
    reason = blocked(worker, asked=False)
    title: dict[str, Param] = {
        "worker": worker.worker,
        "pid": worker.pid,
        "loader": loader_name(rank, worker),
        "in_sample": worker.sample_index is not None and busy,
        "sample": worker.sample_index,
        "stream": loader is not None and bool(loader.iterable_dataset),
        "at": where.text if where is not None else None,
        "because": reason.said("because"),
    }
    works = cpu_ratio(rank, worker.pid, _since_ns(item)) > IDLE_CPU_RATIO
    return _Awaited(
        "worker",
        works,
        reason.rule,
        reason.params,
        title,
        scenario=reason.scenario if busy else "S53",
        worker=worker,
        dump=dump,
    )


def _title(item: Stuck, awaited: _Awaited) -> Text:
    rank = item.rank
    number = rank.rank if rank.process.world_size >= 2 else None
    return Text(
        "does-not-end", {"rank": number, "age_s": item.age_s, "waits": awaited.waits, **awaited.title}
    )


def _cause(awaited: _Awaited) -> Text:
    moves = "nothing" if awaited.works is False else "unknown"
    if awaited.works:
        moves = "thread" if awaited.waits == "threads" else awaited.waits
    elif awaited.worker is not None:
        moves = "no-worker"
    return Text("waits-at-its-end", {"moves": moves})
