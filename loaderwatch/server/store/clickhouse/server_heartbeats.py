"""The servers of a database: each says once a second that it is there, and sees who else is.

Who is there decides only who should own a run. That no two write to one is a matter of claims (``claims.py``).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from loaderwatch.core.config import is_loopback
from loaderwatch.core.errors import ConfigError
from loaderwatch.server.store.clickhouse.database import Database
from loaderwatch.server.store.clickhouse.run_owner import Server, owner_of
from loaderwatch.server.store.clickhouse.schema import SCHEMA_VERSION
from loaderwatch.server.store.clickhouse.snapshot import text

BEAT_S: Final = 1.0
FRESH_S: Final = 5.0
"""A server that has not been heard of for so long is given up."""
_MARGIN_S: Final = 1.0
_NOWHERE: Final = ("", "0.0.0.0", "::")
_NOW: Final = "toUnixTimestamp64Nano(now64(9))"
"""By ClickHouse's clock, whatever those of the servers say."""


@dataclass(frozen=True, slots=True)
class View:
    """Who is there, as a server sees it."""

    me: Server
    servers: frozenset[Server]  # those that own runs
    may_claim: bool = True  # nobody believes to be the only one and would not see it
    returned: bool = False  # this server was not heard of for so long that others may have given it up

    def owner(self, run_id: str) -> Server:
        """Return the server that owns a run."""
        return owner_of(run_id, self.servers)

    def owns(self, run_id: str) -> bool:
        """Whether this server owns a run."""
        return self.servers == {self.me} or self.owner(run_id) == self.me


@dataclass(frozen=True, slots=True)
class _Row:
    server: Server
    schema: int
    alone: bool
    age_s: float


class Members:
    """The part of one server in this. Call ``beat`` from one thread at a time; the rest may be asked from any."""

    def __init__(
        self, database: Database, me: Server, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._database = database
        self._table = f"{database.name}.peers"
        self._monotonic = monotonic
        self._began_s: float | None = None  # when the last heartbeat that was taken in began
        self._lenient_until_s = 0.0
        self._says_alone = False  # what our row says
        self._alone = False
        self.view = View(me, frozenset({me}), may_claim=False)

    def join(self) -> None:
        """Come in.

        Raises:
            ConfigError: another server has an address of which one of both cannot be reached.
            StoreError
        """
        self._database.command(
            f"CREATE TABLE IF NOT EXISTS {self._table} "
            "(id String, url String, schema UInt32, alone UInt8, over UInt8, seen_ns Int64) "
            f"ENGINE = {self._database.engine('ReplacingMergeTree(seen_ns)')} ORDER BY id"
        )
        self.beat()
        me = self.view.me
        if (urlsplit(me.url).hostname or "") in _NOWHERE:
            self.leave()
            raise ConfigError(
                f"no other server reaches this one at {me.url}: give --advertise URL with its name"
            )
        for other in self.view.servers - {me}:
            if _is_local(me) != _is_local(other):
                self.leave()
                raise ConfigError(
                    f"the servers {me.url} and {other.url} of {self._database.address} cannot reach each other, as one address"
                    " leads to its own machine only: give both --host and --advertise URL"
                )

    def beat(self) -> View:
        """Say that this server is there, and return who is."""
        began_s = self._monotonic()
        returned = self._began_s is not None and not self.is_heard
        if returned:  # it may be ClickHouse that was away, for the others as well
            self._lenient_until_s = began_s + FRESH_S
        self._say(alone=self._says_alone)
        told_alone = self._says_alone
        rows = self._rows()
        me, before = self.view.me, self.view.servers
        kept = before if began_s < self._lenient_until_s else frozenset()
        there = [row for row in rows if row.age_s < FRESH_S or row.server in kept]
        newest = max([SCHEMA_VERSION, *(row.schema for row in there)])
        servers = {row.server for row in there if row.schema == newest}
        if newest == SCHEMA_VERSION:
            servers.add(me)
        only = not there
        self._began_s = began_s
        # Others claim nothing while our row says that we are alone: so that is said first, and taken back last.
        self._alone = told_alone and only and not returned
        self._says_alone = only
        if told_alone and not only:
            self._say(alone=False)
        may_claim = not any(row.alone and row.age_s < FRESH_S for row in rows)
        self.view = View(me, frozenset(servers), may_claim, returned)
        return self.view

    def leave(self) -> None:
        """Say that this server is over: the others need not wait until it is given up."""
        self._alone = False
        self._say(over=True)

    @property
    def alone(self) -> bool:
        """Whether no other server can have claimed anything, so that nobody need be asked."""
        return self._alone and self.is_heard

    @property
    def is_heard(self) -> bool:
        """Whether the others cannot have given this server up."""
        return self._began_s is not None and self._monotonic() - self._began_s < FRESH_S - _MARGIN_S

    def _rows(self) -> list[_Row]:
        """Return the rows of the others that have not left."""
        rows = self._database.rows(
            f"SELECT id, url, schema, alone, ({_NOW} - seen_ns) / 1e9 AS age_s FROM {self._table} FINAL"
            f" WHERE over = 0 AND id != {text(self.view.me.id)}"
        )
        return [
            _Row(Server(id.decode(), url.decode()), int(schema), bool(alone), float(age_s))
            for id, url, schema, alone, age_s in rows
        ]

    def _say(self, *, alone: bool = False, over: bool = False) -> None:
        me = self.view.me
        self._database.command(
            f"INSERT INTO {self._table} SELECT {text(me.id)}, {text(me.url)}, {SCHEMA_VERSION}, {int(alone)}, {int(over)},"
            f" {_NOW}"
        )


def _is_local(server: Server) -> bool:
    return is_loopback(urlsplit(server.url).hostname or "")
