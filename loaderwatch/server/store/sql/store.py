"""The parts of a store that are the same for all SQL databases."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final, TypeVar

import msgspec

from loaderwatch.core.answers import Labels
from loaderwatch.core.clock import END_OF_TIME_NS
from loaderwatch.core.columns import Columns
from loaderwatch.core.facts import Loss, ProfileStack
from loaderwatch.core.records import LEARNED_FROM, TABLES, WHOLE_TABLES
from loaderwatch.core.wire import Envelope
from loaderwatch.server.store.facts import unpack_event
from loaderwatch.server.store.metrics import METRICS, SOURCES
from loaderwatch.server.store.protocol import (
    MOST_EPOCH_ROWS,
    Grid,
    RankTotals,
    Recall,
    Recent,
    Series,
    StoredAlert,
    StoredEvent,
    StoredProfile,
    StoredRun,
)
from loaderwatch.server.store.sql import charts, profile_queries, row_queries, sums
from loaderwatch.server.store.sql.open_run import OpenRun
from loaderwatch.server.store.sql.snapshot import Snapshot

_T = TypeVar("_T")

NEWEST_NS: Final = 10 * 10**9
"""How far back ``recall`` reads events of a run without rows. Each host sends open spans once a second."""


class SqlStore(ABC):
    """The base of SQL stores. ``store.protocol.Store`` describes the methods."""

    @abstractmethod
    def _reading(self, run_id: str) -> AbstractContextManager[tuple[Snapshot, OpenRun]]:
        """Give a snapshot of a run, and the run.

        Raises:
            UnknownRun
            StoreError: the run cannot be read now, or a query in the block failed.
        """

    def _read(self, run_id: str, question: Callable[[Snapshot, OpenRun], _T]) -> _T:
        with self._reading(run_id) as (snapshot, run):
            return question(snapshot, run)

    @abstractmethod
    def _writing(self, run_id: str, *, create: bool = False) -> AbstractContextManager[OpenRun]:
        """Give a run for writing. It is read again after an error. ``create`` allows a new run.

        Raises:
            UnknownRun
            StoreError: the run cannot be written now, or writing in the block failed.
        """

    def append(self, envelopes: Sequence[Envelope]) -> list[Envelope]:
        """Store envelopes of any runs, on disk on return. Return those that were not stored yet."""
        by_run: dict[str, list[Envelope]] = {}
        for envelope in envelopes:
            by_run.setdefault(envelope.run_id, []).append(envelope)
        stored: list[Envelope] = []
        for run_id, group in by_run.items():
            with self._writing(run_id, create=True) as run:
                run.see_room()
                stored.extend(run.append(group))
        return stored

    def save_alerts(self, run_id: str, alerts: Sequence[StoredAlert]) -> None:
        """Insert or replace alerts by id."""
        if alerts:
            with self._writing(run_id) as run:
                run.save_alerts(alerts)

    def label(self, run_id: str, labels: Labels) -> None:
        """Replace the labels that people gave a run."""
        with self._writing(run_id) as run:
            run.label(labels)

    @abstractmethod
    def runs(self) -> list[StoredRun]:
        """Return every run, newest first."""

    @abstractmethod
    def delete(self, run_id: str) -> None:
        """Remove a run."""

    def owns(self, run_id: str) -> bool:
        """Whether this server writes the run. Of several servers on a database, the run's owner writes it."""
        return True

    def alerts(self, run_id: str) -> list[StoredAlert]:
        """Return every alert of a run, newest first."""
        rows = self._read(
            run_id, lambda s, _: s.execute("SELECT * FROM alerts ORDER BY opened_ns DESC, id").fetchall()
        )
        names = StoredAlert.__struct_fields__
        return [StoredAlert(**dict(zip(names, row, strict=True))) for row in rows]

    def bounds(self, run_id: str) -> tuple[int, int]:
        """Return the first and last UTC nanosecond for which the run has rows."""
        return self._read(run_id, lambda _, run: (run.first_ns, run.newest_ns))

    def series(
        self, run_id: str, metric: str, rank: int | None, start_ns: int, end_ns: int, points: int
    ) -> Series:
        """Return a metric over [start, end) in at most ``points`` buckets."""
        return self.several_series(run_id, [metric], rank, start_ns, end_ns, points)[0]

    def several_series(
        self, run_id: str, metrics: Sequence[str], rank: int | None, start_ns: int, end_ns: int, points: int
    ) -> list[Series]:
        """Return several metrics in their order, all from one snapshot."""

        def question(snapshot: Snapshot, run: OpenRun) -> list[Series]:
            bounds = (run.first_ns, run.newest_ns)
            known = max(1, len(run.rank_hosts))
            series_by_name: dict[str, Series] = {}
            for names in _read_together(metrics):
                keys: list[Any] | None = None if rank is None else [rank]
                if rank is not None and SOURCES[METRICS[names[0]].source].key == "host":
                    host = run.rank_hosts.get(rank)
                    keys = [] if host is None else [host]
                waits, begun = run.open_waits(), run.facts.begun_ns()
                several = charts.series(
                    snapshot, names, keys, start_ns, end_ns, bounds, points, known, waits, begun
                )
                series_by_name.update(zip(names, several, strict=True))
            return [series_by_name[name] for name in metrics]

        return self._read(run_id, question)

    def grid(self, run_id: str, metric: str, start_ns: int, end_ns: int, points: int) -> Grid:
        """Return a metric over [start, end), a row per rank, in at most ``points`` buckets."""

        def question(snapshot: Snapshot, run: OpenRun) -> Grid:
            rank_hosts = run.rank_hosts
            by_host = SOURCES[METRICS[metric].source].key == "host"
            keys: dict[int, Any] = {r: host if by_host else r for r, host in rank_hosts.items()}
            bounds = (run.first_ns, run.newest_ns)
            waits, begun = run.open_waits(), run.facts.begun_ns()
            return charts.grid(snapshot, metric, keys, start_ns, end_ns, bounds, points, waits, begun)

        return self._read(run_id, question)

    def epochs(self, run_id: str, rank: int | None, limit: int = MOST_EPOCH_ROWS) -> list[dict[str, Any]]:
        """Return the newest ``limit`` epochs, oldest first."""
        return self._read(run_id, lambda s, _: row_queries.epochs(s, rank, limit))

    def fetches(
        self, run_id: str, rank: int, start_ns: int, end_ns: int, limit: int, worker: int | None = None
    ) -> Columns:
        """Return the newest fetches of a worker (None: all) that overlap [start, end), ordered by time."""
        return self._read(run_id, lambda s, _: row_queries.fetches(s, rank, start_ns, end_ns, limit, worker))

    def slow_samples(self, run_id: str, rank: int | None, limit: int) -> list[dict[str, Any]]:
        """Return the slowest sample of each index, slowest first."""
        return self._read(run_id, lambda s, _: row_queries.slow_samples(s, rank, limit))

    def phases(
        self, run_id: str, rank: int | None, names: Sequence[int], start_ns: int, end_ns: int, limit: int
    ) -> list[dict[str, Any]]:
        """Return the newest ``limit`` phases that overlap [start, end), oldest first."""
        return self._read(run_id, lambda s, _: row_queries.phases(s, rank, names, start_ns, end_ns, limit))

    def profile(self, run_id: str, part: int, rank: int | None, start_ns: int, end_ns: int) -> StoredProfile:
        """Return the counts of sampled stacks of a part that were taken in [start, end)."""
        return self._read(run_id, lambda s, _: profile_queries.profile(s, part, rank, start_ns, end_ns))

    def profile_stacks(self, run_id: str, start_ns: int, end_ns: int) -> list[ProfileStack]:
        """Return the texts of the stacks with counts in [start, end), ordered by id."""
        return self._read(run_id, lambda s, _: list(profile_queries.texts(s, (start_ns, end_ns))))

    def all_profile_stacks(self, run_id: str) -> Iterator[ProfileStack]:
        """Yield the texts of all sampled stacks, ordered by id."""
        with self._reading(run_id) as (snapshot, _):
            yield from profile_queries.texts(snapshot)

    def totals(self, run_id: str) -> dict[int, RankTotals]:
        """Return sums over the whole run, by rank."""
        return self._read(run_id, lambda s, _: sums.by_rank(s))

    def losses(self, run_id: str) -> list[Loss]:
        """Return the records that were lost before they reached the store."""
        rows = self._read(
            run_id, lambda s, _: s.execute("SELECT body FROM events WHERE lost > 0 ORDER BY t_ns").fetchall()
        )
        return [loss for (body,) in rows for loss in unpack_event(body).losses]

    def scan(self, run_id: str, table: str, start_ns: int, end_ns: int, *, counted: bool = False) -> Columns:
        """Return rows of a table with start <= time < end, ordered by time."""
        return self._read(run_id, lambda s, _: row_queries.scan(s, table, start_ns, end_ns, counted=counted))

    def next_row(self, run_id: str, table: str, since_ns: int) -> int | None:
        """Return the time of a table's first row at or after ``since_ns``; None if there is none."""
        return self._read(run_id, lambda s, _: row_queries.next_row(s, table, since_ns))

    def events(self, run_id: str, start_ns: int, end_ns: int) -> Iterator[StoredEvent]:
        """Yield what envelopes carried besides rows, ordered by time."""
        with self._reading(run_id) as (snapshot, _):
            yield from row_queries.events(snapshot, start_ns, end_ns)

    def all_events(self, run_id: str) -> Iterator[StoredEvent]:
        """Yield everything that envelopes carried besides rows, in the order in which it was stored."""
        with self._reading(run_id) as (snapshot, _):
            yield from row_queries.all_events(snapshot)

    def sequences(self, run_id: str) -> dict[str, list[tuple[int, int]]]:
        """Return which envelopes are stored: sequence numbers by stream, as inclusive intervals."""
        return self._read(run_id, lambda s, _: row_queries.sequences(s))

    def facts(self, run_id: str, limit: int) -> Iterator[StoredEvent]:
        """Yield the newest ``limit`` events that changed a fact, in the order in which they were stored."""
        with self._reading(run_id) as (snapshot, _):
            yield from row_queries.facts(snapshot, limit)

    def recall(
        self, run_id: str, reach_ns: int, attempt: int | None = None, *, most_ranks: int | None = None
    ) -> Recall:
        """Return the last ``reach_ns`` of an attempt (None: the newest) and all its epochs.

        Tables that limits are learned from reach back ``reach_ns`` from their own newest row. With more than
        ``most_ranks`` ranks, there are no rows (see ``recent``), and only the events of ``NEWEST_NS``.
        """

        def question(snapshot: Snapshot, opened: OpenRun) -> Recall:
            # DuckDB takes its snapshot at the first query, not at BEGIN. Nothing may be stored before it.
            with opened.lock:
                run = opened.stored_run()
                sequences = row_queries.sequences(snapshot)
            begin_ns, end_ns = run.span_of(attempt)
            if end_ns != END_OF_TIME_NS:
                run = _as_it_ended(run, attempt or 1, snapshot)
            since_ns = max(begin_ns, run.last_seen_ns - reach_ns)
            large = most_ranks is not None and run.world_size > most_ranks
            events_ns = max(since_ns, run.last_seen_ns - NEWEST_NS) if large else since_ns
            return Recall(
                run=run,
                totals=sums.by_rank(snapshot, (begin_ns, end_ns)),
                path=sums.along_path(snapshot, (begin_ns, end_ns)) if run.world_size > 1 else None,
                sequences=sequences,
                events=list(row_queries.events(snapshot, events_ns, end_ns)),
                tables={} if large else _last_rows(snapshot, begin_ns, since_ns, end_ns, reach_ns),
                profile_stacks=[] if large else list(profile_queries.texts(snapshot, (since_ns, end_ns))),
            )

        return self._read(run_id, question)

    def recent(self, run_id: str, reach_ns: int, ranks: Sequence[int], hosts: Sequence[str]) -> Recent:
        """Return what ``recall`` returns for the newest attempt, with rows of some ranks and hosts only."""

        def question(snapshot: Snapshot, opened: OpenRun) -> Recent:
            with opened.lock:
                run = opened.stored_run()
                sequences = row_queries.sequences(snapshot)
            since_ns = max(run.attempt_ns, run.last_seen_ns - reach_ns)
            only = row_queries.Only(ranks, hosts)
            return Recent(
                sequences,
                _last_rows(snapshot, run.attempt_ns, since_ns, END_OF_TIME_NS, reach_ns, only),
                list(profile_queries.texts(snapshot, (since_ns, END_OF_TIME_NS), only=only)),
            )

        return self._read(run_id, question)


