"""The servers of a database: each sends a heartbeat once a second, and sees who else does.

Heartbeats only decide who should own a run. Claims make sure that no two servers write to it (``claims.py``).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final
from urllib.parse import urlsplit

from loaderwatch.core.config import is_loopback
from loaderwatch.core.errors import ConfigError
from loaderwatch.server.store.clickhouse.database import Database
from loaderwatch.server.store.clickhouse.schema import SCHEMA_VERSION
from loaderwatch.server.store.clickhouse.snapshot import text


@dataclass(frozen=True, slots=True)
class Server:
    """A server of a database: its id, kept in its data directory, and the address for other servers."""

    id: str
    url: str


def owner_of(run_id: str, servers: Iterable[Server]) -> Server:
    """Return the server with the highest hash. When a server comes or goes, only its own runs move."""
    return max(servers, key=lambda server: (_weight(server.id, run_id), server.id))


def _weight(server_id: str, run_id: str) -> bytes:
    return blake2b(f"{server_id}\n{run_id}".encode(), digest_size=8).digest()


BEAT_S: Final = 1.0
FRESH_S: Final = 5.0
"""A server without a heartbeat for this long is given up."""
_MARGIN_S: Final = 1.0
_NOWHERE: Final = ("", "0.0.0.0", "::")
_NOW: Final = "toUnixTimestamp64Nano(now64(9))"
"""The time by ClickHouse's clock, whatever the servers' clocks say."""


@dataclass(frozen=True, slots=True)
class View:
    """The servers that are alive, as one server sees it."""

    me: Server
    servers: frozenset[Server]  # those that own runs
    may_claim: bool = True  # no other server still believes that it is alone
    returned: bool = False  # this server's heartbeats were missing so long that others may have given it up

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
    """One server's membership. Call ``beat`` from one thread at a time; the rest from any thread."""

    def __init__(
        self, database: Database, me: Server, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._database = database
        self._table = f"{database.name}.peers"
        self._monotonic = monotonic
        self._began_s: float | None = None  # when the last stored heartbeat began
        self._lenient_until_s = 0.0
        self._says_alone = False  # what our row says
        self._alone = False
        self.view = View(me, frozenset({me}), may_claim=False)

    def join(self) -> None:
        """Join the servers.

        Raises:
            ConfigError: this server and another cannot reach each other by their addresses.
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
                    f"the servers {me.url} and {other.url} of {self._database.address} cannot reach "
                    "each other, as one address leads to its own machine only: "
                    "give both --host and --advertise URL"
                )

    def beat(self) -> View:
        """Send a heartbeat, and return the servers that are alive."""
        began_s = self._monotonic()
        returned = self._began_s is not None and not self.is_heard
        if returned:  # perhaps ClickHouse was away, for the others as well
            self._lenient_until_s = began_s + FRESH_S
        self._say(alone=self._says_alone)
        said_alone = self._says_alone
        rows = self._rows()
        me, previous_servers = self.view.me, self.view.servers
        kept_servers = previous_servers if began_s < self._lenient_until_s else frozenset()
        present = [row for row in rows if row.age_s < FRESH_S or row.server in kept_servers]
        newest_schema = max([SCHEMA_VERSION, *(row.schema for row in present)])
        servers = {row.server for row in present if row.schema == newest_schema}
        if newest_schema == SCHEMA_VERSION:
            servers.add(me)
        is_only = not present
        self._began_s = began_s
        # Others claim nothing while our row says that we are alone. It says so first, and takes it back last.
        self._alone = said_alone and is_only and not returned
        self._says_alone = is_only
        if said_alone and not is_only:
            self._say(alone=False)
        may_claim = not any(row.alone and row.age_s < FRESH_S for row in rows)
        self.view = View(me, frozenset(servers), may_claim, returned)
        return self.view

    def leave(self) -> None:
        """Announce that this server stops, so that the others need not wait until they give it up."""
        self._alone = False
        self._say(over=True)

    @property
    def alone(self) -> bool:
        """Whether no other server can have claimed anything, so that ClickHouse need not be asked."""
        return self._alone and self.is_heard

    @property
    def is_heard(self) -> bool:
        """Whether the others cannot have given up this server."""
        return self._began_s is not None and self._monotonic() - self._began_s < FRESH_S - _MARGIN_S

    def _rows(self) -> list[_Row]:
        """Return the rows of other servers that have not left."""
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
            f"INSERT INTO {self._table} SELECT {text(me.id)}, {text(me.url)}, {SCHEMA_VERSION}, "
            f"{int(alone)}, {int(over)}, {_NOW}"
        )


def _is_local(server: Server) -> bool:
    return is_loopback(urlsplit(server.url).hostname or "")
