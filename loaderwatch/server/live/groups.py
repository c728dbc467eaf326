"""A run's ranks as groups: same state, same phase if they stand still, same deviation from most ranks.

Nobody reads a list of ten thousand ranks. Most of them need one line, a few need another.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from loaderwatch.core.answers import RankGroup, RankMeasure, RankPage, RankRow, RankStatus
from loaderwatch.server.window.detailed_hosts import RATIO_FLOOR, STANDS_S, TIME_FLOOR, off

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


Floats = NDArray[np.float64]

MOST_ROWS: Final = 16
"""A run with at most this many ranks is shown row by row, without groups."""
MOST_GROUPS: Final = 12
NAMED: Final = 8
"""How many ranks of a group are named: the lowest."""

_MEASURES: Final[tuple[tuple[RankMeasure, float, float], ...]] = (
    ("data_wait_ratio", RATIO_FLOOR, 0.0),
    ("step_s", 0.0, TIME_FLOOR),
    ("gpu_utilization_ratio", RATIO_FLOOR, 0.0),
)
"""Measures in which ranks differ, by importance: ranks that wait for a starved rank have long steps, too."""


class _Key(NamedTuple):
    """What the ranks of a group have in common."""

    state: RankStatus
    phase: str | None
    differs_in: RankMeasure | None
    higher: bool | None

    def __str__(self) -> str:
        how = {None: "", False: "less", True: "more"}[self.higher]
        return "/".join((self.state, self.phase or "", self.differs_in or "", how))


def groups_of(rows: Sequence[RankRow]) -> list[RankGroup]:
    """Return the groups of a run's ranks, the smallest first; at most ``MOST_GROUPS``.

    If there are more, groups between the smallest ones and the largest one are left out.
    """
    if len(rows) <= MOST_ROWS:
        return []
    values = _values(rows)
    members: dict[_Key, list[int]] = {}
    for place, key in enumerate(_keys(rows, values)):
        members.setdefault(key, []).append(place)
    groups = sorted(members.items(), key=lambda one: (len(one[1]), one[1]))
    if len(groups) > MOST_GROUPS:
        groups = [*groups[: MOST_GROUPS - 1], groups[-1]]
    return [_group(key, [rows[place] for place in places], values, places) for key, places in groups]


def in_group(rows: Sequence[RankRow], group: str) -> list[RankRow]:
    """Return the ranks that are in a group now, by the group's id; empty if the group no longer exists."""
    keys = _keys(rows, _values(rows)) if len(rows) > MOST_ROWS else []
    return [row for row, key in zip(rows, keys, strict=False) if str(key) == group]


def _values(rows: Sequence[RankRow]) -> dict[RankMeasure, Floats]:
    """Return each measure of the live ranks, shape (ranks,); NaN if unknown."""
    return {
        name: np.array(
            [getattr(row, name) if row.state == "live" else None for row in rows], dtype=np.float64
        )
        for name, _, _ in _MEASURES
    }


def _keys(rows: Sequence[RankRow], values: dict[RankMeasure, Floats]) -> list[_Key]:
    differs: list[tuple[RankMeasure | None, bool | None]] = [(None, None)] * len(rows)
    for name, floor, floor_ratio in reversed(_MEASURES):
        measured = values[name]
        far = np.flatnonzero(off(measured, floor, floor_ratio) >= 1.0)
        median = _median(measured)
        for place in far.tolist():
            differs[place] = (name, None if median is None else bool(measured[place] > median))
    return [_Key(row.state, _stands_in(row), *how) for row, how in zip(rows, differs, strict=True)]


def _stands_in(row: RankRow) -> str | None:
    """Return the phase in which a live rank stands still; None while it makes progress."""
    stands = row.state == "live" and row.phase_age_s is not None and row.phase_age_s >= STANDS_S
    return row.phase if stands else None


def _group(
    key: _Key, rows: Sequence[RankRow], values: dict[RankMeasure, Floats], which: list[int]
) -> RankGroup:
    ages = [row.phase_age_s for row in rows if row.phase_age_s is not None]
    return RankGroup(
        group=str(key),
        count=len(rows),
        ranks=sorted(row.rank for row in rows)[:NAMED],
        hosts=len({row.host for row in rows}),
        state=key.state,
        phase=key.phase,
        phase_age_s=max(ages) if ages and key.phase is not None else None,
        differs_in=key.differs_in,
        higher=key.higher,
        steps_per_s=_median(np.array([row.steps_per_s for row in rows], dtype=np.float64)),
        **{name: _median(of[which]) for name, of in values.items()},
    )


def _median(values: Floats) -> float | None:
    known = values[~np.isnan(values)]
    median = float(np.median(known)) if len(known) else float("nan")
    return None if isnan(median) else median
