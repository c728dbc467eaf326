"""Ranks that have left an epoch, for which others wait: S44, which have more batches, and S45, which began another epoch."""

from __future__ import annotations

from loaderwatch.core.answers import Evidence
from loaderwatch.detect.finding import Finding
from loaderwatch.detect.hang.across_ranks import finding_of
from loaderwatch.detect.hang.patterns import EARLY_STOP, pattern_of
from loaderwatch.detect.hang.rank_positions import Position, names
from loaderwatch.detect.measures.stacks import in_loop_of
from loaderwatch.detect.text import listing


def left_behind(stuck: list[Position], outside: list[Position], *, same_epoch: bool) -> Finding | None:
    """Explain S44 or S45, or return None: some ranks have left the epoch, and others still have batches or have begun another.

    Those wait for a partner that will not come.
    """
    gone = [
        position
        for position in [*outside, *stuck]
        if position.has_left and (same_epoch or not _comes_back(position))
    ]
    waits = [position for position in stuck if not position.has_left]
    for left in gone:
        for waiting in waits:
            if _more_batches(left, waiting, same_epoch=same_epoch):
                as_many = not same_epoch and _had_as_many(left, waiting)
                return (_went_on if as_many else _unequal)(left, waiting, waits, gone)
    return None


def _comes_back(left: Position) -> bool:
    """Whether the rank is between two epochs, in code of its own: the other may have begun the next one before."""
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
    """Whether both had the same number of batches until the one left, and the other began a later epoch alone."""
    spans = left.rank.span, waiting.rank.span
    if spans[0] is None or spans[1] is None or (left.epoch or 0) >= (waiting.epoch or 0):
        return False
    return spans[1].batches - (waiting.batches or 0) <= spans[0].batches


def _went_on(left: Position, waiting: Position, stuck: list[Position], outside: list[Position]) -> Finding:
    gone = [position.number for position in outside]
    waits = [position.number for position in stuck]
    one, alone = len(waits) == 1, len(gone) == 1
    if left.place == "ended":
        title = (
            f"{names(waits).capitalize()} {'has' if one else 'have'} begun epoch {waiting.epoch} and {'waits' if one else 'wait'} in"
            f" {waiting.where} for {names(gone)}, which {'has' if alone else 'have'} not: {'it' if alone else 'they'} left after epoch"
            f" {left.epoch} and {'has' if alone else 'have'} ended."
        )
    else:
        title = (
            f"{names(waits).capitalize()} {'has' if one else 'have'} begun epoch {waiting.epoch} and {'waits' if one else 'wait'} in"
            f" {waiting.where} for {names(gone)}, which {'has' if alone else 'have'} not: {'it' if alone else 'they'} left after epoch"
            f" {left.epoch} and {'stands' if alone else 'stand'}"
            f" {'at' if left.collective is None and ':' in left.stands else 'in'} {left.where}."
        )
    why = pattern_of([left], stuck) or EARLY_STOP
    return finding_of(
        scenario="S45",
        confidence=0.9,
        odd=left if len(gone) <= len(waits) else waiting,
        positions=[*stuck, *outside],
        age_s=max(position.age_s for position in stuck),
        title=title,
        cause=f"Until then the ranks had the same number of batches. {why.cause} Nobody will come until the collective times out.",
        advice=why.meets,
        evidence=[],
    )


def _unequal(left: Position, waiting: Position, stuck: list[Position], outside: list[Position]) -> Finding:
    gone = [position.number for position in outside]
    waits = [position.number for position in stuck]
    odd = left if len(gone) < len(waits) else waiting
    planned = waiting.planned
    has = planned if planned is not None and planned > (left.batches or 0) else waiting.batches
    partner = f"rank {left.number}, which has" if len(gone) == 1 else f"ranks {_numbers(gone)}, which have"
    who = f"rank {waiting.number} waits" if len(waits) == 1 else f"ranks {_numbers(waits)} wait"
    more = f"{has} or more batches" if has == waiting.batches else f"{has} batches"
    return finding_of(
        scenario="S44",
        confidence=0.95 if left.epoch == waiting.epoch else 0.7,
        odd=odd,
        positions=[*stuck, *outside],
        age_s=max(position.age_s for position in stuck),
        title=f"Rank {waiting.number} has {more} in epoch {waiting.epoch}, rank {left.number} has {left.batches}:"
        f" {who} in {waiting.where} for {partner} left the epoch.",
        cause=f"Every step needs all ranks, but they do not have the same number of batches. Rank {waiting.number} is in batch"
        f" {waiting.batches} of epoch {waiting.epoch}; rank {left.number} ended epoch {left.epoch} after {left.batches}"
        f" and now stands {'at' if left.collective is None and ':' in left.stands else 'in'} {left.where}. Nobody will come until the collective times out.",
        advice="Give every rank the same number of batches: DistributedSampler with drop_last=True, equal shards for an"
        " IterableDataset, or wrap the loop in `with torch.distributed.algorithms.join.Join([model])`. Do not skip or"
        " filter batches on one rank only.",
        evidence=[
            *(
                Evidence(
                    label=f"batches of rank {position.number} in epoch {position.epoch}",
                    value=position.batches,
                    unit="count",
                )
                for position in (waiting, left)
            ),
            Evidence(label=f"len(loader) of rank {waiting.number}", value=planned, unit="count"),
            Evidence(label=f"len(loader) of rank {left.number}", value=left.planned, unit="count"),
        ],
    )


def _numbers(numbers: list[int]) -> str:
    return listing([str(number) for number in sorted(numbers)])
