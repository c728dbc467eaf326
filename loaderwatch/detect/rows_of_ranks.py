"""Rows of many ranks as few arrays, so that what is measured of each rank costs one pass over all of them.

With a thousand ranks most of the time of a look went into calling numpy for the few hundred rows of each. Ranks that train
together have as many rows as each other in the same interval, or nearly: those that have the same number make up a group.
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
    own = getattr(table, "columns_from", None)  # of a table that holds them in one array
    return [table[name][first:] for name in names] if own is None else own(names, first)


def grouped(keys: Mapping[T, tuple[int, Hashable]]) -> Iterator[list[T]]:
    """Yield what has the same key, whose first part says how many rows each has: so many that ``VALUES_AT_ONCE`` are not exceeded."""
    groups: dict[tuple[int, Hashable], list[T]] = {}
    for one, key in keys.items():
        groups.setdefault(key, []).append(one)
    for (rows, _), members in groups.items():
        at_once = max(1, VALUES_AT_ONCE // max(1, rows))
        for first in range(0, len(members), at_once):
            yield members[first : first + at_once]


def stacked(parts: Sequence[Sequence[Ints]]) -> list[Ints]:
    """Return the columns of ranks that have as many rows each, each column of shape (ranks, rows)."""
    shape = len(parts), parts[0][0].size
    return [np.concatenate(column).reshape(shape) for column in zip(*parts, strict=True)]
