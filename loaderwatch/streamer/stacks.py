"""Takes stacks of the training process and its workers: on a signal, faulthandler writes them. No ptrace.

A real-time signal kills a process that has no handler for it. So the signal goes only to a process that
published its handler, if the kernel confirms the handler and the pid still names that process. Later ticks of
the streamer read the answers.

A main thread in an uninterruptible wait (state D: a dead mount, a dead disk) takes no signal. Any other
thread of the process takes it and writes the stacks of all threads.
"""

from __future__ import annotations

import errno
import logging
import os
import re
import signal
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

import msgspec

from loaderwatch.core.clock import SECOND_NS
from loaderwatch.core.facts import LONG_STEP, OPEN_SPAN, StackDump
from loaderwatch.core.message import Param, Text
from loaderwatch.core.records import UNKNOWN, Phase
from loaderwatch.core.wire import MAX_TEXT
from loaderwatch.streamer.roster import Member, Roster
from loaderwatch.streamer.stack_moments.budget import (
    OF_A_LONG_STEP_APART_NS,
    LastStacks,
    StackBudget,
    steps_long,
)
from loaderwatch.streamer.training_loops import feeds_model, polls
from loaderwatch.texts import say

log = logging.getLogger(__name__)

_THREAD: Final = re.compile(r"(?:Current t|T)hread (0x[0-9a-fA-F]+)")

OLD_SPAN_NS: Final = 5 * SECOND_NS
OLD_TIMES_USUAL: Final = 3.0
AGAIN_AFTER: Final = (1, 2, 6, 12)
"""Span ages at which stacks are taken, in units of the first: 5, 10, 30, 60 s, then every 60 s."""
ELSEWHERE: Final = frozenset({Phase.OUTSIDE, Phase.USER})
"""Phases that may be long: outside loops and in user code. After 1 min stacks come at 2, 4, 6, … min."""
WORKER_AGAIN_NS: Final = 10 * SECOND_NS
ANSWER_NS: Final = SECOND_NS
PAST_A_WAIT: Final = 2
"""Signals sent while the main thread is in an uninterruptible wait. The kernel keeps the first for that
thread and gives the second to a thread that can take it (``complete_signal`` in kernel/signal.c)."""
MAX_FILE_BYTES: Final = 2**20
MAX_TEXT_PER_ENVELOPE: Final = 2 * 2**20
SAMPLE: Final = "sample"
"""Why a stack is taken: for the profile, where the memory of the process cannot be read."""
WATCHED: Final = frozenset(
    {
        Phase.ITER,
        Phase.WAIT,
        Phase.STEP,
        Phase.H2D,
        Phase.FORWARD,
        Phase.BACKWARD,
        Phase.OPTIMIZER,
        Phase.TEARDOWN,
    }
)


@dataclass(slots=True)
class _Pending:
    member: Member
    rank: int
    why: str
    asked_ns: int
    signalled: bool = False
    size_before: int = 0
    size: int = 0
    silent_ns: int = 0  # the last look before the answer, at first the request: the stack is from then
    wchan: str | None = None


@dataclass(slots=True)
class _Level:
    since_ns: int
    taken: int = 0


