"""A buffer of one table's newest rows, appended in place and read as immutable slices."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from loaderwatch.core.records import TABLES, TIME_COLUMN
from loaderwatch.detect.window import first_at

Block = NDArray[np.int64]
"""Rows as an int64 array of shape (columns, rows). Columns of float64 are stored bit by bit."""

_FIRST_CAPACITY: Final = 64
_SLACKS: Final = itertools.cycle([1.2 + 0.3 * (number * 0.618 % 1) for number in range(64)])
"""Ratios of capacity to limit, a different one per buffer. A full buffer moves its newest ``limit`` rows to a
new array. Ranks begin together and fill their buffers alike. With one ratio, the four thousand buffers of
1,024 ranks would move in the same look, which would take half a second."""


class _Layout:
    """The places of a table's columns in a block."""

    def __init__(self, table: str) -> None:
        self.index = {c.name: i for i, c in enumerate(TABLES[table])}
        self.is_float = {c.name: c.dtype == "f8" for c in TABLES[table]}
        self.time = self.index[TIME_COLUMN[table]]
        self.count = len(self.index)
        self._places: dict[tuple[str, ...], list[int]] = {}

    def places(self, names: tuple[str, ...]) -> list[int]:
        """Return the places of columns in a block."""
        places = self._places.get(names)
        if places is None:
            places = self._places[names] = [self.index[name] for name in names]
        return places


LAYOUTS: Final = {table: _Layout(table) for table in TABLES}


def block_of(table: str, *parts: Mapping[str, bytes]) -> Block:
    """Turn checked wire tables into one block, with the first table's rows first."""
    joined = b"".join([columns[name] for name in LAYOUTS[table].index for columns in parts])
    block: Block = np.frombuffer(joined, dtype="<i8").reshape(LAYOUTS[table].count, -1)
    return block


def block_of_arrays(table: str, columns: Mapping[str, NDArray[Any]]) -> Block:
    """Turn columns into a block."""
    layout = LAYOUTS[table]
    rows = len(columns[next(iter(layout.index))])
    block: Block = np.empty((layout.count, rows), dtype=np.int64)
    for name, place in layout.index.items():
        block[place] = columns[name].view(np.int64)
    return block


class Rows(Mapping[str, NDArray[Any]]):
    """Columns of rows, ordered by time. A column is created on access: most readers want only a few."""

    __slots__ = ("_after_ns", "_block", "_chosen", "_layout", "_ordered")

    def __init__(self, layout: _Layout, block: Block, ordered: bool, after_ns: int | None) -> None:
        self._layout = layout
        self._block = block
        self._ordered = ordered
        self._after_ns = after_ns
        self._chosen: slice | NDArray[np.intp] | None = None

    def _choose(self) -> slice | NDArray[np.intp]:
        """Choose the rows in the requested time, in order. A late row may lie behind newer ones."""
        times = self._block[self._layout.time]
        if self._ordered:
            return slice(0 if self._after_ns is None else first_at(times, self._after_ns), None)
        order = np.argsort(times, kind="stable")
        return order if self._after_ns is None else order[first_at(times[order], self._after_ns) :]

    def __getitem__(self, name: str) -> NDArray[Any]:
        if self._chosen is None:
            self._chosen = self._choose()  # two threads may both do this, with the same result
        # Column by column: ordering whole tables would take megabytes of new memory per look at many ranks.
        column: NDArray[Any] = self._block[self._layout.index[name]][self._chosen]
        return column.view(np.float64) if self._layout.is_float[name] else column

    def columns_from(self, names: tuple[str, ...], first: int) -> list[NDArray[np.int64]]:
        """Return integer columns from a row on, each of shape (rows,)."""
        if self._chosen is None:
            self._chosen = self._choose()
        places = self._layout.places(names)
        if isinstance(self._chosen, slice):
            rows = self._block[:, self._chosen.start + first :]
            return [rows[place] for place in places]
        chosen_rows = self._chosen[first:]
        return [self._block[place][chosen_rows] for place in places]

    def __iter__(self) -> Iterator[str]:
        return iter(self._layout.index)

    def __len__(self) -> int:
        return self._layout.count


NO_ROWS: Final = {
    table: Rows(layout, np.empty((layout.count, 0), dtype=np.int64), True, None)
    for table, layout in LAYOUTS.items()
}
"""For each table, a shared object without rows."""


class RowBuffer:
    """The newest rows of one table (of one rank): ``limit`` at most, and up to that all of ``keep_ns``."""

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
        self._disorder = -1  # index of the last row that is older than an earlier one
        self.dropped = False

    def __len__(self) -> int:
        return self._used

    def extend(self, block: Block, *, ordered: bool = False) -> None:
        """Append rows; ``ordered``: they are known to be in order. Rows returned before do not change."""
        count = block.shape[1]
        if count > self._limit:
            block, count = block[:, count - self._limit :], self._limit
            self.dropped = True
        if self._used + count > self._block.shape[1]:
            self._make_room(count)
        times = block[self._layout.time]
        self._note_order(times, ordered)
        self._block[:, self._used : self._used + count] = block
        self._used += count

    def _note_order(self, times: NDArray[np.int64], ordered: bool) -> None:
        if ordered or len(times) == 1 or bool((times[1:] >= times[:-1]).all()):
            if times[0] < self._newest_ns:
                late = first_at(times, self._newest_ns)
                self._disorder = self._used + late - 1
            self._newest_ns = max(self._newest_ns, int(times[-1]))
        else:
            self._disorder = self._used + len(times) - 1
            self._newest_ns = max(self._newest_ns, int(times.max()))

    def _make_room(self, count: int) -> None:
        """Move to a new array: a larger one below the limit, else one with only the newest rows."""
        keep = self._used
        rows = self._block[:, :keep]
        # Several workers may write out of order. Old rows must be dropped all the same.
        if self._disorder >= 0:
            rows = rows[:, np.argsort(rows[self._layout.time], kind="stable")]
            self._disorder = -1
        if self._keep_ns is not None and keep:
            keep -= first_at(rows[self._layout.time], self._newest_ns - self._keep_ns)
        capacity = max(_FIRST_CAPACITY, int(self._slack * (keep + count)))
        max_capacity = int(self._limit * self._slack) + count
        if capacity > max_capacity:
            capacity = max_capacity
            keep = min(keep, max(0, self._limit - count))
            self.dropped = True
        block = np.empty((self._layout.count, capacity), dtype=np.int64)
        block[:, :keep] = rows[:, self._used - keep :]
        self._block, self._used = block, keep

    def rows(self, after_ns: int | None = None) -> Rows:
        """Return all rows, or those at or after a time (ns UTC)."""
        first = max(0, self._used - self._limit)
        return Rows(self._layout, self._block[:, first : self._used], self._disorder < first, after_ns)

    @property
    def newest_ns(self) -> int:
        """The time of the newest row, ns UTC; 0 if there is none."""
        return self._newest_ns

    @property
    def held_bytes(self) -> int:
        """The buffer's memory in bytes."""
        return self._block.nbytes

    def oldest_ns(self) -> int | None:
        """The time of the oldest row."""
        return int(self._block[self._layout.time, 0]) if self._used else None
