"""Claims of runs: a server claims a run before it writes. The previous owner's later commits are then void.

A claim is a number above all earlier ones, from which the claimant's commit numbers count up. The claim is
stored before the claimant reads the run. After each commit, before it acknowledges the commit, an owner
checks for a newer claim. So the new owner has seen every acknowledged commit. A commit that the previous
owner writes later is void, because the new owner's commits, which have higher numbers, do not follow it.

Labels and alerts of a run are replaced, not appended. A claimant first writes them again under its own
number, then marks its claim as ready. From then on, rows with a lower number do not count.
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
"""Added to the numbers of replacing rows: above every time in ns, which older versions used as numbers."""
_ATTEMPTS: Final = 5


class Fenced(StoreError):
    """Another server has claimed the run."""

    def __init__(self, run_id: str) -> None:
        super().__init__(f"run {run_id} was taken over by another server; send it again")


class Claim:
    """A claim by this process. ``alone()`` says that no other server can have made one since."""

    def __init__(self, database: Database, run_id: str, alone: Callable[[], bool]) -> None:
        """Claim a run.

        Raises:
            Fenced: another server claimed it at the same moment.
            StoreError
        """
        self._database = database
        self._run_id = run_id
        self._alone = alone
        self._claimant = uuid.uuid4().hex
        self._table = f"{database.name}.claims"
        self._mine = f"run = {text(run_id)}"
        self.number = self._take()
        previous_number = self._newest(ready=True)
        self.commits = self.number  # the number of the newest commit
        self.replaced = REPLACING + self.number  # the number of the newest replacing row
        for table in REPLACED:
            columns = [name for name in STORED[table].columns if name not in ("run", "commit")]
            names = ", ".join(f'"{name}"' for name in columns)
            self._database.command(
                f"INSERT INTO {database.name}.{table} (run, commit, {names}) "
                f"SELECT {text(run_id)}, {self.replaced}, {names} FROM {database.name}.{table} FINAL "
                f"WHERE {self._mine} AND commit >= {replaced_from(previous_number)}"
            )
        self._say(ready=True)

    def check(self) -> None:
        """Raise Fenced if another server has claimed the run since."""
        if not self._alone() and not self.is_newest():
            raise Fenced(self._run_id)

    def see(self) -> None:
        """Do the same as ``check``, but always ask ClickHouse, even if this process is alone."""
        if not self.is_newest():
            raise Fenced(self._run_id)

    def is_newest(self) -> bool:
        """Ask ClickHouse whether no other server has claimed the run since."""
        return self._newest() == self.number

    def _take(self) -> int:
        for _ in range(_ATTEMPTS):
            number = (self._newest() // _ROOM + 1 + random.randrange(8)) * _ROOM
            self.number = number
            self._say(ready=False)
            claims = self._database.rows(
                f"SELECT commit, claimant FROM {self._table} WHERE {self._mine} AND commit >= {number}"
            )
            if any(commit > number for commit, _ in claims):
                break
            if len(claims) == 1:
                return number
        raise Fenced(self._run_id)

    def _newest(self, *, ready: bool = False) -> int:
        return newest(self._database, self._run_id, ready=ready)

    def _say(self, *, ready: bool) -> None:
        self._database.command(
            f"INSERT INTO {self._table} (run, commit, claimant, ready) "
            f"SELECT {text(self._run_id)}, {self.number}, {text(self._claimant)}, {int(ready)}"
        )


def newest(database: Database, run_id: str, *, ready: bool = False) -> int:
    """Return the number of a run's newest claim (``ready``: of the newest ready one); 0 if there is none."""
    condition = " AND ready = 1" if ready else ""
    ((number,),) = database.rows(
        f"SELECT max(commit) AS newest FROM {database.name}.claims WHERE run = {text(run_id)}{condition}"
    )
    return int(number or 0)


def replaced_from(ready: int) -> int:
    """Return from which number on replacing rows count, given the number of the newest ready claim."""
    return REPLACING + ready if ready else 0