def _last_rows(
    snapshot: Snapshot,
    begin_ns: int,
    since_ns: int,
    end_ns: int,
    reach_ns: int,
    only: row_queries.Only | None = None,
) -> dict[str, Columns]:
    """Return rows since a time; whole tables entirely; ``reach_ns`` of tables that teach limits."""
    rows_by_table = {}
    for table in TABLES:
        first_ns = since_ns
        if table in WHOLE_TABLES:
            first_ns = begin_ns
        elif table in LEARNED_FROM:
            newest_ns = row_queries.newest_row(snapshot, table, end_ns, only)
            first_ns = max(begin_ns, min(since_ns, newest_ns - reach_ns))
        rows_by_table[table] = row_queries.scan(snapshot, table, first_ns, end_ns, only=only)
    return rows_by_table


def _as_it_ended(run: StoredRun, attempt: int, snapshot: Snapshot) -> StoredRun:
    """Return the run as it was when the next attempt began."""
    past_attempt = next(past for past in run.earlier if past.number == attempt)
    processes, rank_hosts = row_queries.facts_before(snapshot, attempt + 1).before
    seen_ns = row_queries.newest_event(snapshot, past_attempt.ended_ns) or past_attempt.ended_ns
    return msgspec.structs.replace(
        run,
        started_ns=past_attempt.began_ns,
        last_seen_ns=seen_ns,
        received_ns=seen_ns,
        world_size=max([len(processes), *(process.world_size for process in processes.values())]),
        state=past_attempt.state,
        processes=[processes[rank] for rank in sorted(processes)],
        rank_hosts=rank_hosts,
        lost_records=0,
        attempt=attempt,
        attempt_ns=past_attempt.began_ns if attempt > 1 else 0,
        earlier=[past for past in run.earlier if past.number < attempt],
    )


def _read_together(metrics: Sequence[str]) -> list[list[str]]:
    """Group metrics by query: means of the same source together, each other metric by itself."""
    groups: dict[tuple[str, str], list[str]] = {}
    for name in dict.fromkeys(metrics):
        metric = METRICS[name]
        groups.setdefault((metric.source, "" if metric.kind == "mean" else name), []).append(name)
    return list(groups.values())
