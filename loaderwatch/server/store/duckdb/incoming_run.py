"""A run that is imported into a file: it lies in its own folder until it is whole, then is moved."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

import duckdb

from loaderwatch.server.store.duckdb.files import RunFiles
from loaderwatch.server.store.duckdb.runfile import RunFile
from loaderwatch.server.store.protocol import Rest, StoreError
from loaderwatch.server.store.rows import Arrays
from loaderwatch.server.store.sql.open_run import Event
from loaderwatch.server.store.sql.transfer import Arriving

_T = TypeVar("_T")


class FileArrival(Arriving):
    """An ``Arrival`` of a DuckDB store."""

    def __init__(self, files: RunFiles, run_id: str) -> None:
        self._files = files
        self._path = files.draft(run_id)
        self._log = self._path.with_name(self._path.name + ".wal")
        self._remove()  # remains of a process that was killed
        self._file = self._tried(lambda: RunFile(self._path, run_id))
        super().__init__(self._file)

    def give_up(self) -> None:
        """Remove what was stored so far."""
        with suppress(duckdb.Error):
            self._file.close()
        with suppress(OSError):
            self._remove()

    def _bring_in(self, tables: dict[str, Arrays], events: list[Event]) -> None:
        self._tried(lambda: self._file.bring_in(tables, events))

    def _conclude(self, rest: Rest) -> None:
        self._tried(lambda: self._file.conclude(rest))
        self._tried(self._file.close)
        if self._log.exists():
            raise StoreError(f"{self._path} could not be written as a whole; is the disk full?")
        self._files.adopt(self._path, self._file.run_id)

    def _tried(self, work: Callable[[], _T]) -> _T:
        try:
            return work()
        except (duckdb.Error, OSError) as error:
            raise StoreError(f"{self._path} could not be written: {error}") from error

    def _remove(self) -> None:
        for file in (self._path, self._log):
            file.unlink(missing_ok=True)
