"""A page of a run's ranks: sorted by a column, searched and cut."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from loaderwatch.core.answers import RankPage, RankRow

COLUMNS: Final = RankRow.__struct_fields__


def page_of(
    rows: Sequence[RankRow], *, sort: str, down: bool, offset: int, limit: int, find: str = ""
) -> RankPage:
    """Return ``limit`` matching rows from ``offset`` on; unknown values come last in either order.

    Raises:
        ValueError: there is no such column.
    """
    if sort not in COLUMNS:
        raise ValueError(f"sort is {sort[:80]!r}; use one of {', '.join(sorted(COLUMNS))}")
    matching = [row for row in rows if matches(row, find)] if find else rows
    known = [row for row in matching if _value(row, sort) is not None]
    unknown = [row for row in matching if _value(row, sort) is None]
    ordered = [*sorted(known, key=lambda row: _value(row, sort), reverse=down), *unknown]
    return RankPage(total=len(matching), rows=ordered[offset : offset + limit])


def matches(row: RankRow, find: str) -> bool:
    """Whether each word is the rank's number or part of its host, state or phase; "rank" is ignored."""
    words = [word for word in find.casefold().split() if word != "rank"]
    texts = (row.host.casefold(), row.state, (row.phase or "").casefold())
    return all(
        str(row.rank) == word if word.isdecimal() else any(word in text for text in texts) for word in words
    )


def _value(row: RankRow, column: str) -> Any:
    return getattr(row, column)
