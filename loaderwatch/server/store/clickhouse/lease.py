"""The right to write to a database, which one server has at a time, as numbers of commits are given out in its memory."""

from __future__ import annotations

from typing import Final

from loaderwatch.server.store.clickhouse.database import Database
from loaderwatch.server.store.clickhouse.snapshot import text
from loaderwatch.server.store.protocol import StoreError

LEASE_S: Final = 30
"""A server that has not renewed for so long is over."""
_NOW: Final = "toUnixTimestamp64Nano(now64(9))"
"""By ClickHouse's clock, whatever those of the servers say."""


class Taken(StoreError):
    """Another server writes to the database."""


class Lease:
    """The lease of one server, known by ``owner``; who comes with the same name is that server, started again."""

    def __init__(self, database: Database, owner: str) -> None:
        self._database = database
        self._owner = owner
        self._table = f"{database.name}.servers"
        self.refused: Taken | None = None
        """Why nothing may be written any more; None while the lease is held."""

    def take(self) -> None:
        """Take the lease.

        Raises:
            Taken: another server has it.
            StoreError
        """
        self._database.command(
            f"CREATE TABLE IF NOT EXISTS {self._table} (id String, seen_ns Int64, over UInt8) "
            "ENGINE = ReplacingMergeTree(seen_ns) ORDER BY id"
        )
        self.renew()
        if self.refused is not None:
            self.leave()
            raise self.refused

    def renew(self) -> None:
        """Say that this server is there, and look whether it is the only one."""
        self._say(over=False)
        others = self._database.rows(
            f"SELECT id FROM {self._table} FINAL WHERE over = 0 AND id != {text(self._owner)} "
            f"AND seen_ns > {_NOW} - {LEASE_S * 10**9}"
        )
        self.refused = self._taken(others[0][0].decode()) if others else None

    def leave(self) -> None:
        """Give the lease back."""
        self._say(over=True)

    def _say(self, *, over: bool) -> None:
        self._database.command(
            f"INSERT INTO {self._table} SELECT {text(self._owner)}, {_NOW}, {int(over)} SETTINGS async_insert = 0"
        )

    def _taken(self, other: str) -> Taken:
        return Taken(
            f"another loaderwatch server ({other[:100]}) writes to ClickHouse at {self._database.address}: end it, or give"
            f" --store another database (one that was killed is over after {LEASE_S} s)"
        )
