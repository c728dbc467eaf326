"""The connection to ClickHouse: queries go out, blocks come in, errors are one line without the password.

Only this module imports clickhouse-connect, which ``loaderwatch[clickhouse]`` installs.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from math import ceil, inf
from typing import TYPE_CHECKING, Any, Final, TypeVar

from numpy.typing import NDArray

from loaderwatch.core.clock import wall_ns
from loaderwatch.core.environment_variables import CLICKHOUSE_PASSWORD
from loaderwatch.core.errors import ConfigError
from loaderwatch.server.store.clickhouse import native
from loaderwatch.server.store.clickhouse.address import Address
from loaderwatch.server.store.deadline import CURRENT, Stopped
from loaderwatch.server.store.protocol import StoreError

if TYPE_CHECKING:
    from clickhouse_connect.driver.client import Client

_log: Final = logging.getLogger(__name__)
_T = TypeVar("_T")

LEAST_VERSION: Final = (26, 9)
"""The oldest server version that the tests have run on."""
RIGHTS: Final = ("SELECT", "INSERT", "CREATE TABLE", "ALTER TABLE")
"""Rights that are needed in the database. Sizes of runs also need SELECT on system.parts."""
CONNECT_S: Final = 5
ANSWER_S: Final = 15
"""Seconds to wait for an answer: as long as a streamer waits for its own before it sends again."""
_MOST_S: Final = ANSWER_S - 3
"""Seconds that a query may take. It ends while somebody still waits for the answer."""
_SENT_AGAIN_S: Final = 2.0
"""An insert that failed sooner is sent again at once. Later the sender's patience is over: it sends again."""

_DIALECT: Final[dict[str, Any]] = {
    # DuckDB's defaults, which the queries of store.sql.charts and store.sql.row_queries rely on.
    "join_use_nulls": 1,
    "joined_subquery_requires_alias": 0,
    "cast_keep_nullable": 1,
    "aggregate_functions_null_for_empty": 1,
    "prefer_column_name_to_alias": 1,
    "union_default_mode": "ALL",
    "max_execution_time": _MOST_S,
    "wait_end_of_query": 1,  # or an error while rows are sent would be part of the answer
}
_INSERT: Final[dict[str, Any]] = {"async_insert": 0, "insert_deduplicate": 1, "wait_end_of_query": 1}
_QUORUM: Final = {"insert_quorum": "auto"}
"""In a replicated database, most replicas have what was acknowledged."""

_NO_AUTHENTICATION: Final = (192, 193, 194, 516)
_NO_RIGHT: Final = 497
_TOO_LONG: Final = 159
_SPEAKS_NO_HTTP: Final = (101,)


class Unreachable(StoreError):
    """ClickHouse does not answer."""


