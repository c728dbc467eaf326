"""What of a run's summary a page has not heard yet.

A page that asks for changes is told the whole summary once, of each rank what it is rather than how fast it goes, and
then the fields that are other than before. How fast ranks go changes on every rank with every look: a page asks for that
of the ranks that it shows (``GET /runs/{run}/ranks``).
"""

from __future__ import annotations

from typing import Any, Final

from loaderwatch.core.answers import RankRow, Summary
from loaderwatch.server.encoding import encode_json
from loaderwatch.texts import SOURCE

STANDING: Final = ("rank", "host", "pid", "state", "exit", "watched", "phases_missing", "gpu")
"""The fields of a rank that say what it is."""
RUNNING: Final = ("live", "hung")
_FIELDS: Final = tuple(name for name in Summary.__struct_fields__ if name != "ranks")


class Changes:
    """The newest summary of a run, and with which number each part of it came to be what it is."""

    def __init__(self) -> None:
        self._summary: Summary | None = None
        self._number = 0
        self._whole = 0  # who has seen nothing newer than this is told everything
        self._fields: dict[str, int] = {}
        self._ranks: dict[int, tuple[tuple[Any, ...], int]] = {}

    def note(self, summary: Summary | None, number: int) -> None:
        """Take in the summary of a state; None where only its text is known."""
        if number == self._number:
            return
        before, self._summary, self._number = self._summary, summary, number
        if summary is None or before is None or _kind(before) != _kind(summary):
            self._whole = number
            self._fields, self._ranks = {}, {}
        if summary is None or summary.state not in RUNNING:
            return
        for name in _FIELDS:
            if before is None or getattr(before, name) != getattr(summary, name):
                self._fields[name] = number
        for row in summary.ranks:
            standing = _standing(row)
            known = self._ranks.get(row.rank)
            if known is None or known[0] != standing:
                self._ranks[row.rank] = standing, number

    def since(self, seen: int, language: str = SOURCE) -> tuple[bytes, bytes] | None:
        """Return the summary for who has seen ``seen`` last, and what else the event says; None: all of its text."""
        summary = self._summary
        if summary is None or summary.state not in RUNNING:
            return None
        partial = seen >= self._whole
        told: dict[str, Any] = {
            name: getattr(summary, name)
            for name in _FIELDS
            if not partial or self._fields.get(name, 0) > seen
        }
        ranks = [
            dict(zip(STANDING, standing, strict=True))
            for standing, number in self._ranks.values()
            if not partial or number > seen
        ]
        if ranks:
            told["ranks"] = ranks
        more = b',"partial":true' if partial else b',"worst_rank":' + encode_json(_worst(summary))
        return encode_json(told, language), more


def _kind(summary: Summary) -> tuple[Any, ...]:
    """What makes the summary another one: its attempt, its ranks, and whether it goes on."""
    return summary.attempt, summary.state in RUNNING, [row.rank for row in summary.ranks]


def _standing(row: RankRow) -> tuple[Any, ...]:
    return tuple(getattr(row, name) for name in STANDING)


def _worst(summary: Summary) -> int | None:
    """The rank that waits most for data."""
    worst = max(summary.ranks, key=lambda row: row.data_wait_ratio or 0.0, default=None)
    return None if worst is None else worst.rank
