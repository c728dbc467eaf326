"""Loaders that a script builds again and again (a DataLoader in the epoch loop), joined into one.

Each such loader has its own number, and its only epoch would be a first one, which is never judged. Loaders
with the same configuration that are iterated one after the other continue each other's epochs. Loaders
iterated in turns stay apart.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from loaderwatch.core.columns import Columns
from loaderwatch.core.facts import LoaderInfo, SpanInfo
from loaderwatch.core.records import UNKNOWN
from loaderwatch.detect.window import RankWindow, RunWindow

_NUMBER = re.compile(r"-\d+$")  # appended to a name that another loader already has


@dataclass(frozen=True, slots=True)
class _Use:
    """One loader and the time in which it was iterated, ns UTC."""

    info: LoaderInfo
    began_ns: int
    last_ns: int  # of its newest request
    epochs: int
    ended_ns: int  # when its last epoch ended; UNKNOWN if that was not seen


def joined(window: RunWindow) -> RunWindow:
    """Return the window with each series of rebuilt loaders as one loader.

    It keeps the number and name of the first loader, and its epochs count on. The same object is returned if
    there is nothing to join.
    """
    ranks = {number: joined_rank(rank) for number, rank in window.ranks.items()}
    if all(ranks[number] is rank for number, rank in window.ranks.items()):
        return window
    return replace(window, ranks=ranks)


def joined_rank(rank: RankWindow) -> RankWindow:
    """Return the rank with its rebuilt loaders joined (see ``joined``); the same object if it has none."""
    chains = _chains(rank)
    if not chains:
        return rank
    size = 1 + max(info.loader for info in rank.process.loaders)
    first = np.arange(size)
    offset = np.zeros(size, dtype=np.int64)
    gap_ns = np.full(size, UNKNOWN, dtype=np.int64)
    newest: dict[int, LoaderInfo] = {}
    for head, chain, unseen in chains:
        epochs, previous = 0, chain[0]
        for use in chain:
            number = use.info.loader
            first[number], offset[number] = head.loader, epochs
            if use is not previous and previous.ended_ns != UNKNOWN:
                gap_ns[number] = max(0, use.began_ns - previous.ended_ns)
            epochs, previous = epochs + use.epochs, use
        for number in unseen:
            first[number] = head.loader
            offset[number] = epochs if number > previous.info.loader else 0
        newest[head.loader] = msgspec.structs.replace(chain[-1].info, loader=head.loader, name=head.name)
    loaders = [
        newest.get(info.loader, info) for info in rank.process.loaders if first[info.loader] == info.loader
    ]
    rebuilt = ((head.loader, int(offset[use.info.loader])) for head, chain, _ in chains for use in chain[1:])
    return replace(
        rank,
        process=msgspec.structs.replace(rank.process, loaders=loaders),
        span=_renumbered(rank.span, first, offset) if rank.span is not None else None,
        workers=[_renumbered(worker, first, offset) for worker in rank.workers],
        last_workers=[_renumbered(worker, first, offset) for worker in rank.last_workers],
        tables={name: _moved(name, table, first, offset, gap_ns) for name, table in rank.tables.items()},
        rebuilt=frozenset(rebuilt),
    )


def _chains(rank: RankWindow) -> list[tuple[LoaderInfo, list[_Use], list[int]]]:
    """Return each series of loaders that followed each other: the head, their uses in order, the unseen.

    The head represents all of them. Unseen are the numbers of loaders of the series without rows: they are
    older than the rows, or wait for their first batch.
    """
    alike: dict[LoaderInfo, list[LoaderInfo]] = {}
    for info in rank.process.loaders:
        alike.setdefault(_likeness(info), []).append(info)
    groups = [group for group in alike.values() if len(group) > 1]
    if not groups:
        return []
    uses = _uses(rank)
    series = []
    for group in groups:
        seen = sorted(
            (uses[member.loader] for member in group if member.loader in uses), key=lambda use: use.began_ns
        )
        unseen = [member for member in group if member.loader not in uses]
        chains = _one_after_the_other(seen)
        for chain in chains:
            if len(chain) > 1:
                head = chain[0].info
                # The name must stay when the first loader's rows are gone, or each epoch is a new incident.
                if unseen and unseen[0].loader < head.loader:
                    head = unseen.pop(0)
                series.append((head, chain, [member.loader for member in unseen] if len(chains) == 1 else []))
    return series


def _likeness(info: LoaderInfo) -> LoaderInfo:
    """Return the loader's facts without those that differ between loaders built by the same line."""
    return msgspec.structs.replace(
        info, loader=0, name=_NUMBER.sub("", info.name), same_epoch_passes=None, shards=None
    )


