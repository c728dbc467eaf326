"""The embedded store: one DuckDB file per run. Retention deletes files; people may query them themselves."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

import duckdb
import msgspec

from loaderwatch.core.clock import wall_ns
from loaderwatch.core.records import TABLES
from loaderwatch.core.wire import RUN_ID_PATTERN, Envelope, Loss
from loaderwatch.detect.window import Columns
from loaderwatch.server.store import lists, reads
from loaderwatch.server.store.facts import unpack_event
from loaderwatch.server.store.metrics import METRICS, SOURCES
from loaderwatch.server.store.protocol import (
    Grid,
    RankTotals,
    Recall,
    Series,
    StoredAlert,
    StoredEvent,
    StoredRun,
    StoreError,
    UnknownRun,
)
from loaderwatch.server.store.runfile import NotOurFile, RunFile

_log: Final = logging.getLogger(__name__)
_T = TypeVar("_T")

MAX_OPEN: Final = 8
IDLE_CLOSE_S: Final = 60.0
SPARE_S: Final = 3600.0
CARD_EVERY_S: Final = 10.0
_END_NS: Final = 2**62


class DuckDBStore:
    """Runs as ``runs_dir/<run_id>.duckdb``. See ``store.protocol.Store``.

    Beside each file lies ``<run_id>.json``, a card with what lists of runs show, so that listing hundreds of runs opens
    none of them. It is only believed when the file was closed in order (no write-ahead log is left).
    """

    def __init__(self, runs_dir: Path, *, read_only: bool = False) -> None:
        """``read_only``: change nothing, set nothing aside; for looking at files of a server that is not running."""
        self._dir = runs_dir
        self._read_only = read_only
        if not read_only:
            self._dir.mkdir(parents=True, exist_ok=True)
        self._lock = threading.RLock()  # over _files; never held while rows are written or read
        self._files: dict[str, RunFile] = {}
        self._cards: dict[str, tuple[float, StoredRun]] = {}  # by run: card's mtime, card
        self._card_written_s: dict[str, float] = {}
        self._closed = False

    # -- files

    def _path(self, run_id: str) -> Path:
        if not RUN_ID_PATTERN.match(run_id):
            raise UnknownRun(run_id)
        return self._dir / f"{run_id}.duckdb"

    def _card_path(self, run_id: str) -> Path:
        return self._dir / f"{run_id}.json"

    @contextmanager
    def _open(self, run_id: str, create: bool = False) -> Iterator[RunFile]:
        path = self._path(run_id)
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
                    self._close_idle(0.0, len(self._files) - MAX_OPEN)

    def _open_file(self, path: Path, run_id: str, create: bool) -> RunFile:
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
        try:
            return RunFile(path, run_id)
        except (duckdb.Error, NotOurFile) as error:
            raise StoreError(f"{path} cannot be created: {error}") from error

    def _set_aside(self, path: Path, reason: str) -> None:
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        wal = path.with_name(path.name + ".wal")
        for each in (path, wal, path.with_suffix(".json")):
            if each.exists():
                target = each.with_name(f"{each.name}.corrupt-{stamp}")
                number = 1
                while target.exists():
                    number += 1
                    target = each.with_name(f"{each.name}.corrupt-{stamp}-{number}")
                each.rename(target)
                _log.error("%s is not a readable run (%s); set aside as %s", each, reason, target.name)
        self._cards.pop(path.stem, None)

    def _close_idle(self, idle_s: float, at_most: int) -> None:
        now = time.monotonic()
        idle = sorted(
            (f for f in self._files.values() if f.readers == 0 and now - f.used_s >= idle_s),
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
        draft = path.with_suffix(".json.new")
        try:
            draft.write_bytes(msgspec.json.encode(card))
            draft.replace(path)
        except OSError as error:
            _log.warning("%s could not be written: %s", path, error)
            return
        self._card_written_s[card.run_id] = time.monotonic()

    def _forget(self, file: RunFile) -> None:
        """After an error in writing: what is in memory may not match the file, so that it is opened anew."""
        with self._lock:
            if self._files.get(file.run_id) is file:
                del self._files[file.run_id]
        try:
            file.close()
        except duckdb.Error as error:
            _log.error("%s did not close in order: %s", file.path, error)

    def _read(self, run_id: str, question: Callable[[duckdb.DuckDBPyConnection, RunFile], _T]) -> _T:
        with self._open(run_id) as file:
            try:
                with file.snapshot() as snapshot:
                    return question(snapshot, file)
            except duckdb.Error as error:
                raise StoreError(f"{file.path} could not be read: {error}") from error

    # -- writing

    def append(self, envelopes: Sequence[Envelope]) -> list[Envelope]:
        """Store envelopes of any runs; on disk when it returns. Returns those that were not stored before."""
        by_run: dict[str, list[Envelope]] = {}
        for envelope in envelopes:
            by_run.setdefault(envelope.run_id, []).append(envelope)
        stored: list[Envelope] = []
        for run_id, group in by_run.items():
            with self._open(run_id, create=True) as file:
                try:
                    stored.extend(file.append(group))
                except duckdb.Error as error:
                    self._forget(file)
                    raise StoreError(f"{file.path} could not be written: {error}") from error
        return stored

    def save_alerts(self, run_id: str, alerts: Sequence[StoredAlert]) -> None:
        """Insert or replace alerts by id."""
        statements: list[tuple[str, list[Any]]] = []
        for alert in alerts:
            statements.append(("DELETE FROM alerts WHERE id = ?", [alert.id]))
            statements.append(
                ("INSERT INTO alerts VALUES (?, ?, ?, ?, ?, ?, ?)", list(msgspec.structs.astuple(alert)))
            )
        with self._open(run_id) as file:
            try:
                file.write(statements)
            except duckdb.Error as error:
                self._forget(file)
                raise StoreError(f"{file.path} could not be written: {error}") from error

    def tidy(self) -> None:
        """Housekeeping, about once a second: rollups, cards, letting go of idle files."""
        with self._lock:
            files = [f for f in self._files.values() if f.changed]
        for file in files:
            with self._open(file.run_id) as held:
                try:
                    held.roll()
                except duckdb.Error as error:
                    self._forget(held)
                    raise StoreError(f"{held.path}: rollups failed: {error}") from error
                if time.monotonic() - self._card_written_s.get(held.run_id, -CARD_EVERY_S) >= CARD_EVERY_S:
                    self._write_card(held.stored_run())
        with self._lock:
            self._close_idle(IDLE_CLOSE_S, MAX_OPEN)

    def delete(self, run_id: str) -> None:
        """Remove a run and its files."""
        path = self._path(run_id)
        with self._lock:
            file = self._files.pop(run_id, None)
            if file is not None:
                try:
                    file.close()
                except duckdb.Error as error:
                    _log.warning("%s did not close in order before it was deleted: %s", path, error)
            elif not path.exists():
                raise UnknownRun(run_id)
            for each in (path, path.with_name(path.name + ".wal"), self._card_path(run_id)):
                each.unlink(missing_ok=True)
            self._cards.pop(run_id, None)
            self._card_written_s.pop(run_id, None)

    def retain(self, max_age_days: float | None, max_bytes: int | None) -> list[str]:
        """Delete the oldest runs until limits hold; never one that was heard of within the last hour."""
        now = wall_ns()
        runs = sorted(self.runs(), key=lambda run: run.received_ns)
        total = sum(run.bytes for run in runs)
        deleted = []
        for run in runs:
            age_s = (now - run.received_ns) / 1e9
            too_old = max_age_days is not None and age_s > max_age_days * 86400
            too_much = max_bytes is not None and total > max_bytes
            if age_s < SPARE_S or not (too_old or too_much):
                continue
            self.delete(run.run_id)
            total -= run.bytes
            deleted.append(run.run_id)
            _log.info("run %s deleted: %s", run.run_id, "too old" if too_old else "over the size limit")
        return deleted

    def close(self) -> None:
        """Flush and let go of every file."""
        with self._lock:
            self._closed = True
            for file in list(self._files.values()):
                self._close_file(file)

    # -- reading

    def stored_seq(self, run_id: str, stream: str) -> int:
        """The highest sequence number stored of a stream; 0 when there is none, or no such run."""
        try:
            with self._open(run_id) as file:
                return file.stored_seq(stream)
        except UnknownRun:
            return 0

    def runs(self) -> list[StoredRun]:
        """Every run, newest first."""
        found = []
        for path in self._dir.glob("*.duckdb"):
            if not RUN_ID_PATTERN.match(path.stem):
                continue
            try:
                found.append(self.run(path.stem))
            except UnknownRun:
                continue  # deleted or set aside meanwhile
            except StoreError as error:
                _log.warning("%s is left out of the list: %s", path, error)
        return sorted(found, key=lambda run: run.started_ns, reverse=True)

    def run(self, run_id: str) -> StoredRun:
        """One run."""
        path = self._path(run_id)
        with self._lock:
            file = self._files.get(run_id)
            if file is not None:
                return file.stored_run()
        unclean = path.with_name(path.name + ".wal").exists()
        card = self._read_card(run_id)
        if card is not None and path.exists() and not unclean:
            return card
        try:
            with self._open(run_id) as file:
                return file.stored_run()
        except StoreError:
            if card is not None:
                return card  # another process has it open: what it last wrote down
            raise

    def _read_card(self, run_id: str) -> StoredRun | None:
        path = self._card_path(run_id)
        try:
            modified = path.stat().st_mtime
            known = self._cards.get(run_id)
            if known is not None and known[0] == modified:
                return known[1]
            card = msgspec.json.decode(path.read_bytes(), type=StoredRun)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.MsgspecError) as error:
            _log.warning("%s is not readable (%s); it is made anew from the run", path, error)
            return None
        self._cards[run_id] = (modified, card)
        return card

    def alerts(self, run_id: str) -> list[StoredAlert]:
        """Every alert of a run, newest first."""
        rows = self._read(
            run_id, lambda s, _: s.execute("SELECT * FROM alerts ORDER BY opened_ns DESC, id").fetchall()
        )
        names = StoredAlert.__struct_fields__
        return [StoredAlert(**dict(zip(names, row, strict=True))) for row in rows]

    def bounds(self, run_id: str) -> tuple[int, int]:
        """First and last UTC nanosecond for which the run has rows."""
        with self._open(run_id) as file:
            return file.first_ns, file.newest_ns

    def series(
        self, run_id: str, metric: str, rank: int | None, start_ns: int, end_ns: int, points: int
    ) -> Series:
        """A metric over [start, end) in at most ``points`` buckets."""

        def question(snapshot: duckdb.DuckDBPyConnection, file: RunFile) -> Series:
            keys: list[Any] | None = None if rank is None else [rank]
            if rank is not None and SOURCES[METRICS[metric].source].key == "host":
                host = file.rank_hosts.get(rank)
                keys = [] if host is None else [host]
            bounds = (file.first_ns, file.newest_ns)
            known = max(1, len(file.rank_hosts))
            return reads.series(
                snapshot, metric, keys, start_ns, end_ns, bounds, points, known, file.open_waits()
            )

        return self._read(run_id, question)

    def grid(self, run_id: str, metric: str, start_ns: int, end_ns: int, points: int) -> Grid:
        """A metric over [start, end), a row per rank, in at most ``points`` buckets."""

        def question(snapshot: duckdb.DuckDBPyConnection, file: RunFile) -> Grid:
            rank_hosts = file.rank_hosts
            by_host = SOURCES[METRICS[metric].source].key == "host"
            keys: dict[int, Any] = {r: host if by_host else r for r, host in rank_hosts.items()}
            bounds = (file.first_ns, file.newest_ns)
            return reads.grid(snapshot, metric, keys, start_ns, end_ns, bounds, points, file.open_waits())

        return self._read(run_id, question)

    def epochs(self, run_id: str, rank: int | None) -> list[dict[str, Any]]:
        """Epochs, oldest first."""
        return self._read(run_id, lambda s, _: lists.epochs(s, rank))

    def fetches(self, run_id: str, rank: int, start_ns: int, end_ns: int, limit: int) -> Columns:
        """The newest ``limit`` fetches that overlap [start, end), ordered by time."""
        return self._read(run_id, lambda s, _: lists.fetches(s, rank, start_ns, end_ns, limit))

    def slow_samples(self, run_id: str, rank: int | None, limit: int) -> list[dict[str, Any]]:
        """The slowest sample of each index, slowest first."""
        return self._read(run_id, lambda s, _: lists.slow_samples(s, rank, limit))

    def totals(self, run_id: str) -> dict[int, RankTotals]:
        """Sums over the whole run, by rank."""
        return self._read(run_id, lambda s, file: lists.totals(s, (file.first_ns, file.newest_ns)))

    def losses(self, run_id: str) -> list[Loss]:
        """Records that were lost before they reached the store."""
        rows = self._read(
            run_id, lambda s, _: s.execute("SELECT body FROM events WHERE lost > 0 ORDER BY t_ns").fetchall()
        )
        return [loss for (body,) in rows for loss in unpack_event(body).losses]

    def scan(self, run_id: str, table: str, start_ns: int, end_ns: int) -> Columns:
        """Rows of a table with start <= time < end, ordered by time."""
        return self._read(run_id, lambda s, _: lists.scan(s, table, start_ns, end_ns))

    def events(self, run_id: str, start_ns: int, end_ns: int) -> Iterator[StoredEvent]:
        """What envelopes carried besides rows, ordered by time."""
        with self._open(run_id) as file, file.snapshot() as snapshot:
            yield from lists.events(snapshot, start_ns, end_ns)

    def recall(self, run_id: str, since_ns: int) -> Recall:
        """The run since a time (UTC), of epochs all, for a server that begins where another stopped."""

        def question(snapshot: duckdb.DuckDBPyConnection, file: RunFile) -> Recall:
            return Recall(
                run=file.stored_run(),
                totals=lists.totals(snapshot, (file.first_ns, file.newest_ns)),
                sequences=lists.sequences(snapshot),
                events=list(lists.events(snapshot, since_ns, _END_NS)),
                tables={
                    table: lists.scan(
                        snapshot, table, 0 if table in ("epoch_begins", "epoch_ends") else since_ns, _END_NS
                    )
                    for table in TABLES
                },
            )

        return self._read(run_id, question)


def _looks_damaged(error: duckdb.Error) -> bool:
    """Whether opening failed because of what is in the file, not because of the disk or permissions."""
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
