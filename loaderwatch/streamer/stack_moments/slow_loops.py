"""All the moments at which a stack shows why a loop is slow. They are checked once a second."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

from loaderwatch.core.clock import SECOND_NS
from loaderwatch.core.facts import (
    ANSWER_WAIT,
    AT_WORK,
    BETWEEN_STEPS,
    GPU_IDLE,
    HELD_RATIO,
    INTERPRETER_HELD,
    LOCK_WAIT,
    LONGER_STEP,
    SCRIPT_WORK,
    SWING_HIGH_RATIO,
    SWING_LOW_RATIO,
    WOKEN_PER_S,
)
from loaderwatch.core.records import Phase, Values
from loaderwatch.core.ring.span import OpenSpan
from loaderwatch.streamer.roster import Roster
from loaderwatch.streamer.samplers.process import Reading
from loaderwatch.streamer.stack_moments.budget import (
    LONG_WAIT_NS,
    OF_A_PART_APART_NS,
    OF_ONE_APART_NS,
    LastStacks,
    StackBudget,
    steps_long,
    waits_long,
)
from loaderwatch.streamer.stack_moments.locked_workers import LockedWorkers

LOOP_WAITS_RATIO: Final = 0.2
"""Share of its time from which on a loop counts as waiting for data at every step."""
MOST_ASKED: Final = 3
"""Workers asked at a time; the others usually read at the same line."""
_COMPUTES: Final = "R"


class BusyReaders:
    """Follows the waits of each rank's loop."""

    def __init__(self, last: LastStacks) -> None:
        self._budget = StackBudget(last, AT_WORK)  # of workers
        self._own_budget = StackBudget(last, AT_WORK)  # of the training process

    def due(
        self,
        roster: Roster,
        readings: Mapping[int, Reading],
        usual_ns: Mapping[int, tuple[float, float]],
        now_ns: int,
    ) -> list[tuple[int, frozenset[int]]]:
        """Return the ranks and reader pids to take stacks of now, and count them as taken.

        Without workers the reader is the training process. It is also asked if no worker computes: it may
        unpack a batch or choose the samples of the next one.

        Args:
            roster: the processes of the run on this host.
            readings: this second's readings, by pid.
            usual_ns: the usual (wait, step) of each rank.
            now_ns: monotonic.
        """
        due_stacks = []
        for rank, main in roster.newest_by_rank().items():
            span = main.ring.span() if main.alive else None
            if span is None or span.phase is not Phase.WAIT:
                continue
            wait_ns, step_ns = usual_ns.get(rank, (0.0, 0.0))
            starved = wait_ns > LOOP_WAITS_RATIO * (wait_ns + step_ns)
            if not starved and not waits_long(main, now_ns):
                continue
            readers = _workers(roster, rank, span, starved)
            pids = [pid for pid in readers if _computes(readings.get(pid))][:MOST_ASKED]
            budget = self._budget
            if not pids and _computes(readings.get(main.pid)):
                pids, budget = [main.pid], self._own_budget
            if pids and budget.take(rank, pids, now_ns):
                due_stacks.append((rank, frozenset(pids)))
        return due_stacks


def _workers(roster: Roster, rank: int, span: OpenSpan, starved: bool) -> Iterator[int]:
    """Yield the pids of a loop's workers, the awaited worker first, and only it in a single long wait."""
    workers = [
        member
        for member in roster.of_rank(rank)
        if member.alive and member.worker >= 0 and member.ring.identity.loader == span.loader
    ]
    yield from (member.pid for member in workers if member.worker == span.awaited_worker)
    if starved:
        yield from (member.pid for member in workers if member.worker != span.awaited_worker)


def _computes(reading: Reading | None) -> bool:
    return reading is not None and reading.state == _COMPUTES


SWING_NS: Final = 10 * SECOND_NS
"""A GPU whose last busy moment is older than this has nothing to do; it does not swing."""


