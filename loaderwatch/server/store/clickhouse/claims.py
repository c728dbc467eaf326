"""Claims of runs: who wants to write to a run claims it first, and whoever did before is not listened to any more.

A claim is a number, higher than those before, under which the claimant numbers its commits. It stands in the database before
the claimant reads how far the run is, and the claimant of before looks for a newer claim after its commit and before it tells
anybody. So of a commit that was told, the newer claimant knows; and one that comes later is void, as it is not among those that the
commits of the newer claim, whose numbers are higher, follow.

What people said of a run and its alerts are replaced, not added to. A claimant writes them again under its own number, and only then
says that its claim is ready: rows under a lower number count for nothing from then on.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable
from typing import Final

from loaderwatch.server.store.clickhouse.database import Database
from loaderwatch.server.store.clickhouse.schema import STORED
from loaderwatch.server.store.clickhouse.snapshot import text
from loaderwatch.server.store.protocol import StoreError
from loaderwatch.server.store.schema import REPLACED

_ROOM: Final = 1 << 28  # numbers of commits in a claim
REPLACING: Final = 1 << 62
"""What is added to the numbers of rows that replace others: it is above every time in ns, which were their numbers once."""
_ATTEMPTS: Final = 5


class Fenced(StoreError):
    """Another server has claimed the run."""

    def __init__(self, run_id: str) -> None:
        super().__init__(f"run {run_id} was taken over by another server; send it again")


class Claim:
    """A claim that this process made. ``alone()`` says that nobody else can have made one since."""

    def __init__(self, database: Database, run_id: str, alone: Callable[[], bool]) -> None:
        """Claim a run.

        Raises:
            Fenced: another server did at the same moment.
            StoreError
        """
        self._database = database
        self._run_id = run_id
        self._alone = alone
        self._claimant = uuid.uuid4().hex
        self._table = f"{database.name}.claims"
        self._mine = f"run = {text(run_id)}"
        self.number = self._take()
        before = self._newest(ready=True)
        self.commits = self.number  # the number of the newest commit
        self.replaced = REPLACING + self.number  # that of the newest row which replaced others
        for table in REPLACED:
            others = [name for name in STORED[table].columns if name not in ("run", "commit")]
            names = ", ".join(f'"{name}"' for name in others)
            self._database.command(
                f"INSERT INTO {database.name}.{table} (run, commit, {names}) SELECT {text(run_id)}, {self.replaced}, {names}"
                f" FROM {database.name}.{table} FINAL WHERE {self._mine} AND commit >= {replaced_from(before)}"
            )
        self._say(ready=True)

    def check(self) -> None:
        """See that nobody has claimed the run since.

        Raises:
            Fenced: somebody has.
            StoreError
        """
        if not self._alone() and not self.is_newest():
            raise Fenced(self._run_id)

    def see(self) -> None:
        """See the same by what ClickHouse says, also where this process is alone with it.

        Raises:
            Fenced: somebody has.
            StoreError
        """
        if not self.is_newest():
            raise Fenced(self._run_id)

    def is_newest(self) -> bool:
        """Whether nobody has claimed the run since, by what ClickHouse says."""
        return self._newest() == self.number

    def _take(self) -> int:
        for _ in range(_ATTEMPTS):
            number = (self._newest() // _ROOM + 1 + random.randrange(8)) * _ROOM
            self.number = number
            self._say(ready=False)
            since = self._database.rows(
                f"SELECT commit, claimant FROM {self._table} WHERE {self._mine} AND commit >= {number}"
            )
            if any(commit > number for commit, _ in since):
                break
            if len(since) == 1:
                return number
        raise Fenced(self._run_id)

    def _newest(self, *, ready: bool = False) -> int:
        return newest(self._database, self._run_id, ready=ready)

    def _say(self, *, ready: bool) -> None:
        self._database.command(
            f"INSERT INTO {self._table} (run, commit, claimant, ready) SELECT {text(self._run_id)}, {self.number},"
            f" {text(self._claimant)}, {int(ready)}"
        )


def newest(database: Database, run_id: str, *, ready: bool = False) -> int:
    """Return the number of the newest claim of a run, or of the newest that is ready; 0 if there is none."""
    which = " AND ready = 1" if ready else ""
    ((number,),) = database.rows(
        f"SELECT max(commit) AS newest FROM {database.name}.claims WHERE run = {text(run_id)}{which}"
    )
    return int(number or 0)


def replaced_from(ready: int) -> int:
    """Return the least number of the rows that count among those which replace others, by the newest claim that is ready."""
    return REPLACING + ready if ready else 0
