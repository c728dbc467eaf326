"""The files of a store: opens and closes them, sets damaged ones aside, and keeps cards of closed ones."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, TypeVar

import duckdb
import msgspec

from loaderwatch.core.facts import ProfileStack
from loaderwatch.core.files import free_path, write_atomically
from loaderwatch.core.wire import RUN_ID_PATTERN, UNDECODABLE, decode_json
from loaderwatch.server.store.duckdb.runfile import NotOurFile, RunFile
from loaderwatch.server.store.protocol import Rest, RunExists, StoredRun, StoreError, UnknownRun
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

    def _bring_in(self, tables: dict[str, Arrays], events: list[Event], stacks: list[ProfileStack]) -> None:
        self._tried(lambda: self._file.bring_in(tables, events, stacks))

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


_log: Final = logging.getLogger(__name__)

MAX_OPEN: Final = 8
WRITING_S: Final = 5.0
"""A run that was written to this recently is live, and its file stays open, however many there are. Opening
it for each envelope would cost about 40 ms of CPU time."""
IDLE_CLOSE_S: Final = 60.0
CARD_EVERY_S: Final = 10.0
GIVE_BACK_EVERY_S: Final = 60.0
ARRIVING: Final = "arriving"
"""The folder of runs that are being imported."""


class RunFiles:
    """The files ``directory/<run_id>.duckdb``, opened when needed. The least recently used are closed.

    Each file has a card, ``<run_id>.json``, with what lists of runs show, so that listing hundreds of runs
    opens no file. A card counts only if the file was closed in order, which leaves no write-ahead log.
    """

    def __init__(self, directory: Path, *, read_only: bool) -> None:
        self.directory = directory
        self._read_only = read_only
        if not read_only:
            self.directory.mkdir(parents=True, exist_ok=True)
        self._lock = threading.RLock()  # guards _files; never held while rows are written or read
        self._files: dict[str, RunFile] = {}
        self._cards: dict[str, tuple[float, StoredRun]] = {}  # by run: card's mtime, card
        self._card_written_s: dict[str, float] = {}
        self._closed = False

    def path(self, run_id: str) -> Path:
        """Return the path of a run's file. The id is checked first, as it becomes part of the path."""
        if not RUN_ID_PATTERN.match(run_id):
            raise UnknownRun(run_id)
        return self.directory / f"{run_id}.duckdb"

    def _card_path(self, run_id: str) -> Path:
        return self.directory / f"{run_id}.json"

    @contextmanager
    def open(self, run_id: str, create: bool = False) -> Iterator[RunFile]:
        """Give the run's file, which stays open in this block.

        Raises:
            UnknownRun: there is no file, and ``create`` is false.
            StoreError: the file cannot be opened now.
        """
        path = self.path(run_id)
        with self._lock:
            if self._closed:
                raise StoreError("the store is closed: the server is shutting down")
            create = create and not self._read_only
            file = self._files.get(run_id)
            if file is None:
                if not create and not path.exists():
                    raise UnknownRun(run_id)
                file = self._open_file(path, run_id, create)
                self._files[run_id] = file
            file.readers += 1
            file.used_s = time.monotonic()
        try:
            yield file
        finally:
            with self._lock:
                file.readers -= 1
                if len(self._files) > MAX_OPEN:
                    self._close_idle(0.0, len(self._files) - MAX_OPEN, spare_s=WRITING_S)

    def _open_file(self, path: Path, run_id: str, create: bool) -> RunFile:
        if create and not path.exists():
            return self._create_file(path, run_id)
        try:
            return RunFile(path, run_id, self._read_only)
        except NotOurFile as error:
            if self._read_only:
                raise StoreError(f"{path} is not a run of this version: {error}") from error
            self._set_aside(path, str(error))
        except duckdb.Error as error:
            reason = str(error)
            if "lock" in reason.lower():
                raise StoreError(
                    f"{path} is open in another process; stop that server or ask it instead ({reason})"
                ) from error
            if self._read_only or not path.exists() or not _looks_damaged(error):
                raise StoreError(f"{path} cannot be opened: {reason}") from error
            self._set_aside(path, reason)
        if not create:
            raise UnknownRun(run_id)
        return self._create_file(path, run_id)

    def _create_file(self, path: Path, run_id: str) -> RunFile:
        try:
            return RunFile(path, run_id)
        except duckdb.Error as error:
            for half in (path, path.with_name(path.name + ".wal")):  # else they would look like a damaged run
                half.unlink(missing_ok=True)
            raise StoreError(f"{path} cannot be created: {error}") from error

    def _set_aside(self, path: Path, reason: str) -> None:
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        wal = path.with_name(path.name + ".wal")
        for file in (path, wal, path.with_suffix(".json")):
            if file.exists():
                target = free_path(file.with_name(f"{file.name}.corrupt-{stamp}"))
                file.rename(target)
                _log.error("%s is not a readable run (%s); set aside as %s", file, reason, target.name)
        self._cards.pop(path.stem, None)

    def _close_idle(self, idle_s: float, at_most: int, *, spare_s: float = 0.0) -> None:
        now = time.monotonic()
        idle = sorted(
            (
                f
                for f in self._files.values()
                if f.readers == 0 and now - f.used_s >= idle_s and now - f.written_s >= spare_s
            ),
            key=lambda f: f.used_s,
        )
        for file in idle[:at_most]:
            self._close_file(file)

    def _close_file(self, file: RunFile) -> None:
        self._files.pop(file.run_id, None)
        card = file.stored_run() if file.newest_ns else None
        try:
            file.close()
        except duckdb.Error as error:
            _log.error("%s did not close in order (%s); it is read again from its log", file.path, error)
            return
        if card is not None and not self._read_only:
            self._write_card(msgspec.structs.replace(card, bytes=file.path.stat().st_size))

    def _write_card(self, card: StoredRun) -> None:
        path = self._card_path(card.run_id)
        try:
            write_atomically(path, msgspec.json.encode(card))
        except OSError as error:
            _log.warning("%s could not be written: %s", path, error)
            return
        self._card_written_s[card.run_id] = time.monotonic()

    def forget(self, file: RunFile) -> None:
        """Drop an open file after a failed write: its memory may differ from the disk. It is opened again."""
        with self._lock:
            if self._files.get(file.run_id) is file:
                del self._files[file.run_id]
        try:
            file.close()
        except duckdb.Error as error:
            _log.error("%s did not close in order: %s", file.path, error)

    def run(self, run_id: str) -> StoredRun:
        """Return what is known about a run, if possible without opening its file."""
        path = self.path(run_id)
        with self._lock:
            file = self._files.get(run_id)
            if file is not None:
                return file.stored_run()
        unclean = path.with_name(path.name + ".wal").exists()
        card = self._read_card(run_id)
        if card is not None and path.exists() and not unclean:
            return card
        try:
            with self.open(run_id) as file:
                return file.stored_run()
        except StoreError:
            if card is not None:
                return card  # another process has the file open, and last wrote this
            raise

    def _read_card(self, run_id: str) -> StoredRun | None:
        path = self._card_path(run_id)
        try:
            modified = path.stat().st_mtime
            cached = self._cards.get(run_id)
            if cached is not None and cached[0] == modified:
                return cached[1]
            card = decode_json(path.read_bytes(), StoredRun)
        except FileNotFoundError:
            return None
        except (OSError, *UNDECODABLE) as error:
            _log.warning("%s is not readable (%s); it is made anew from the run", path, error)
            return None
        self._cards[run_id] = (modified, card)
        return card

    def delete(self, run_id: str) -> None:
        """Remove a run and its files."""
        path = self.path(run_id)
        with self._lock:
            file = self._files.pop(run_id, None)
            if file is not None:
                try:
                    file.close()
                except duckdb.Error as error:
                    _log.warning("%s did not close in order before it was deleted: %s", path, error)
            elif not path.exists():
                raise UnknownRun(run_id)
            for part in (path, path.with_name(path.name + ".wal"), self._card_path(run_id)):
                part.unlink(missing_ok=True)
            self._cards.pop(run_id, None)
            self._card_written_s.pop(run_id, None)

    def draft(self, run_id: str) -> Path:
        """Return the path of a run's file during its import.

        Raises:
            RunExists: the run exists.
            UnknownRun: the id is invalid.
        """
        path = self.path(run_id)
        with self._lock:
            if run_id in self._files or path.exists():
                raise RunExists(run_id)
        folder = self.directory / ARRIVING
        try:
            folder.mkdir(exist_ok=True)
        except OSError as error:
            raise StoreError(f"{folder} cannot be made: {error.strerror}") from error
        return folder / path.name

    def adopt(self, draft: Path, run_id: str) -> None:
        """Make a finished draft the file of a run.

        Raises:
            RunExists: the run exists by now.
            StoreError: the file cannot be moved.
        """
        path = self.path(run_id)
        with self._lock:
            if run_id in self._files or path.exists():
                raise RunExists(run_id)
            try:
                draft.rename(path)
            except OSError as error:
                raise StoreError(f"{path} cannot be made: {error.strerror}") from error

    def changed(self) -> list[str]:
        """Return the open runs whose rollups or cards may be out of date."""
        with self._lock:
            return [file.run_id for file in self._files.values() if file.changed]

    def refresh_card(self, file: RunFile) -> None:
        """Write an open file's card every few seconds, for other processes."""
        if time.monotonic() - self._card_written_s.get(file.run_id, -CARD_EVERY_S) >= CARD_EVERY_S:
            self._write_card(file.stored_run())

    def close_idle(self) -> None:
        """Close files that were not used for a minute, so that other programs can open them."""
        with self._lock:
            self._close_idle(IDLE_CLOSE_S, MAX_OPEN)

    def give_back(self) -> None:
        """Once a minute, make each file without readers return memory that it keeps for charts."""
        with self._lock:
            now = time.monotonic()
            for file in self._files.values():
                if file.readers == 0 and now - file.given_back_s >= GIVE_BACK_EVERY_S:
                    file.give_back()

    def close(self) -> None:
        """Flush and close every file permanently."""
        with self._lock:
            self._closed = True
            for file in list(self._files.values()):
                self._close_file(file)

    def run_ids(self) -> list[str]:
        """Return every run that has a file."""
        names = (path.stem for path in self.directory.glob("*.duckdb"))
        return [name for name in names if RUN_ID_PATTERN.match(name)]


def _looks_damaged(error: duckdb.Error) -> bool:
    """Whether opening failed because of the file's content, not the disk or permissions."""
    if isinstance(error, duckdb.IOException):
        text = str(error).lower()
        return any(sign in text for sign in ("not a valid", "read enough bytes", "checksum", "corrupt"))
    return isinstance(
        error,
        duckdb.SerializationException
        | duckdb.InternalException
        | duckdb.FatalException
        | duckdb.CatalogException
        | duckdb.BinderException,
    )