class Database:
    """A ClickHouse database. Every method may be called from any thread, and raises StoreError."""

    def __init__(self, address: Address) -> None:
        """Connect.

        Raises:
            ConfigError: clickhouse-connect is missing, the server is too old, or it rejects this user.
            Unreachable: no server answers.
        """
        self.address = address
        self.name = address.database
        self._lock = threading.Lock()
        self._away_since_ns: int | None = None
        self._trying = threading.Lock()  # held by the caller that asks while the server is away
        self._turning = threading.Lock()
        self._none_answered_s = -inf  # when all hosts were last tried without an answer (monotonic)
        self._at = 0  # index of the host in use
        self.tables_id = ""  # tells this database from others of its name; "" until it is known
        self.replicated = False  # whether the database's engine, and so its tables', is Replicated
        _see_that_it_is_installed()
        self._client = self._asked(self._connected)
        version = self._client.server_version or "of an unknown version"
        if _numbers(version) < LEAST_VERSION:
            least = ".".join(map(str, LEAST_VERSION))
            raise ConfigError(
                f"ClickHouse at {address} is {version[:40]}; loaderwatch needs {least} or newer"
            )

    def _connected(self) -> Client:
        """Connect to the first host that answers."""
        from clickhouse_connect.driver.exceptions import ClickHouseError

        *others, last = range(len(self.address.hosts))
        for self._at in others:
            try:
                return self._connect(self._at)
            except (ClickHouseError, OSError) as error:
                if getattr(error, "code", None) is not None:
                    raise
                _log.warning("ClickHouse at %s:%d does not answer", *self.address.hosts[self._at])
        self._at = last
        return self._connect(last)

    def _connect(self, at: int) -> Client:
        import clickhouse_connect

        host, port = self.address.hosts[at]
        return clickhouse_connect.get_client(
            interface=self.address.interface,
            host=host,
            port=port,
            username=self.address.user,
            password=self.address.password,
            database="__default__",  # ours may not exist yet; names are qualified instead
            client_name="loaderwatch",
            connect_timeout=CONNECT_S,
            send_receive_timeout=ANSWER_S,
            autogenerate_session_id=False,  # a session allows only one query at a time
            query_retries=0,
        )

    # -- asking

    def command(self, sql: str, *, like_duckdb: bool = False) -> None:
        """Run a statement without rows; ``like_duckdb`` if it contains a query written for DuckDB."""
        settings = self._of_replicas(_in_time() if like_duckdb else {"wait_end_of_query": 1})
        self._asked(lambda: self._client.command(sql, settings=settings))

    def query(self, sql: str) -> dict[str, NDArray[Any]]:
        """Return the columns of an answer by name; see ``native.unpack``."""
        return native.unpack(
            self._asked(lambda: self._client.raw_query(sql, settings=_in_time(), fmt="Native"))
        )

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """Return a query's rows as tuples, with None for NULL and bytes for text."""
        columns = self.query(sql).values()
        return list(zip(*(column.tolist() for column in columns), strict=True))

    def insert(
        self, table: str, columns: Mapping[str, NDArray[Any]], types: Mapping[str, str], token: str
    ) -> None:
        """Insert one block. ClickHouse takes it once, however often it is sent with this token.

        If the connection fails at once, the block is sent a second time.
        """
        block = native.pack(columns, types)
        settings = self._of_replicas({**_INSERT, "insert_deduplication_token": token})

        def send() -> Any:
            return self._client.raw_insert(
                f"{self.name}.{table}",
                column_names=list(columns),
                insert_block=block,
                fmt="Native",
                settings=settings,
            )

        began_s = time.monotonic()
        try:
            self._asked(send)
        except Unreachable:
            if time.monotonic() - began_s > _SENT_AGAIN_S:
                raise
            time.sleep(0.2)
            self._asked(send)

    def engine(self, name: str) -> str:
        """Return the name of a table engine, as a replicated one if the database is replicated."""
        return f"Replicated{name}" if self.replicated else name

    def _of_replicas(self, settings: dict[str, Any]) -> dict[str, Any]:
        return settings | _QUORUM if self.replicated else settings

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    # -- whether it answers

    @property
    def away_since_ns(self) -> int | None:
        """Since when (ns UTC) the server has not answered; None while it does."""
        return self._away_since_ns

    def check(self) -> None:
        """Raise StoreError if the server does not answer an empty query, or answers wrongly."""
        self.query("SELECT 1 AS one")

    def _asked(self, question: Callable[[], _T]) -> _T:
        """Return the answer. While the server is away, one caller tries it; others fail at once."""
        from clickhouse_connect.driver.exceptions import ClickHouseError

        is_away = self._away_since_ns is not None
        if is_away and not self._trying.acquire(blocking=False):
            raise self._unreachable()
        try:
            answer = self._of_any_host(question)
        except (ClickHouseError, OSError) as error:
            # The client's message may quote the address with everything in it.
            raise self._explained(error) from None
        finally:
            if is_away:
                self._trying.release()
        with self._lock:
            since_ns, self._away_since_ns = self._away_since_ns, None
        if since_ns is not None:
            _log.warning(
                "ClickHouse at %s answers again, after %.0f s", self.address, (wall_ns() - since_ns) / 1e9
            )
        return answer

    def _of_any_host(self, question: Callable[[], _T]) -> _T:
        """Return the answer of the current host, or of the next one that answers."""
        from clickhouse_connect.driver.exceptions import ClickHouseError

        client = getattr(self, "_client", None)
        try:
            return question()
        except (ClickHouseError, OSError) as error:
            refused = getattr(error, "code", None) is not None  # the host answers, with an error
            if refused or client is None or not self._turn_from(client):
                raise
        return question()

    def _turn_from(self, client: Client) -> bool:
        """Switch to another host unless another thread did; return whether a different one is in use now."""
        from clickhouse_connect.driver.exceptions import ClickHouseError

        hosts = self.address.hosts
        with self._turning:
            if self._client is not client:
                return True
            if time.monotonic() - self._none_answered_s < CONNECT_S:
                return False  # a caller that waited for this lock need not try all hosts again
            for offset in range(1, len(hosts)):
                at = (self._at + offset) % len(hosts)
                try:
                    other_client = self._connect(at)
                    is_replica = self._tables_of(other_client) == self.tables_id
                except (ClickHouseError, OSError):
                    continue
                if not is_replica:
                    _log.error("ClickHouse at %s:%d has other tables: it is no replica", *hosts[at])
                    continue
                _log.warning("ClickHouse at %s:%d does not answer; %s:%d does", *hosts[self._at], *hosts[at])
                self._at, self._client = at, other_client
                return True
            self._none_answered_s = time.monotonic()
        return False

    def note_tables(self) -> None:
        """Remember the tables' id after they were created. Hosts with other tables are never used."""
        self.tables_id = self._asked(lambda: self._tables_of(self._client))

    def _tables_of(self, client: Client) -> str:
        """Return one table's id, which is the same on all replicas."""
        where = f"database = '{self.name}' AND name = 'claims'"
        return str(client.command(f"SELECT toString(any(uuid)) FROM system.tables WHERE {where}"))

    def _explained(self, error: Exception) -> Exception:
        code = getattr(error, "code", None)
        at = self.address
        if code in _NO_AUTHENTICATION:
            return ConfigError(
                f"ClickHouse at {at} does not let the user {at.user!r} in: "
                "check the user and password of --store"
                f" (also in its password_file, or {CLICKHOUSE_PASSWORD.name})"
            )
        if code == _NO_RIGHT:
            return StoreError(f"{at.user!r} lacks rights in ClickHouse: {self.grant()}")
        if code == _TOO_LONG and CURRENT.get() is not None:
            return Stopped(f"ClickHouse at {at} took too long: {_one_line(error)}")
        if code is not None:
            return StoreError(f"ClickHouse at {at} refuses this: {_one_line(error)}")
        with self._lock:
            if self._away_since_ns is None:
                self._away_since_ns = wall_ns()
                _log.warning("ClickHouse at %s does not answer: %s", at, _one_line(error))
        return self._unreachable()

    def _unreachable(self) -> Unreachable:
        since = time.strftime("%H:%M:%S UTC", time.gmtime((self._away_since_ns or wall_ns()) / 1e9))
        return Unreachable(f"store not reachable since {since}: ClickHouse at {self.address} does not answer")

    def grant(self) -> str:
        """Return the statements that grant this user every right that is needed."""
        user = self.address.user
        return f"GRANT {', '.join(RIGHTS)} ON {self.name}.* TO {user}; GRANT SELECT ON system.parts TO {user}"


def _in_time() -> dict[str, Any]:
    """Return the settings of a query written for DuckDB, which end it at the caller's deadline.

    Raises:
        Stopped: the time is over already.
    """
    deadline = CURRENT.get()
    if deadline is None:
        return _DIALECT
    deadline.check()
    return _DIALECT | {"max_execution_time": min(_MOST_S, ceil(deadline.left_s))}


def _see_that_it_is_installed() -> None:
    try:
        import clickhouse_connect
    except ImportError:
        raise ConfigError(
            "--store clickhouse:// needs a package that is not installed: "
            "pip install 'loaderwatch[clickhouse]'"
        ) from None
    # Errors are logged by this module.
    logging.getLogger(clickhouse_connect.__name__).setLevel(logging.CRITICAL)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) if part.isdigit() else 0 for part in version.split(".")[:2])


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:300]
