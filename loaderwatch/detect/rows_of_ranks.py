"""Rows of many ranks in few arrays, so that a measure of every rank costs one pass over all ranks.

With a thousand ranks most of the time went into calling numpy for the few hundred rows of each rank. Ranks
that train together have about equally many rows in an interval. Those with equally many form a group.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Final, TypeVar

import numpy as np

from loaderwatch.core.columns import Columns, Ints
from loaderwatch.core.threshold import threshold

VALUES_AT_ONCE: Final = threshold(
    8_000, "values", "64 KiB: a larger array leaves a core's cache and costs a page fault for every 4 KiB"
)

T = TypeVar("T")


def columns_from(table: Columns, names: tuple[str, ...], first: int) -> list[Ints]:
    """Return columns of integers of a table from a row on, each of shape (rows,)."""
    own = getattr(table, "columns_from", None)  # a table that holds its columns in one array has this method
    return [table[name][first:] for name in names] if own is None else own(names, first)


def grouped(keys: Mapping[T, tuple[int, Hashable]]) -> Iterator[list[T]]:
    """Yield items with equal keys, at most ``VALUES_AT_ONCE`` values at once; ``key[0]`` is the row count."""
    groups: dict[tuple[int, Hashable], list[T]] = {}
    for item, key in keys.items():
        groups.setdefault(key, []).append(item)
    for (rows, _), members in groups.items():
        at_once = max(1, VALUES_AT_ONCE // max(1, rows))
        for first in range(0, len(members), at_once):
            yield members[first : first + at_once]


def stacked(parts: Sequence[Sequence[Ints]]) -> list[Ints]:
    """Return the columns of ranks with equally many rows, each column of shape (ranks, rows)."""
    shape = len(parts), parts[0][0].size
    return [np.concatenate(column).reshape(shape) for column in zip(*parts, strict=True)]