class StackCollector:
    """Takes stacks when a span grows old, or on request."""

    def __init__(self, last: LastStacks) -> None:
        self._last = last
        self._long_steps = StackBudget(last, LONG_STEP, OF_A_LONG_STEP_APART_NS)
        self._pending: dict[int, _Pending] = {}
        self._samples: list[StackDump] = []
        self._done: list[tuple[int, StackDump]] = []  # each with its monotonic time
        self._levels: dict[int, _Level] = {}  # by pid of the training process
        self._worker_asked_ns: dict[int, int] = {}  # by rank
        # By pid of the worker: start of the sample whose stack was taken.
        self._samples_seen: dict[int, int] = {}
        # By pid: signals sent during an uninterruptible wait that no thread took.
        self._untaken: dict[int, int] = {}

    @property
    def busy(self) -> bool:
        """Whether a process was asked and has not answered yet."""
        return bool(self._pending)

    def request(
        self,
        rank: int,
        roster: Roster,
        now_ns: int,
        why: str = "requested",
        *,
        workers: bool = True,
        pids: Collection[int] | None = None,
    ) -> None:
        """Take the stacks of ``pids``, else of a rank's training process and, if asked, its workers."""
        for member in roster.of_rank(rank):
            wanted = member.pid in pids if pids is not None else workers or member.worker < 0
            if member.alive and wanted and member.pid not in self._pending:
                if why != SAMPLE:
                    self._last.note([member.pid], why, now_ns)
                self._pending[member.pid] = _Pending(member, rank, why, now_ns)
                self._ask(self._pending[member.pid], now_ns)

    def poll(self, roster: Roster, usual_ns: dict[int, tuple[float, float]], now_ns: int) -> None:
        """Look for old spans and answers, once per tick. ``usual_ns`` is each rank's usual (wait, step)."""
        for pending in list(self._pending.values()):
            if pending.signalled:
                self._read(pending, now_ns)
            else:
                self._ask(pending, now_ns)
        for rank, main in roster.newest_by_rank().items():
            if main.alive and self._is_old(main, usual_ns.get(rank), now_ns):
                self.request(rank, roster, now_ns, OPEN_SPAN)
            elif self._is_long(rank, main, usual_ns.get(rank), now_ns):
                self.request(rank, roster, now_ns, LONG_STEP, workers=False)
        for worker in roster.workers:
            self._look_at_worker(worker, roster, now_ns)

    def take_samples(self) -> list[StackDump]:
        """Return the finished stacks that the sampler asked for; without a text if there is none."""
        samples, self._samples = self._samples, []
        return samples

    def take(self, wall_offset_ns: int) -> list[StackDump]:
        """Return the finished stacks, as many as fit into one envelope."""
        taken, size = [], 0
        while self._done and size <= MAX_TEXT_PER_ENVELOPE:
            at_ns, dump = self._done.pop(0)
            size += len(dump.text)
            taken.append(msgspec.structs.replace(dump, taken_ns=at_ns + wall_offset_ns))
        return taken

    def _is_old(self, main: Member, usual: tuple[float, float] | None, now_ns: int) -> bool:
        span = main.ring.span()
        if span is None or span.phase not in WATCHED | ELSEWHERE or span.since_ns == UNKNOWN:
            return False
        again: tuple[int, ...] = AGAIN_AFTER
        first = float(OLD_SPAN_NS)
        if span.phase in ELSEWHERE:
            again = (*AGAIN_AFTER, 2 * AGAIN_AFTER[-1])
        else:
            wait_ns, step_ns = usual or (0.0, 0.0)
            usual_ns = wait_ns if span.phase is Phase.WAIT else step_ns
            first = max(first, OLD_TIMES_USUAL * usual_ns)
        level = self._levels.get(main.pid)
        if level is None or level.since_ns != span.since_ns:
            level = self._levels[main.pid] = _Level(span.since_ns)
        steady = len(again)
        due = first * (again[level.taken] if level.taken < steady else again[-1] * (level.taken - steady + 2))
        if now_ns - span.since_ns < due:
            return False
        level.taken += 1
        return True

    def _is_long(self, rank: int, main: Member, usual: tuple[float, float] | None, now_ns: int) -> bool:
        """Whether the process is in a long step and the budget allows a stack; it then counts as taken."""
        is_long = usual is not None and steps_long(main, usual[1], now_ns)
        return is_long and self._long_steps.take(rank, [main.pid], now_ns)

    def _look_at_worker(self, worker: Member, roster: Roster, now_ns: int) -> None:
        span = worker.ring.span()
        if not worker.alive or span is None or span.phase not in (Phase.FETCH, Phase.COLLATE):
            return
        since = span.sample_since_ns if span.sample_since_ns != UNKNOWN else span.since_ns
        if since == UNKNOWN or now_ns - since < OLD_SPAN_NS or self._samples_seen.get(worker.pid) == since:
            return
        rank = roster.rank_of(worker)
        if rank is None or now_ns - self._worker_asked_ns.get(rank, -WORKER_AGAIN_NS) < WORKER_AGAIN_NS:
            return
        self._samples_seen[worker.pid] = since
        self._worker_asked_ns[rank] = now_ns
        self.request(rank, roster, now_ns, OPEN_SPAN)

    def _ask(self, pending: _Pending, now_ns: int) -> None:
        member = pending.member
        stat = member.files.stat()
        if stat is None or not stat.alive:
            del self._pending[member.pid]
            return
        number = member.ring.reader.status().stack_signal
        if not number:
            self._give_up(pending, now_ns, "unregistered")
        elif stat.state in ("T", "t"):
            self._give_up(pending, now_ns, "stopped", state=stat.state)
        elif _is_traced(member):
            self._give_up(pending, now_ns, "traced")
        elif not _listens(member, number):
            self._give_up(pending, now_ns, "no-handler", signal=number)
        elif stat.state != "D":
            self._signal(pending, number, now_ns)
        elif now_ns - pending.asked_ns > ANSWER_NS:  # most such waits end sooner
            self._signal_past_a_wait(pending, number, now_ns)

    def _signal_past_a_wait(self, pending: _Pending, number: int, now_ns: int) -> None:
        """Ask the other threads of a process whose main thread is in an uninterruptible wait.

        These signals queue up, and a process without another thread takes them later. So at most two queue.
        """
        pid = pending.member.pid
        if not _awaits_a_signal(pending.member, number):
            self._untaken.pop(pid, None)
        for _ in range(PAST_A_WAIT - self._untaken.get(pid, 0)):
            self._signal(pending, number, now_ns)
            if pid not in self._pending:
                return
            self._untaken[pid] = self._untaken.get(pid, 0) + 1
        if not pending.signalled:
            self._give_up_unanswered(pending, now_ns)

    def _signal(self, pending: _Pending, number: int, now_ns: int) -> None:
        member = pending.member
        wchan = member.files.wchan()
        size = _size(member)
        if size > MAX_FILE_BYTES:
            try:
                os.truncate(member.ring.stack_path, 0)
                size = 0
            except OSError as error:
                log.warning("%s cannot be shortened: %s", member.ring.stack_path, error)
        if not send_signal(member, number):
            del self._pending[member.pid]
            return
        pending.signalled, pending.asked_ns, pending.silent_ns = True, now_ns, now_ns
        pending.wchan = wchan
        pending.size_before = pending.size = size

    def _read(self, pending: _Pending, now_ns: int) -> None:
        size = _size(pending.member)
        waited = now_ns - pending.asked_ns
        if size > pending.size_before and (size == pending.size or waited > ANSWER_NS):
            self._finish(
                pending, pending.silent_ns, _read_from(pending.member, pending.size_before), pending.why
            )
        elif size <= pending.size_before:
            pending.silent_ns = now_ns
            if waited > ANSWER_NS:
                self._give_up_unanswered(pending, now_ns)
        pending.size = size

    def _give_up(self, pending: _Pending, now_ns: int, why: str, **params: Param) -> None:
        """Hand on why there is no stack, in English: the field of envelopes and recordings holds words."""
        self._finish(pending, now_ns, "", say(Text("no-stack", {"why": why, **params})))

    def _give_up_unanswered(self, pending: _Pending, now_ns: int) -> None:
        stat = pending.member.files.stat()
        if stat is not None and stat.state == "D":
            wchan = pending.member.files.wchan() or "unknown"
            self._give_up(pending, now_ns, "uninterruptible", wchan=wchan)
        else:
            self._give_up(pending, now_ns, "no-answer", state=stat.state if stat else "gone")

    def _finish(self, pending: _Pending, taken_ns: int, text: str, why: str) -> None:
        member = pending.member
        self._pending.pop(member.pid, None)
        text = one_dump(text)
        if member.worker >= 0:
            text = cut_at_worker_loop(text)
        dump = StackDump(
            rank=pending.rank,
            worker=member.worker,
            pid=member.pid,
            taken_ns=0,
            text=text[:MAX_TEXT],
            why=why,
            wchan=pending.wchan,
            polls=polls(text, member.pid, pending.wchan),
            feeds=feeds_model(text, member.pid, member.model_calls),
        )
        if why == SAMPLE or pending.why == SAMPLE:
            self._samples.append(dump)
        else:
            self._done.append((taken_ns, dump))


