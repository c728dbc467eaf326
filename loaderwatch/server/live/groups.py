"""A run's ranks as groups: which are in the same state, stand in the same place and differ from most in the same way.

Ten thousand ranks are no list that anybody reads. Of most of them there is one thing to say, and of a few another.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from loaderwatch.core.answers import RankGroup, RankMeasure, RankRow, RankStatus
from loaderwatch.server.window.outliers import RATIO_FLOOR, STANDS_S, TIME_FLOOR, off

Floats = NDArray[np.float64]

MOST_ROWS: Final = 16
"""A run of no more ranks is read row by row, and has no groups."""
MOST_GROUPS: Final = 12
NAMED: Final = 8
"""How many ranks of a group are named, the lowest."""

_MEASURES: Final[tuple[tuple[RankMeasure, float, float], ...]] = (
    ("data_wait_ratio", RATIO_FLOOR, 0.0),
    ("step_s", 0.0, TIME_FLOOR),
    ("gpu_utilization_ratio", RATIO_FLOOR, 0.0),
)
"""In what ranks differ, what matters most first: ranks that wait for one which waits for data have long steps for that reason."""


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
    """Return the groups of a run's ranks, the smallest first; at most ``MOST_GROUPS``, of which the last is the largest.

    Those between are left out where there are more.
    """
    if len(rows) <= MOST_ROWS:
        return []
    values = _values(rows)
    members: dict[_Key, list[int]] = {}
    for at, key in enumerate(_keys(rows, values)):
        members.setdefault(key, []).append(at)
    found = sorted(members.items(), key=lambda one: (len(one[1]), one[1]))
    if len(found) > MOST_GROUPS:
        found = [*found[: MOST_GROUPS - 1], found[-1]]
    return [_group(key, [rows[at] for at in which], values, which) for key, which in found]


def in_group(rows: Sequence[RankRow], group: str) -> list[RankRow]:
    """Return the ranks of a group now, by its id; none where there is no such group any more."""
    keys = _keys(rows, _values(rows)) if len(rows) > MOST_ROWS else []
    return [row for row, key in zip(rows, keys, strict=False) if str(key) == group]


def _values(rows: Sequence[RankRow]) -> dict[RankMeasure, Floats]:
    """Return each measure of the ranks that go on, shape (ranks,); NaN where it is not known."""
    return {
        name: np.array(
            [getattr(row, name) if row.state == "live" else None for row in rows], dtype=np.float64
        )
        for name, _, _ in _MEASURES
    }


def _keys(rows: Sequence[RankRow], values: dict[RankMeasure, Floats]) -> list[_Key]:
    differs: list[tuple[RankMeasure | None, bool | None]] = [(None, None)] * len(rows)
    for name, floor, floor_ratio in reversed(_MEASURES):
        of = values[name]
        far = np.flatnonzero(off(of, floor, floor_ratio) >= 1.0)
        median = _median(of)
        for at in far.tolist():
            differs[at] = (name, None if median is None else bool(of[at] > median))
    return [_Key(row.state, _stands_in(row), *how) for row, how in zip(rows, differs, strict=True)]


def _stands_in(row: RankRow) -> str | None:
    """Return the phase that a live rank stands in; None while it goes on."""
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
