"""Ranks that left an epoch while others wait: S44, others have more batches; S45, others began an epoch."""

from __future__ import annotations

from loaderwatch.core.answers import Param, Text
from loaderwatch.detect.finding import Finding, observed
from loaderwatch.detect.hang.across_ranks import finding_of, waits_for
from loaderwatch.detect.hang.lone_rank_activity import EARLY_STOP, pattern_of
from loaderwatch.detect.hang.rank_positions import Position
from loaderwatch.detect.measures.stacks import in_loop_of


def left_behind(stuck: list[Position], outside: list[Position], *, same_epoch: bool) -> Finding | None:
    """Explain S44 or S45: some ranks left the epoch; others still have batches, or have begun another epoch.

    The others wait for a partner that will not come. None if it is not that.
    """
    gone = [
        position
        for position in [*outside, *stuck]
        if position.has_left and (same_epoch or not _comes_back(position))
    ]
    waits = [position for position in stuck if not position.has_left]
    for left_rank in gone:
        for waiting in waits:
            if _more_batches(left_rank, waiting, same_epoch=same_epoch):
                as_many = not same_epoch and _had_as_many(left_rank, waiting)
                return (_went_on if as_many else _unequal)(left_rank, waiting, waits, gone)
    return None


def _comes_back(left: Position) -> bool:
    """Whether the rank is between two epochs, in its own code: others may have begun the next one first."""
    in_own_code = left.place != "ended" and left.collective is None and left.is_seen
    return in_own_code and (left.is_held or in_loop_of(left.frames, left.rank.process.calls) is not False)


def _more_batches(left: Position, waiting: Position, *, same_epoch: bool) -> bool:
    if left.batches is None or waiting.batches is None or left.epoch is None or waiting.epoch is None:
        return False
    if same_epoch:
        return left.epoch == waiting.epoch and waiting.batches > left.batches
    spans = left.rank.span, waiting.rank.span
    return spans[0] is not None and spans[1] is not None and spans[1].batches > spans[0].batches


def _had_as_many(left: Position, waiting: Position) -> bool:
    """Whether both had the same number of batches until one left and the other began a later epoch alone."""
    spans = left.rank.span, waiting.rank.span
    if spans[0] is None or spans[1] is None or (left.epoch or 0) >= (waiting.epoch or 0):
        return False
    return spans[1].batches - (waiting.batches or 0) <= spans[0].batches


def _went_on(left: Position, waiting: Position, stuck: list[Position], outside: list[Position]) -> Finding:
    why = pattern_of([left], stuck) or EARLY_STOP
    title = _both(left, waiting, stuck, outside)
    return finding_of(
        scenario="S45",
        confidence=0.9,
        odd=left if len(outside) <= len(stuck) else waiting,
        positions=[*stuck, *outside],
        age_s=max(position.age_s for position in stuck),
        rule=why.rule,
        params={"seen": "epochs"},
        frame=Text("epoch-begun-without-others", {**title, "ended": left.place == "ended"}),
        also=[Text("nobody-will-come")],
    )


def _unequal(left: Position, waiting: Position, stuck: list[Position], outside: list[Position]) -> Finding:
    planned = waiting.planned
    has = planned if planned is not None and planned > (left.batches or 0) else waiting.batches
    return finding_of(
        scenario="S44",
        confidence=0.95 if left.epoch == waiting.epoch else 0.7,
        odd=left if len(outside) < len(stuck) else waiting,
        positions=[*stuck, *outside],
        age_s=max(position.age_s for position in stuck),
        rule="unequal-batches-per-rank",
        params={
            **_both(left, waiting, stuck, outside),
            "rank": waiting.number,
            "batches": has,
            "or_more": has == waiting.batches,
            "batch": waiting.batches,
            "left_rank": left.number,
            "left_batches": left.batches,
        },
        evidence=[
            *(
                observed(
                    "batches-of-rank-in-epoch",
                    position.batches,
                    "count",
                    rank=position.number,
                    epoch=position.epoch,
                )
                for position in (waiting, left)
            ),
            observed("length-of-loader-of-rank", planned, "count", rank=waiting.number),
            observed("length-of-loader-of-rank", left.planned, "count", rank=left.number),
        ],
    )


def _both(
    left: Position, waiting: Position, stuck: list[Position], outside: list[Position]
) -> dict[str, Param]:
    """Return who waits where in which epoch, and who left and where."""
    return {
        **waits_for(stuck, outside, waiting),
        "epoch": waiting.epoch,
        "left_epoch": left.epoch,
        "left_place": left.called_at,
        "at_line": left.line is not None,
    }
