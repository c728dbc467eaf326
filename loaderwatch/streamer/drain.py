"""The drain: it reads rings and turns records into table rows and open spans into the envelope's spans."""

from __future__ import annotations

from collections import Counter
from typing import Final, cast

from loaderwatch.core.facts import Loss, PhaseName, SpanInfo
from loaderwatch.core.records import KIND_TABLE, RECORD_FIELDS, UNKNOWN, Phase, RecordKind
from loaderwatch.core.wire import pack_table
from loaderwatch.streamer.roster import Member, Roster
from loaderwatch.streamer.samplers.process import Reading

MAX_ROWS_PER_ENVELOPE: Final = 20_000
"""About 3 MB of columns: a backlog (after a takeover) is sent as several envelopes below the size limit."""

LOOK_CLOSER_NS: Final = 1_500_000_000
"""From this age on, every envelope reads an open span's facts again; younger ones get last second's."""

NAMELESS_NS: Final = 5_000_000_000
MAX_STAMP: Final = 2**62  # a century in nanoseconds; a larger stamp is not a time

_TIME_AT: Final = {kind: fields.index("request_ns") for kind, fields in RECORD_FIELDS.items()}
_STEP_FIELDS: Final = RECORD_FIELDS[RecordKind.STEP]
_WAIT_AT: Final = _STEP_FIELDS.index("wait_ns")
_STEP_AT: Final = _STEP_FIELDS.index("step_ns")

Row = tuple[int, ...]


class Drain:
    """Reads the rings and keeps the rows that are not in an envelope yet."""

    def __init__(self, wall_offset_ns: int) -> None:
        self.wall_offset_ns = wall_offset_ns
        self.rows: dict[str, list[Row]] = {}
        self.count = 0
        self.usual_ns: dict[int, tuple[float, float]] = {}  # by rank: its smoothed wait and step
        self._losses: Counter[tuple[str, int]] = Counter()

    @property
    def full(self) -> bool:
        """Whether the next envelope is due because of its size."""
        return self.count >= MAX_ROWS_PER_ENVELOPE

    def collect(self, roster: Roster, now_ns: int) -> None:
        """Read the new records of every ring, up to what one envelope holds."""
        for member in roster.members():
            if self.full:
                return
            if member.drained or member.final_cursor is not None:
                continue
            rank = roster.rank_of(member)
            if rank is not None:
                self._read(member, rank)
            elif not member.alive and now_ns - member.died_ns > NAMELESS_NS:
                # The process died before it published its rank, so its records belong to no rank.
                self.lose("ring", -1, member.ring.reader.pending(member.ring.cursor))
                member.final_cursor = member.ring.cursor

    def lose(self, what: str, rank: int, count: int) -> None:
        """Count records that were lost."""
        if count > 0:
            self._losses[what, rank] += count

    def take(self, now_utc_ns: int) -> tuple[dict[str, dict[str, bytes]], list[Loss]]:
        """Return everything read so far as columns, and reset."""
        tables = {name: pack_table(name, rows) for name, rows in self.rows.items() if rows}
        losses = [
            Loss(what=what, rank=rank, count=n, t_ns=now_utc_ns) for (what, rank), n in self._losses.items()
        ]
        self.rows, self.count = {}, 0
        self._losses = Counter()
        return tables, losses

    def _read(self, member: Member, rank: int) -> None:
        ring = member.ring
        final = not member.alive  # dead before this read, so it writes nothing more
        drained = ring.reader.drain(ring.cursor, final=final, limit=MAX_ROWS_PER_ENVELOPE - self.count)
        ring.cursor = drained.cursor
        self.lose("torn" if final else "ring", rank, drained.lost)
        for kind, records in drained.records.items():
            at, offset = _TIME_AT[kind], self.wall_offset_ns
            rows = self.rows.setdefault(KIND_TABLE[kind], [])
            for fields in records:
                stamp = fields[at]
                utc = stamp + offset if 0 <= stamp < MAX_STAMP else UNKNOWN
                rows.append((rank, *fields[:at], utc, *fields[at + 1 :]))
            self.count += len(records)
            if kind is RecordKind.STEP:
                self._learn(rank, records[-1])
        if final and ring.reader.pending(ring.cursor) == 0:
            member.final_cursor = ring.cursor

    def _learn(self, rank: int, step: tuple[int, ...]) -> None:
        old = self.usual_ns.get(rank)
        wait, body = max(step[_WAIT_AT], 0), max(step[_STEP_AT], 0)
        if old is None:
            self.usual_ns[rank] = (float(wait), float(body))
        else:
            self.usual_ns[rank] = (_toward(old[0], wait), _toward(old[1], body))


def _toward(usual: float, value: int) -> float:
    """Move the smoothed value towards a new one; a single stall moves it little."""
    return usual + 0.2 * (min(value, 2 * usual + 5e8) - usual)


def _known(value: int) -> int | None:
    """Turn UNKNOWN into None."""
    return None if value == UNKNOWN else value


def build_span(
    member: Member, roster: Roster, wall_offset_ns: int, reading: Reading | None
) -> SpanInfo | None:
    """Return the open span of a process; None if it never wrote one or its rank is not yet known."""
    span = member.ring.span()
    rank = roster.rank_of(member)
    main = roster.main_of(member)
    if span is None or rank is None or main is None or main.info is None or span.since_ns == UNKNOWN:
        return None
    names = main.info.phase_names
    since, step_since = _known(span.sample_since_ns), _known(span.step_since_ns)
    alive = member.alive
    return SpanInfo(
        rank=rank,
        worker=member.worker,
        pid=member.pid,
        phase=cast("PhaseName", span.phase.name.lower()),
        since_ns=span.since_ns + wall_offset_ns,
        step_since_ns=None if step_since is None else step_since + wall_offset_ns,
        loader=_known(span.loader) if member.worker < 0 else member.ring.identity.loader,
        epoch=_known(span.epoch),
        batch=_known(span.batch),
        step=_known(span.step),
        awaited_worker=_known(span.awaited_worker),
        sample_index=_known(span.sample_index),
        sample_since_ns=None if since is None else since + wall_offset_ns,
        batches=span.batches,
        steps=span.steps,
        samples=span.samples,
        phase_name=names[span.phase_name]
        if span.phase is Phase.USER and 0 <= span.phase_name < len(names)
        else None,
        alive=alive,
        os_state=reading.state if reading and alive else None,
        wchan=reading.wchan if reading and alive else None,
        read_chars=reading.read_chars if reading else None,
        traced=reading.traced if reading and alive else None,
    )
