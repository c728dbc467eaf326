"""A page of a run's ranks: sorted by a column, searched, cut."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from loaderwatch.core.answers import RankPage, RankRow

COLUMNS: Final = RankRow.__struct_fields__


def page_of(
    rows: Sequence[RankRow], *, sort: str, down: bool, offset: int, limit: int, find: str = ""
) -> RankPage:
    """Return ``limit`` rows from ``offset`` on, of those that ``find`` matches; unknown values come last either way.

    Raises:
        ValueError: there is no such column.
    """
    if sort not in COLUMNS:
        raise ValueError(f"sort is {sort[:80]!r}; use one of {', '.join(sorted(COLUMNS))}")
    found = [row for row in rows if matches(row, find)] if find else rows
    known = [row for row in found if _value(row, sort) is not None]
    unknown = [row for row in found if _value(row, sort) is None]
    ordered = [*sorted(known, key=lambda row: _value(row, sort), reverse=down), *unknown]
    return RankPage(total=len(found), rows=ordered[offset : offset + limit])


def matches(row: RankRow, find: str) -> bool:
    """Whether each word is the rank's number, a part of its host's name, its state or its phase; "rank" itself is none."""
    words = [word for word in find.casefold().split() if word != "rank"]
    texts = (row.host.casefold(), row.state, (row.phase or "").casefold())
    return all(
        str(row.rank) == word if word.isdecimal() else any(word in text for text in texts) for word in words
    )


def _value(row: RankRow, column: str) -> Any:
    return getattr(row, column)
