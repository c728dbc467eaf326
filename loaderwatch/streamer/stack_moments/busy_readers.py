"""When the stack of a sample reader is worth a signal: the loop waits for data, and the reader computes.

A reader that waits for a disk or the network is not asked: its kernel function already says that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from loaderwatch.core.facts import AT_WORK
from loaderwatch.core.records import Phase
from loaderwatch.core.ring.span import OpenSpan
from loaderwatch.streamer.roster import Roster
from loaderwatch.streamer.samplers.process import Reading
from loaderwatch.streamer.stack_moments.budget import LastStacks, StackBudget, waits_long

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