class IdleGpus:
    """Follows the utilization of each rank's GPU."""

    def __init__(self, last: LastStacks) -> None:
        self._busy_ns: dict[int, int] = {}  # by rank: when its GPU was last busy
        self._idle: set[int] = set()
        self._budget = StackBudget(last, GPU_IDLE)

    def due(self, used: Mapping[int, float], in_step: Callable[[int], int | None], now_ns: int) -> list[int]:
        """Return the ranks to take a stack of now, and count the stacks as taken.

        A stack is taken when the utilization falls. Utilization is a mean over half a second or more, so it
        may still be low when the loop has already gone on.

        Args:
            used: the newest utilization of each rank's GPU, 0 to 1.
            in_step: gives the pid of a rank's training process while it works on a batch.
            now_ns: monotonic.
        """
        ranks = []
        for rank, ratio in used.items():
            was_idle = rank in self._idle
            if ratio >= SWING_LOW_RATIO:
                self._idle.discard(rank)
                if ratio >= SWING_HIGH_RATIO:
                    self._busy_ns[rank] = now_ns
                continue
            self._idle.add(rank)
            swings = now_ns - self._busy_ns.get(rank, now_ns - 2 * SWING_NS) <= SWING_NS
            pid = in_step(rank) if swings and not was_idle else None
            if pid is not None and self._budget.take(rank, [pid], now_ns):
                ranks.append(rank)
        return ranks


WAITING_LOOKS: Final = 20
"""Looks considered, one a second."""
FEW_WAITS: Final = 4
"""Looks that must have found the process waiting within a step."""


class WaitingLoops:
    """Follows what the training process of each rank waits for."""

    def __init__(self, last: LastStacks) -> None:
        self._waits: dict[int, deque[bool]] = {}  # by rank: whether it waited, per look
        self._budget = StackBudget(last, ANSWER_WAIT)

    def due(
        self,
        roster: Roster,
        readings: Mapping[int, Reading],
        in_step: Callable[[int], int | None],
        now_ns: int,
    ) -> list[int]:
        """Return the ranks to take a stack of now, and count the stacks as taken.

        Args:
            roster: the processes of the run on this host.
            readings: this second's readings, by pid.
            in_step: gives the pid of a rank's training process while it works on a batch.
            now_ns: monotonic.
        """
        due_ranks = []
        for rank, main in roster.newest_by_rank().items():
            reading = readings.get(main.pid)
            if reading is None or not main.alive:
                self._waits.pop(rank, None)
                continue
            waits = bool(reading.values.get("answer_wait")) and in_step(rank) is not None
            looks = self._waits.setdefault(rank, deque(maxlen=WAITING_LOOKS))
            looks.append(waits)
            if waits and sum(looks) >= FEW_WAITS and self._budget.take(rank, [main.pid], now_ns):
                due_ranks.append(rank)
        return due_ranks


WAITS_RATIO: Final = 0.15
"""Share of its time that the loop spends between two steps."""


class StepLoops:
    """Follows the loops that have no loader."""

    def __init__(self, last: LastStacks) -> None:
        self._budget = StackBudget(last, BETWEEN_STEPS, OF_ONE_APART_NS)
        self._asked_ns: dict[int, int] = {}  # by rank: start of the gap of the last stack

    def due(self, roster: Roster, usual_ns: Mapping[int, tuple[float, float]], now_ns: int) -> list[int]:
        """Return the ranks to take a stack of now, and count the stacks as taken.

        Args:
            roster: the processes of the run on this host.
            usual_ns: the usual (wait, step) of each rank.
            now_ns: monotonic.
        """
        due_ranks = []
        for rank, main in roster.newest_by_rank().items():
            if main.info is None or not main.info.trains_without_loader:
                continue
            span = main.ring.span() if main.alive else None
            wait_ns, step_ns = usual_ns.get(rank, (0.0, 0.0))
            if span is None or span.phase is not Phase.OUTSIDE:
                continue
            often = wait_ns > WAITS_RATIO * (wait_ns + step_ns)
            long = now_ns - span.since_ns > max(LONG_WAIT_NS, wait_ns + step_ns)
            is_new = self._asked_ns.get(rank) != span.since_ns
            if (often or (long and is_new)) and self._budget.take(rank, [main.pid], now_ns):
                self._asked_ns[rank] = span.since_ns
                due_ranks.append(rank)
        return due_ranks


