"""Reads every process of the roster once a second: rows of the table "processes", and facts of open spans."""

from __future__ import annotations

from typing import Final

from loaderwatch.core.clock import monotonic_ns
from loaderwatch.core.records import UNKNOWN, Phase, Row, pack_row
from loaderwatch.streamer.drain import LOOK_CLOSER_NS
from loaderwatch.streamer.roster import Member, Roster
from loaderwatch.streamer.samplers.process import ProcessSampler, Reading, state_code

HELPERS_AFTER_NS: Final = 3_000_000_000
"""From this age of a span on, the training process's other threads and children are read, the costly part."""
IN_LOADER: Final = frozenset({Phase.ITER, Phase.WAIT, Phase.TEARDOWN})
"""Phases in which the loader's workers do the work."""


class MemberSampler:
    """Samples the processes of a run on this host."""

    def __init__(self) -> None:
        self._processes = ProcessSampler()
        self.readings: dict[int, Reading] = {}  # the newest reading of each process, by pid
        self._rows: list[Row] = []

    def sample(self, roster: Roster, now_ns: int, wall_offset_ns: int) -> None:
        """Read all living processes."""
        living: set[int] = set()
        for member in roster.members():
            rank = roster.rank_of(member)
            if not member.alive or rank is None:
                self.readings.pop(member.pid, None)
                continue
            reading = self._read(member, roster, now_ns)
            if reading is None:
                continue
            living.add(member.pid)
            self.readings[member.pid] = reading
            identity = member.ring.identity
            values = {
                "rank": rank,
                "loader": UNKNOWN if member.worker < 0 else identity.loader,
                "worker": member.worker,
                "pid": member.pid,
                "t_ns": now_ns + wall_offset_ns,
                "state": state_code(reading.state),
                **reading.values,
            }
            self._rows.append(pack_row("processes", values))
        self._processes.forget_dead(living)

    def take_rows(self) -> list[Row]:
        """Return the rows since the last call."""
        rows, self._rows = self._rows, []
        return rows

    def last(self, member: Member) -> Reading | None:
        """Return the newest reading of a process; None if there is none."""
        return self.readings.get(member.pid)

    def of_span(self, member: Member, since_ns: int) -> Reading | None:
        """Return an open span's facts, read afresh if a training process has been in it for long."""
        if member.alive and member.worker < 0 and monotonic_ns() - since_ns > LOOK_CLOSER_NS:
            return self._processes.look(member.files) or self.last(member)
        return self.last(member)

    def _read(self, member: Member, roster: Roster, now_ns: int) -> Reading | None:
        info, training = member.info, member.worker < 0
        pins = info is not None and any(loader.pin_memory for loader in info.loaders)
        span = member.ring.span() if training else None
        apart = None
        if span is not None and span.phase not in IN_LOADER and now_ns - span.since_ns > HELPERS_AFTER_NS:
            apart = {worker.pid for worker in roster.workers if worker.ring.identity.parent_pid == member.pid}
        return self._processes.sample(member.files, now_ns, training=training, pins=pins, apart=apart)