def one_dump(text: str) -> str:
    """Return a text's first dump: a thread may take two signals, and each dump names each thread once."""
    named: set[str] = set()
    kept = []
    for line in text.splitlines(keepends=True):
        thread = _THREAD.match(line)
        if thread and thread[1] in named:
            break
        if thread:
            named.add(thread[1])
        kept.append(line)
    return "".join(kept)


def cut_at_worker_loop(text: str) -> str:
    """Return the stacks of a DataLoader worker without the frames below its loop.

    In a forked worker those frames are the parent's at the fork, not the worker's.
    """
    kept = []
    inherited = False
    for line in text.splitlines(keepends=True):
        if not line.startswith("  File "):
            inherited = False
        if not inherited:
            kept.append(line)
        if line.rstrip().endswith(" in _worker_loop"):
            inherited = True
    return "".join(kept)


def _listens(member: Member, number: int) -> bool:
    status = member.files.status()
    caught = status.caught_signals if status else None
    return caught is not None and bool(caught >> (number - 1) & 1)


def _awaits_a_signal(member: Member, number: int) -> bool:
    """Whether a signal was sent and no thread has taken it yet; True if unknown."""
    status = member.files.status()
    pending = status.pending_signals if status else None
    return pending is None or bool(pending >> (number - 1) & 1)


def _is_traced(member: Member) -> bool:
    status = member.files.status()
    return status is not None and bool(status.tracer_pid)


def send_signal(member: Member, number: int) -> bool:
    """Send a signal to exactly this process; return False if it is gone or its pid was reused."""
    if member.start_ticks is None:
        return False
    handle = None
    try:
        # The pidfd always names the same process, so a check made after opening it stays valid.
        if hasattr(os, "pidfd_open"):
            handle = _open_pid(member.pid)
        stat = member.files.stat()
        if stat is None or stat.start_ticks != member.start_ticks or not _listens(member, number):
            return False
        if handle is None:
            os.kill(member.pid, number)
        else:
            signal.pidfd_send_signal(handle, number)
    except OSError as error:
        log.info("process %d cannot be signalled: %s", member.pid, error)
        return False
    finally:
        if handle is not None:
            os.close(handle)
    return True


def _open_pid(pid: int) -> int | None:
    try:
        return os.pidfd_open(pid)
    except OSError as error:
        if error.errno in (errno.ENOSYS, errno.EPERM):  # kernels before 5.3; sandboxes
            return None
        raise


def _size(member: Member) -> int:
    try:
        return member.ring.stack_path.stat().st_size
    except OSError:
        return 0


def _read_from(member: Member, offset: int) -> str:
    try:
        with member.ring.stack_path.open("rb") as file:
            file.seek(offset)
            data = file.read(MAX_TEXT)
    except OSError as error:
        log.info("%s cannot be read: %s", member.ring.stack_path, error)
        return ""
    return data.replace(b"\0", b"").decode("utf-8", "replace")
