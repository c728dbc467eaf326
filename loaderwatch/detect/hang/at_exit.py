"""A process whose script is over and that does not end: S53; of a worker that does not end, S22 S35 S36.

Python waits at its end for all threads that are no daemons, ``multiprocessing`` for all children, and functions registered with
``atexit`` for whatever they like. Nobody stays there on purpose, so whoever does nothing for the limit is stuck.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from loaderwatch.core.answers import Evidence, Severity
from loaderwatch.core.facts import AT_END, SpanInfo, StackDump
from loaderwatch.detect.finding import Finding, Texts, known_evidence
from loaderwatch.detect.hang.awaited import name_of
from loaderwatch.detect.hang.excuses import ALONE_FACTOR, serves
from loaderwatch.detect.hang.reasons import blocked
from loaderwatch.detect.limits import IDLE_CPU_RATIO
from loaderwatch.detect.measures.children import children_work, threads_work
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
from loaderwatch.detect.text import duration, listing, sample_name
from loaderwatch.detect.window import RankWindow

CODE: Final = "hung"
_THREADS: Final = (
    "Python ends only when all threads have ended that are no daemons: give what the thread waits for a timeout, tell it to end before the"
    " script does, or start it with daemon=True."
)
_CHILDREN: Final = (
    "multiprocessing waits at the end for every child: `ps --ppid {pid}` shows them, and `py-spy dump --pid` where one stands. Join each"
    " with a timeout and terminate() it then."
)
_NATIVE: Final = (
    "Python has taken down its modules already, and a library does not end: `gdb -p {pid} -batch -ex bt` shows which. Often it is an exchange or a"
    " stream that is still under way: wait for all of it, and end it (dist.destroy_process_group()), before the last line of the script."
)
_WORKERS: Final = (
    " At the end a worker is ended by SIGTERM, so this one handles, ignores or blocks that signal, or is in a wait that no signal ends: leave"
    " SIGTERM as it is in worker_init_fn and in the dataset."
)


@dataclass(frozen=True)
class _Awaited:
    """What a process waits for at its end."""

    text: str  # as the object of "waits for"; "" if only its own line is known
    works: bool | None  # whether that gets on; None: not known
    advice: str
    moves: str = ""  # what is said where that gets on
    scenario: str = "S53"
    worker: SpanInfo | None = None
    dump: StackDump | None = None  # of that worker


def finding(item: Stuck) -> Finding:
    """Explain it."""
    rank, span, dump = item.rank, item.span, dump_now(item.rank)
    frames = main_frames(dump)
    awaited = _awaited(item, frames, dump)
    worker = awaited.worker
    index = worker.sample_index if worker is not None else None
    stacks = [one for one in (awaited.dump, dump) if one is not None]
    return Finding(
        key=f"{CODE}:rank{rank.rank}",
        code=CODE,
        scenario=awaited.scenario,
        severity=_severity(item, awaited),
        confidence=0.85 if awaited.works is False else 0.5,
        began_ns=span.since_ns,
        texts=Texts(title=_title(item, frames, awaited), cause=_cause(item, awaited), advice=awaited.advice),
        evidence=[
            Evidence(label="no progress for", value=item.age_s, unit="s"),
            Evidence(label="limit learned for this phase", value=item.limit_s, unit="s"),
            *known_evidence(
                ("phase", AT_END, "text"),
                ("loader", name_of(rank, worker) if worker is not None else None, "text"),
                ("sample", index, "index"),
                ("process state", (worker or span).os_state, "text"),
                ("waits in kernel function", _wchan(worker or span), "text"),
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
    """Critical where nothing moves that could end it; a warning at ten times the limit where something does, and where nobody knows."""
    rank, span = item.rank, item.span
    if serves(item):
        return "info"
    late = item.age_s >= ALONE_FACTOR * item.limit_s
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
    if waits_for_child(frames):
        works = children_work(rank, span.pid, _since_ns(item))
        where = user_frame(frames)
        text = f"a child process that does not end{f', at {where}' if where is not None else ''}"
        return _Awaited(text, works, _CHILDREN.format(pid=span.pid), moves="A child of it is still at work.")
    if waits_for_thread(frames) and user_frame(frames) is None:
        return _Awaited(
            _threads(thread_places(dump.text) if dump is not None else []),
            threads_work(rank, span.pid, _since_ns(item)),
            _THREADS,
            moves="A thread of it is still woken again and again, as one at work is.",
        )
    advice = (
        _NATIVE.format(pid=span.pid) if NATIVE in frames else blocked(span, "the training process").advice
    )
    return _Awaited("", False, advice)


def _threads(places: Sequence[Frame]) -> str:
    """Return the threads in words; which of several are no daemons is not known."""
    lines = listing([str(place) for place in places])
    if len(places) > 1:
        return f"a thread that does not end; its threads stand at {lines}"
    return f"a thread that does not end{f', at {lines}' if lines else ''}"


def _worker_left(rank: RankWindow) -> SpanInfo | None:
    """Return the worker that has not ended: one that is busy before one that is idle, the longest first."""
    alive = [worker for worker in rank.workers if worker.alive]
    return min(
        alive, key=lambda one: (one.phase == WORKER_IDLE, one.sample_since_ns or one.since_ns), default=None
    )


def _for_worker(item: Stuck, worker: SpanInfo) -> _Awaited:
    rank = item.rank
    dump = stack_of(rank, worker.worker, worker.pid)
    where = user_frame(main_frames(dump))
    name = f"worker {worker.worker} (pid {worker.pid}) of {name_of(rank, worker)}, which does not end"
    busy = worker.phase != WORKER_IDLE
    if worker.sample_index is not None and busy:
        loader = rank.loader(worker.loader)
        name += (
            f": it is in {sample_name(worker.sample_index, loader is not None and loader.iterable_dataset)}"
        )
        name += f" at {where}" if where is not None else ""
    elif where is not None:
        name += f": it stands at {where}"
    reason = blocked(worker, f"worker {worker.worker}", asked=False)
    works = cpu_ratio(rank, worker.pid, _since_ns(item)) > IDLE_CPU_RATIO
    return _Awaited(
        f"{name}, {reason.because}",
        works,
        reason.advice + _WORKERS,
        moves="The worker still uses a CPU.",
        scenario=reason.scenario if busy else "S53",
        worker=worker,
        dump=dump,
    )


def _title(item: Stuck, frames: Sequence[Frame], awaited: _Awaited) -> str:
    rank, age = item.rank, duration(item.age_s)
    who = "The script" if rank.process.world_size < 2 else f"The script of rank {rank.rank}"
    begins = f"{who} is over, but its process does not end: for {age} it has"
    if awaited.text:
        return f"{begins} waited for {awaited.text}."
    where = user_frame(frames)
    because = blocked(item.span, "the training process").because
    at = f"at {where}" if where is not None else "in a function that runs at exit"
    return f"{begins} stood {'in native code of a library' if NATIVE in frames else at}, {because}."


def _cause(item: Stuck, awaited: _Awaited) -> str:
    if awaited.works:
        text = awaited.moves
    elif awaited.worker is not None:
        text = "The worker uses no CPU, and the training process waits for it without a limit."
    elif awaited.works is None:
        text = "The training process does nothing itself; whether what it waits for does is not known."
    else:
        text = "Nothing of it moves: no CPU is used, and none of what it waits for is woken."
    return f"{text} Until it ends, whoever waits for the job (torchrun, a scheduler) waits as well, and what it holds stays taken."
