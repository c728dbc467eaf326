"""The newest rows of one table, appended in place and read as immutable slices."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from loaderwatch.core.records import TABLES, TIME_COLUMN
from loaderwatch.detect.window import first_at

Block = NDArray[np.int64]
"""Rows as int64, shape (columns, rows); float64 columns lie in it bit by bit."""

_FIRST_CAPACITY: Final = 64
_SLACKS: Final = itertools.cycle([1.2 + 0.3 * (number * 0.618 % 1) for number in range(64)])
"""Capacity over limit, of one buffer after the other: when it is full, the newest ``limit`` rows move to a new array.

Ranks begin together and fill alike. With the same slack for all, the four thousand buffers of 1,024 ranks move within one
look, which then takes half a second."""


class _Layout:
    """Where the columns of a table lie."""

    def __init__(self, table: str) -> None:
        self.index = {c.name: i for i, c in enumerate(TABLES[table])}
        self.is_float = {c.name: c.dtype == "f8" for c in TABLES[table]}
        self.time = self.index[TIME_COLUMN[table]]
        self.count = len(self.index)


LAYOUTS: Final = {table: _Layout(table) for table in TABLES}


def block_of(table: str, columns: Mapping[str, bytes]) -> Block:
    """A checked table of the wire as a block."""
    joined = b"".join([columns[name] for name in LAYOUTS[table].index])
    block: Block = np.frombuffer(joined, dtype="<i8").reshape(LAYOUTS[table].count, -1)
    return block


def block_of_arrays(table: str, columns: Mapping[str, NDArray[Any]]) -> Block:
    """Columns as a block."""
    layout = LAYOUTS[table]
    rows = len(columns[next(iter(layout.index))])
    block: Block = np.empty((layout.count, rows), dtype=np.int64)
    for name, at in layout.index.items():
        block[at] = columns[name].view(np.int64)
    return block


class Rows(Mapping[str, NDArray[Any]]):
    """Columns of some rows, ordered by time. Made when asked for: most readers want a few columns of a few tables."""

    __slots__ = ("_after_ns", "_block", "_chosen", "_layout", "_ordered")

    def __init__(self, layout: _Layout, block: Block, ordered: bool, after_ns: int | None) -> None:
        self._layout = layout
        self._block = block
        self._ordered = ordered
        self._after_ns = after_ns
        self._chosen: slice | NDArray[np.intp] | None = None

    def _choose(self) -> slice | NDArray[np.intp]:
        """Which rows: in order (one that arrived late may lie behind younger ones) and cut to the time asked for."""
        times = self._block[self._layout.time]
        if self._ordered:
            return slice(0 if self._after_ns is None else first_at(times, self._after_ns), None)
        order = np.argsort(times, kind="stable")
        return order if self._after_ns is None else order[first_at(times[order], self._after_ns) :]

    def __getitem__(self, name: str) -> NDArray[Any]:
        if self._chosen is None:
            self._chosen = self._choose()  # two threads may both do it, with the same result
        # Column by column: putting whole tables in order takes megabytes of fresh memory for each look at many ranks.
        column: NDArray[Any] = self._block[self._layout.index[name]][self._chosen]
        return column.view(np.float64) if self._layout.is_float[name] else column

    def __iter__(self) -> Iterator[str]:
        return iter(self._layout.index)

    def __len__(self) -> int:
        return self._layout.count


NO_ROWS: Final = {
    table: Rows(layout, np.empty((layout.count, 0), dtype=np.int64), True, None)
    for table, layout in LAYOUTS.items()
}
"""No rows of each table, shared."""


class RowBuffer:
    """Rows of one table (of one rank): the newest ``limit`` of those appended, and of them at least the last ``keep_ns``."""

    __slots__ = (
        "_block",
        "_disorder",
        "_keep_ns",
        "_layout",
        "_limit",
        "_newest_ns",
        "_slack",
        "_used",
        "dropped",
    )

    def __init__(self, table: str, limit: int, keep_ns: int | None = None) -> None:
        self._keep_ns = keep_ns
        self._layout = LAYOUTS[table]
        self._limit = limit
        self._slack = next(_SLACKS)
        self._block: Block = np.empty((self._layout.count, 0), dtype=np.int64)
        self._used = 0
        self._newest_ns = 0
        self._disorder = -1  # the last row that is older than one before it
        self.dropped = False

    def __len__(self) -> int:
        return self._used

    def extend(self, block: Block) -> None:
        """Append rows. Rows that were handed out before stay as they are."""
        count = block.shape[1]
        if count > self._limit:
            block, count = block[:, count - self._limit :], self._limit
            self.dropped = True
        if self._used + count > self._block.shape[1]:
            self._make_room(count)
        times = block[self._layout.time]
        self._note_order(times)
        self._block[:, self._used : self._used + count] = block
        self._used += count

    def _note_order(self, times: NDArray[np.int64]) -> None:
        if len(times) == 1 or bool((times[1:] >= times[:-1]).all()):
            if times[0] < self._newest_ns:
                late = first_at(times, self._newest_ns)
                self._disorder = self._used + late - 1
            self._newest_ns = max(self._newest_ns, int(times[-1]))
        else:
            self._disorder = self._used + len(times) - 1
            self._newest_ns = max(self._newest_ns, int(times.max()))

    def _make_room(self, count: int) -> None:
        """A new array: larger while below the limit, else with the newest rows only."""
        keep = self._used
        rows = self._block[:, :keep]
        if self._disorder >= 0:  # as where several workers write: old rows must leave all the same
            rows = rows[:, np.argsort(rows[self._layout.time], kind="stable")]
            self._disorder = -1
        if self._keep_ns is not None and keep:
            keep -= first_at(rows[self._layout.time], self._newest_ns - self._keep_ns)
        capacity = max(_FIRST_CAPACITY, int(self._slack * (keep + count)))
        most = int(self._limit * self._slack) + count
        if capacity > most:
            capacity = most
            keep = min(keep, max(0, self._limit - count))
            self.dropped = True
        block = np.empty((self._layout.count, capacity), dtype=np.int64)
        block[:, :keep] = rows[:, self._used - keep :]
        self._block, self._used = block, keep

    def rows(self, after_ns: int | None = None) -> Rows:
        """The rows, those at or after a time (UTC) when one is given."""
        first = max(0, self._used - self._limit)
        return Rows(self._layout, self._block[:, first : self._used], self._disorder < first, after_ns)

    @property
    def held_bytes(self) -> int:
        """Memory it takes."""
        return self._block.nbytes

    def oldest_ns(self) -> int | None:
        """Time of the first row held."""
        return int(self._block[self._layout.time, 0]) if self._used else None