def _one_after_the_other(uses: Sequence[_Use]) -> list[list[_Use]]:
    chains: list[list[_Use]] = []
    for use in uses:
        free = next((c for c in chains if max(c[-1].last_ns, c[-1].ended_ns) <= use.began_ns), None)
        if free is None:
            chains.append([use])
        else:
            free.append(use)
    return chains


def _uses(rank: RankWindow) -> dict[int, _Use]:
    """Return the use of each loader whose beginning is known, by the loader's number."""
    begins, ends, steps = rank.table("epoch_begins"), rank.table("epoch_ends"), rank.table("steps")
    began, last = _by_loader(begins["loader"], begins["request_ns"])
    _, stepped = _by_loader(steps["loader"], steps["request_ns"])
    _, ended = _by_loader(ends["loader"], ends["request_ns"])
    _, epoch = _by_loader(begins["loader"], begins["epoch"])
    return {
        info.loader: _Use(
            info=info,
            began_ns=began[info.loader],
            last_ns=max(last[info.loader], stepped.get(info.loader, UNKNOWN)),
            epochs=epoch[info.loader] + 1,
            ended_ns=ended.get(info.loader, UNKNOWN),
        )
        for info in rank.process.loaders
        if info.loader in began
    }


def _by_loader(
    numbers: NDArray[np.int64], values: NDArray[np.int64]
) -> tuple[dict[int, int], dict[int, int]]:
    """Return the least and the greatest value of each loader, by its number, in one pass."""
    if not numbers.size:
        return {}, {}
    order = np.lexsort((values, numbers))
    numbers, values = numbers[order], values[order]
    heads = np.flatnonzero(np.diff(numbers, prepend=numbers[0] - 1))
    tails = np.append(heads[1:], numbers.size) - 1
    names = numbers[heads].tolist()
    return dict(zip(names, values[heads].tolist(), strict=True)), dict(
        zip(names, values[tails].tolist(), strict=True)
    )


def _moved(
    name: str, table: Columns, first: NDArray[np.int64], offset: NDArray[np.int64], gap_ns: NDArray[np.int64]
) -> Columns:
    if "loader" not in table:
        return table
    numbers = table["loader"]
    ours = (numbers >= 0) & (numbers < first.size)
    safe = np.where(ours, numbers, 0)
    changed: dict[str, NDArray[Any]] = {"loader": np.where(ours, first[safe], numbers)}
    if "epoch" in table:
        epoch = table["epoch"]
        changed["epoch"] = np.where(ours & (epoch >= 0), epoch + offset[safe], epoch)
    if name == "epoch_begins":
        unknown = ours & (table["gap_ns"] == UNKNOWN) & (table["epoch"] == 0)
        changed["gap_ns"] = np.where(unknown, gap_ns[safe], table["gap_ns"])
    return {**table, **changed}


def _renumbered(span: SpanInfo, first: NDArray[np.int64], offset: NDArray[np.int64]) -> SpanInfo:
    if span.loader is None or not 0 <= span.loader < first.size:
        return span
    epoch = None if span.epoch is None else span.epoch + int(offset[span.loader])
    return msgspec.structs.replace(span, loader=int(first[span.loader]), epoch=epoch)
