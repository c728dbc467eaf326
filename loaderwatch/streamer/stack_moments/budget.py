"""When and how often stacks are taken without a request: a handful per hour and rank."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from loaderwatch.core.clock import SECOND_NS
from loaderwatch.core.records import UNKNOWN, Phase
from loaderwatch.streamer.roster import Member

HOUR_NS: Final = 3600 * SECOND_NS
APART_NS: Final = (0, 5 * SECOND_NS, 300 * SECOND_NS, 600 * SECOND_NS, 900 * SECOND_NS, 1200 * SECOND_NS)
"""The least time since the previous stack, by the number of stacks within the hour. They are few and spread,
so that a cause that begins later gets a stack too."""

OF_ONE_APART_NS: Final = (0, SECOND_NS, SECOND_NS, SECOND_NS, 300 * SECOND_NS, 1200 * SECOND_NS)
"""The same if one process is asked at a time. First stacks come soon: several of them show the usual line."""

OF_A_PART_APART_NS: Final = (0, *(SECOND_NS,) * 5, 300 * SECOND_NS, 1200 * SECOND_NS)
"""Two more stacks for a part of a step, since in short steps the loop may have left it before the signal."""

OTHER_REASON_NS: Final = 5 * SECOND_NS
"""How long after a stack of a process no stack of it is taken for another reason."""

OF_A_LONG_STEP_APART_NS: Final = (0, *(OTHER_REASON_NS + 2 * SECOND_NS,) * 11)
"""The same for long steps: twelve an hour, as each may have another cause. The two seconds give the other
reasons their turn, since those are checked once a second."""

LONG_WAIT_NS: Final = 250_000_000
"""A single wait for data that is worth stacks of the processes it waits for."""

LONG_STEP_NS: Final = 250_000_000
"""A shorter step is never long."""
LONG_TIMES_USUAL: Final = 4.0
"""A step is long from this many times the usual step. The stack then shows the cause outside the model."""


def waits_long(main: Member, now_ns: int) -> bool:
    """Whether a training process has waited for its next batch for long."""
    span = main.ring.span() if main.alive else None
    return span is not None and span.phase is Phase.WAIT and now_ns - span.since_ns >= LONG_WAIT_NS


def steps_long(main: Member, usual_step_ns: float, now_ns: int) -> bool:
    """Whether a training process is in its own part of a step that takes far longer than the usual one."""
    span = main.ring.span() if main.alive else None
    if span is None or span.phase is not Phase.STEP or span.since_ns == UNKNOWN:
        return False
    return now_ns - span.since_ns >= max(LONG_STEP_NS, LONG_TIMES_USUAL * usual_step_ns)


class LastStacks:
    """When the last stack of each process was taken, and why. All budgets of a streamer share one."""

    def __init__(self) -> None:
        self._last: dict[int, tuple[int, str]] = {}  # by pid, within the last OTHER_REASON_NS

    def allows(self, pids: Collection[int], why: str, now_ns: int) -> bool:
        """Return whether no process was just asked for another reason. A series of stacks has one reason."""
        last = (self._last[pid] for pid in pids if pid in self._last)
        return all(reason == why or now_ns - at_ns >= OTHER_REASON_NS for at_ns, reason in last)

    def note(self, pids: Collection[int], why: str, now_ns: int) -> None:
        """Remember that stacks of these processes are taken."""
        self._last = {pid: last for pid, last in self._last.items() if now_ns - last[0] < OTHER_REASON_NS}
        self._last |= dict.fromkeys(pids, (now_ns, why))


class StackBudget:
    """Counts the stacks of each rank for one reason."""

    def __init__(self, last: LastStacks, why: str, apart_ns: tuple[int, ...] = APART_NS) -> None:
        self._last = last
        self._why = why
        self._apart_ns = apart_ns
        self._taken_ns: dict[int, list[int]] = {}  # by rank: times within the last hour

    def take(self, rank: int, pids: Collection[int], now_ns: int) -> bool:
        """Return whether stacks of these processes of a rank may be taken now; if so, count them as one."""
        if not self._last.allows(pids, self._why, now_ns):
            return False
        taken = [at_ns for at_ns in self._taken_ns.get(rank, ()) if now_ns - at_ns < HOUR_NS]
        self._taken_ns[rank] = taken
        apart_ns = self._apart_ns
        if taken and (len(taken) == len(apart_ns) or now_ns - taken[-1] < apart_ns[len(taken)]):
            return False
        taken.append(now_ns)
        self._last.note(pids, self._why, now_ns)
        return True
