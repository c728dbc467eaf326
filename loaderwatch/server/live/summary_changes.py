"""The parts of a run's summary that a page does not have yet.

A page that asks for changes first gets the whole summary, and of each rank what it is, not how fast it goes.
Later it gets only the changed fields. The speeds of all ranks change with every look, so a page
asks only for the ranks that it shows (``GET /runs/{run}/ranks``).
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
    """The newest summary of a run, and the number of the state in which each part last changed."""

    def __init__(self) -> None:
        self._summary: Summary | None = None
        self._number = 0
        self._whole = 0  # a client that has seen nothing newer gets everything
        self._fields: dict[str, int] = {}
        self._ranks: dict[int, tuple[tuple[Any, ...], int]] = {}

    def note(self, summary: Summary | None, number: int) -> None:
        """Process the summary of a state; None if only its text is known."""
        if number == self._number:
            return
        previous, self._summary, self._number = self._summary, summary, number
        if summary is None or previous is None or _kind(previous) != _kind(summary):
            self._whole = number
            self._fields, self._ranks = {}, {}
        if summary is None or summary.state not in RUNNING:
            return
        for name in _FIELDS:
            if previous is None or getattr(previous, name) != getattr(summary, name):
                self._fields[name] = number
        for row in summary.ranks:
            standing = _standing(row)
            known = self._ranks.get(row.rank)
            if known is None or known[0] != standing:
                self._ranks[row.rank] = standing, number

    def since(self, seen: int, language: str = SOURCE) -> tuple[bytes, bytes] | None:
        """Return the summary for a client at state ``seen``, and more event text; None: send the whole."""
        summary = self._summary
        if summary is None or summary.state not in RUNNING:
            return None
        partial = seen >= self._whole
        changed: dict[str, Any] = {
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
            changed["ranks"] = ranks
        more = b',"partial":true' if partial else b',"worst_rank":' + encode_json(_worst(summary))
        return encode_json(changed, language), more


def _kind(summary: Summary) -> tuple[Any, ...]:
    """Facts whose change needs a whole new summary: the attempt, the ranks, and whether the run goes on."""
    return summary.attempt, summary.state in RUNNING, [row.rank for row in summary.ranks]


def _standing(row: RankRow) -> tuple[Any, ...]:
    return tuple(getattr(row, name) for name in STANDING)


def _worst(summary: Summary) -> int | None:
    """The rank that waits most for data."""
    worst = max(summary.ranks, key=lambda row: row.data_wait_ratio or 0.0, default=None)
    return None if worst is None else worst.rank
