"""The destination of ``loaderwatch import``: a running server, or the files of a data directory."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol

from loaderwatch.core.client import Client, ServerError
from loaderwatch.core.errors import LoaderwatchError
from loaderwatch.core.server_trust import explain
from loaderwatch.server.recordings.outgoing_run import of_store
from loaderwatch.server.store.duckdb import DuckDBStore
from loaderwatch.server.store.protocol import Arrival, Part, Rest, StoreError, UnknownRun
from loaderwatch.server.store.sql.transfer import pack

_UNKNOWN: Final = 404


class Destination(Protocol):
    """A place for runs. Its methods raise LoaderwatchError."""

    def holds_file(self, file: Path) -> bool:
        """Whether this is one of the place's own files."""

    def fingerprint(self, run_id: str) -> str | None:
        """Return the fingerprint of an existing run; None if there is no such run."""

    def arrive(self, run_id: str) -> Arrival:
        """Start to import a run."""


class DataDirectory:
    """The files of a data directory that no server has open."""

    def __init__(self, runs_dir: Path) -> None:
        """Open the files.

        Raises:
            StoreError: the folder cannot be created.
        """
        self._runs_dir = runs_dir
        try:
            self._store = DuckDBStore(runs_dir)
        except OSError as error:
            raise StoreError(f"{runs_dir} cannot be made: {error.strerror}") from error

    def holds_file(self, file: Path) -> bool:
        """Whether this is a run's file of this directory, which cannot be opened twice."""
        with suppress(OSError):
            return file.parent.resolve() == self._runs_dir.resolve()
        return False

    def fingerprint(self, run_id: str) -> str | None:
        """Return the fingerprint of an existing run; None if there is no such run."""
        try:
            return of_store(self._store, run_id).fingerprint()
        except UnknownRun:
            return None

    def arrive(self, run_id: str) -> Arrival:
        """Start to import a run."""
        return self._store.arrive(run_id)

    def close(self) -> None:
        """Close the files."""
        self._store.close()


class RunningServer:
    """A running server with any store."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def holds_file(self, file: Path) -> bool:
        """Return False: a file that a server has open is unreadable, and reading it reports that."""
        return False

    def fingerprint(self, run_id: str) -> str | None:
        """Return the fingerprint of an existing run; None if there is no such run."""
        try:
            return self._client.fingerprint(run_id)
        except ServerError as error:
            if error.status == _UNKNOWN:
                return None
            raise
        except OSError as error:
            raise _away(self._client, error) from error

    def arrive(self, run_id: str) -> Arrival:
        """Start to import a run."""
        return _Sent(self._client, run_id)


class _Sent:
    """An ``Arrival`` at a server, which by itself drops an incomplete one."""

    def __init__(self, client: Client, run_id: str) -> None:
        self._client = client
        self._run_id = run_id
        self._number = 0

    def add(self, part: Part) -> None:
        self._send(pack(part), last=False)

    def finish(self, rest: Rest) -> None:
        self._send(pack(rest), last=True)

    def give_up(self) -> None:
        pass

    def _send(self, body: bytes, *, last: bool) -> None:
        try:
            self._client.bring(self._run_id, self._number, body, last=last)
        except OSError as error:
            raise _away(self._client, error) from error
        self._number += 1


def _away(client: Client, error: OSError) -> LoaderwatchError:
    return ServerError(f"{client.url} does not answer any more ({explain(error)})")