LOOKS: Final = 8
"""Looks considered, one a second."""
OWN_RATIO: Final = 0.3
"""Share of the looks that found the loop in a step, but neither in the model nor in the optimizer."""


class ScriptWork:
    """Follows what each rank's loop is doing, if the model and the optimizer are timed."""

    def __init__(self, last: LastStacks) -> None:
        self._looks: dict[int, deque[bool]] = {}  # by rank
        self._budget = StackBudget(last, SCRIPT_WORK, OF_A_PART_APART_NS)

    def due(self, roster: Roster, now_ns: int) -> list[int]:
        """Return the ranks to take a stack of now, and count the stacks as taken.

        Args:
            roster: the processes of the run on this host.
            now_ns: monotonic.
        """
        due_ranks = []
        for rank, main in roster.newest_by_rank().items():
            span = main.ring.span() if main.alive else None
            if span is None or main.info is None or not (main.info.has_model and main.info.has_optimizer):
                self._looks.pop(rank, None)
                continue
            looks = self._looks.setdefault(rank, deque(maxlen=LOOKS))
            evaluates = any(x.loader == span.loader and x.role != "train" for x in main.info.loaders)
            looks.append(span.phase is Phase.STEP and not evaluates)
            often = len(looks) == LOOKS and sum(looks) >= OWN_RATIO * LOOKS
            if looks[-1] and often and self._budget.take(rank, [main.pid], now_ns):
                due_ranks.append(rank)
        return due_ranks


LONGER: Final = 2.0
"""Times the shortest usual step so far. From here on, the part that grew is the larger part of the step."""
LEAST_STEP_NS: Final = 5_000_000
"""The shortest usual step that is followed. Shorter steps vary as much by other work of the machine."""
PARTS: Final = (Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER)


class LongerSteps:
    """Follows how long each rank's steps take, and takes stacks in the parts that may have grown."""

    def __init__(self, last: LastStacks) -> None:
        self._shortest_ns: dict[int, float] = {}  # shortest usual step so far, by pid
        self._budget = StackBudget(last, LONGER_STEP, OF_A_PART_APART_NS)

    def due(self, roster: Roster, usual_ns: Mapping[int, tuple[float, float]], now_ns: int) -> list[int]:
        """Return the ranks to take a stack of now, and count the stacks as taken.

        Args:
            roster: the processes of the run on this host.
            usual_ns: the usual (wait, step) of each rank.
            now_ns: monotonic.
        """
        due_ranks = []
        for rank, main in roster.newest_by_rank().items():
            step_ns = usual_ns.get(rank, (0.0, 0.0))[1]
            if not main.alive or main.info is None or main.info.cuda or step_ns < LEAST_STEP_NS:
                continue
            shortest_ns = self._shortest_ns[main.pid] = min(step_ns, self._shortest_ns.get(main.pid, step_ns))
            span = main.ring.span()
            parts = PARTS if main.info.has_model else (*PARTS, Phase.STEP)
            # A single long step gets its own stack: its cause is not the one that makes all steps longer.
            inside = span is not None and span.phase in parts and not steps_long(main, step_ns, now_ns)
            if inside and step_ns >= LONGER * shortest_ns and self._budget.take(rank, [main.pid], now_ns):
                due_ranks.append(rank)
        return due_ranks


FEW_SECONDS: Final = 3
"""Seconds in a row in which the interpreter must seem to be held."""


