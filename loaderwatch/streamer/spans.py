"""Open spans as the envelope tells of them: what each process is doing, and what the system says of it."""

from __future__ import annotations

from typing import Final

from loaderwatch.core.records import UNKNOWN, Phase
from loaderwatch.core.wire import SpanInfo
from loaderwatch.streamer.roster import Member, Roster
from loaderwatch.streamer.samplers.process import Reading

LOOK_CLOSER_NS: Final = 1_500_000_000
"""An open span of this age gets fresh facts of its process with every envelope; before, those of the last second."""


def known(value: int) -> int | None:
    """UNKNOWN as None."""
    return None if value == UNKNOWN else value


def build_span(
    member: Member, roster: Roster, wall_offset_ns: int, reading: Reading | None
) -> SpanInfo | None:
    """The open span of a process; None if it never wrote one or its rank is not known yet."""
    span = member.ring.span()
    rank = roster.rank_of(member)
    main = roster.main_of(member)
    if span is None or rank is None or main is None or main.info is None or span.since_ns == UNKNOWN:
        return None
    names = main.info.phase_names
    since = known(span.sample_since_ns)
    alive = member.alive
    return SpanInfo(
        rank=rank,
        worker=member.worker,
        pid=member.pid,
        phase=span.phase.name.lower(),
        since_ns=span.since_ns + wall_offset_ns,
        loader=known(span.loader) if member.worker < 0 else member.ring.identity.loader,
        epoch=known(span.epoch),
        batch=known(span.batch),
        step=known(span.step),
        awaited_worker=known(span.awaited_worker),
        sample_index=known(span.sample_index),
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
