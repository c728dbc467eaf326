"""All the moments at which a stack shows why a loop is slow. They are checked once a second."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from loaderwatch.core.facts import (
    ANSWER_WAIT,
    AT_WORK,
    BETWEEN_STEPS,
    INTERPRETER_HELD,
    LOCK_WAIT,
    LONGER_STEP,
    SCRIPT_WORK,
)
from loaderwatch.streamer.roster import Roster
from loaderwatch.streamer.samplers.process import Reading
from loaderwatch.streamer.stack_moments.budget import LastStacks
from loaderwatch.streamer.stack_moments.busy_readers import BusyReaders
from loaderwatch.streamer.stack_moments.held_interpreter import HeldInterpreter
from loaderwatch.streamer.stack_moments.locked_workers import LockedWorkers
from loaderwatch.streamer.stack_moments.longer_steps import LongerSteps
from loaderwatch.streamer.stack_moments.script_work import ScriptWork
from loaderwatch.streamer.stack_moments.step_loops import StepLoops
from loaderwatch.streamer.stack_moments.waiting_loops import WaitingLoops


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