class HeldInterpreter:
    """Compares the training thread of each rank with the other threads of its process."""

    def __init__(self, last: LastStacks) -> None:
        self._woken: dict[int, tuple[float, int]] = {}  # by pid: its context switches so far, and the time
        self._seconds: dict[int, int] = {}  # by pid: seconds in a row
        self._budget = StackBudget(last, INTERPRETER_HELD, OF_ONE_APART_NS)

    def due(self, roster: Roster, readings: Mapping[int, Reading], now_ns: int) -> list[int]:
        """Return the ranks to take a stack of now, and count the stacks as taken.

        Args:
            roster: the processes of the run on this host.
            readings: this second's readings, by pid.
            now_ns: monotonic.
        """
        due_ranks = []
        for rank, main in roster.newest_by_rank().items():
            reading = readings.get(main.pid)
            if reading is None or not main.alive:
                self._woken.pop(main.pid, None)
                self._seconds.pop(main.pid, None)
                continue
            held = self._held(main.pid, reading.values, now_ns)
            self._seconds[main.pid] = self._seconds.get(main.pid, 0) + 1 if held else 0
            if self._seconds[main.pid] >= FEW_SECONDS and self._budget.take(rank, [main.pid], now_ns):
                due_ranks.append(rank)
        return due_ranks

    def _held(self, pid: int, values: Values, now_ns: int) -> bool:
        switches = values.get("voluntary_switches")
        previous = self._woken.pop(pid, None)
        if switches is None:
            return False
        self._woken[pid] = switches, now_ns
        whole, main = values.get("cpu_ratio"), values.get("main_cpu_ratio")
        if previous is None or now_ns <= previous[1] or whole is None or main is None:
            return False
        blocked = 1 - main - (values.get("run_delay_ratio") or 0.0)
        woken = (switches - previous[0]) * SECOND_NS / (now_ns - previous[1])
        return blocked >= HELD_RATIO and whole - main >= HELD_RATIO and woken >= WOKEN_PER_S * blocked


class Moment(NamedTuple):
    """A stack to take now, and why."""

    rank: int
    why: str
    pids: frozenset[int] | None  # these workers; None: the training process


class SlowLoops:
    """Follows the ranks' loops."""

    def __init__(self, in_step: Callable[[int], int | None], last: LastStacks) -> None:
        self._in_step = in_step  # the pid of a rank's training process while it works on a batch
        self._locked_workers = LockedWorkers(last)
        self._busy_readers = BusyReaders(last)
        self._waiting_loops = WaitingLoops(last)
        self._step_loops = StepLoops(last)
        self._script_work = ScriptWork(last)
        self._longer_steps = LongerSteps(last)
        self._held_interpreter = HeldInterpreter(last)

    def due(
        self,
        roster: Roster,
        readings: Mapping[int, Reading],
        usual_ns: Mapping[int, tuple[float, float]],
        now_ns: int,
    ) -> Iterator[Moment]:
        """Yield the stacks to take now, and count them as taken.

        Args:
            roster: the processes of the run on this host.
            readings: this second's readings, by pid.
            usual_ns: the usual (wait, step) of each rank.
            now_ns: monotonic.
        """
        for why, workers in (
            (LOCK_WAIT, self._locked_workers.due(roster, readings, usual_ns, now_ns)),
            (AT_WORK, self._busy_readers.due(roster, readings, usual_ns, now_ns)),
        ):
            yield from (Moment(rank, why, pids) for rank, pids in workers)
        for why, ranks in (
            (ANSWER_WAIT, self._waiting_loops.due(roster, readings, self._in_step, now_ns)),
            (BETWEEN_STEPS, self._step_loops.due(roster, usual_ns, now_ns)),
            (SCRIPT_WORK, self._script_work.due(roster, now_ns)),
            (LONGER_STEP, self._longer_steps.due(roster, usual_ns, now_ns)),
            (INTERPRETER_HELD, self._held_interpreter.due(roster, readings, now_ns)),
        ):
            yield from (Moment(rank, why, None) for rank in ranks)
