"""Replays a stored run: all windows in order for ``loaderwatch analyze``, or the newest after a restart."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from loaderwatch.core.columns import Columns
from loaderwatch.core.facts import ProfileStack
from loaderwatch.core.records import TABLES, TIME_COLUMN, UNKNOWN
from loaderwatch.detect.window import WINDOW_S, RunWindow
from loaderwatch.server.store.protocol import Store, StoredEvent, StoredRun
from loaderwatch.server.window.builder import WindowBuilder
from loaderwatch.server.window.detailed_hosts import LARGE
from loaderwatch.server.window.recent_sums import SECONDS
from loaderwatch.server.window.recent_sums import TABLES as SUMMED_TABLES
from loaderwatch.server.window.row_buffer import Block, block_of_arrays

CHUNK_NS: Final = 20 * 10**9
REACH_NS: Final = int((WINDOW_S + 10) * 1e9)
"""How much of a run's past a window needs, with a margin."""
SUMMED_AT_ONCE_NS: Final = 4 * 10**9
"""Rows of all ranks are in memory for this many ns at once."""
LONGEST_ROW_NS: Final = 24 * 3600 * 10**9

ENDS_AFTER: Final[dict[str, tuple[str, ...]]] = {
    "steps": ("wait_ns", "step_ns"),
    "epoch_begins": ("iter_ns", "first_wait_ns"),
    "epoch_ends": ("teardown_ns",),
    "phases": ("duration_ns",),
    "fetches": ("fetch_ns",),
    "gpu_waits": ("starved_ns", "gpu_step_ns"),
    "collections": ("duration_ns",),
    "sample_timeouts": ("duration_ns",),
}
"""Columns whose sum is the time from a row's stamp to its recording. The live server had no row before."""

_Arrays = dict[str, NDArray[Any]]


def windows(
    store: Store, run_id: str, every_s: float = 1.0, attempt: int | None = None
) -> Iterator[RunWindow]:
    """Yield windows of an attempt (None: the newest), every ``every_s``, as the live server saw them.

    A row appears at the end of what it records. Open spans are from the newest kept envelope, one a second.

    Raises:
        UnknownRun, StoreError, UnknownAttempt: see ``Store``.
    """
    run = store.run(run_id)
    began_ns, ended_ns = run.span_of(attempt)
    first_ns, last_ns = store.bounds(run_id)
    first_ns, last_ns = max(first_ns, began_ns), min(last_ns, ended_ns - 1)
    every_ns = max(1, int(every_s * 1e9))
    builder = WindowBuilder(run_id)
    builder.facts.attempt, builder.facts.attempt_ns = attempt or run.attempt, began_ns
    _introduce(builder, store, run, (began_ns, ended_ns))
    rows = _Arrivals(store, run_id, first_ns, last_ns)
    events = store.events(run_id, began_ns, ended_ns)
    event = next(events, None)
    now_ns = first_ns
    while now_ns < last_ns:
        now_ns = min(now_ns + every_ns, last_ns)
        while event is not None and event.t_ns <= now_ns:
            builder.add_facts(event.body)
            event = next(events, None)
        arrived = list(rows.until(now_ns))
        builder.add_profile_texts(rows.take_texts())
        for table, columns in arrived:
            _feed(builder, table, columns, count=True)
        yield builder.window(now_ns)


def _introduce(builder: WindowBuilder, store: Store, run: StoredRun, span: tuple[int, int]) -> None:
    """Give the builder the first description of each process.

    Facts are stored with their envelope, but an outbox may have delivered older rows later.
    """
    wanted = {process.rank for process in run.processes}
    hosts = set(run.gpus)
    facts = builder.facts
    for event in store.events(run.run_id, *span):
        body = event.body
        facts.take(
            msgspec.structs.replace(
                body,
                final=False,
                processes=[
                    msgspec.structs.replace(process, state="live", exit=None)
                    for process in body.processes
                    if process.rank not in facts.processes and process.started_ns >= facts.attempt_ns
                ],
                gpus=[] if body.host.name in facts.gpus else body.gpus,
            )
        )
        if facts.processes.keys() >= wanted and facts.gpus.keys() >= hosts:
            break


def rebuild(store: Store, run_id: str, attempt: int | None = None) -> WindowBuilder:
    """Return a builder with the run's last minutes and totals, so that a restarted server continues.

    The builder knows the stored envelopes, so they may be added again. ``attempt`` selects an earlier
    attempt. A large run's newest attempt is looked at in part.

    Raises:
        UnknownRun, StoreError, UnknownAttempt
    """
    most_ranks = LARGE if attempt is None else None
    recall = store.recall(run_id, REACH_NS, attempt, most_ranks=most_ranks)
    builder = WindowBuilder(run_id, in_part=most_ranks is not None)
    builder.seed(recall.run, recall.totals, recall.sequences, recall.path)
    _add_events(builder, recall.events)
    builder.add_profile_texts(recall.profile_stacks)
    for table, columns in recall.tables.items():
        _feed(builder, table, columns, count=False)
    if builder.lacking()[0]:
        _sum_up(builder, store, recall.run.last_seen_ns)
    complete(builder, store)
    return builder


def _sum_up(builder: WindowBuilder, store: Store, until_ns: int) -> None:
    """Give a large run's builder the last half minute's sums of all ranks, a few seconds at a time."""
    for first_ns in range(until_ns - (SECONDS + 1) * 10**9, until_ns, SUMMED_AT_ONCE_NS):
        for table in SUMMED_TABLES:
            columns = store.scan(
                builder.run_id, table, first_ns, min(first_ns + SUMMED_AT_ONCE_NS, until_ns + 1)
            )
            for _, block, _ in _blocks(table, columns):
                builder.add_sums(table, block)


def complete(builder: WindowBuilder, store: Store) -> None:
    """Give a builder the past of the hosts that it now looks at in detail.

    Raises:
        UnknownRun, StoreError
    """
    ranks, hosts = builder.lacking()
    if ranks:
        recent = store.recent(builder.run_id, REACH_NS, ranks, hosts)
        blocks = [block for table, columns in recent.tables.items() for block in _blocks(table, columns)]
        builder.fill(blocks, recent.sequences)
        builder.add_profile_texts(recent.profile_stacks)


def _add_events(builder: WindowBuilder, events: list[StoredEvent]) -> None:
    for event in events:
        builder.add_facts(event.body, count=False)


def _feed(builder: WindowBuilder, table: str, columns: Columns, *, count: bool) -> None:
    for _, block, host in _blocks(table, columns):
        builder.add_rows(table, block, host, count=count)


def _blocks(table: str, columns: Columns) -> Iterator[tuple[str, Block, str]]:
    """Yield a table's rows in the builder's form, those of ``hosts`` by host."""
    if not len(columns[TIME_COLUMN[table]]):
        return
    if table != "hosts":
        yield table, block_of_arrays(table, columns), ""
        return
    names = columns["host"]
    for name in dict.fromkeys(names.tolist()):
        host_columns = {column.name: columns[column.name][names == name] for column in TABLES[table]}
        yield table, block_of_arrays(table, host_columns), name


class _Arrivals:
    """Rows in the order of their recording, read from the store in stretches."""

    def __init__(self, store: Store, run_id: str, first_ns: int, last_ns: int) -> None:
        self._store = store
        self._run_id = run_id
        self._read_until = first_ns
        self._last_ns = last_ns
        self._texts: list[ProfileStack] = []
        # Processes started before the streamer, so there are rows before the first envelope: an hour is read.
        self._waiting: dict[str, _Arrays] = {
            table: dict(store.scan(run_id, table, first_ns - 3600 * 10**9, first_ns)) for table in TABLES
        }

    def until(self, now_ns: int) -> Iterator[tuple[str, _Arrays]]:
        """Yield rows that were recorded by ``now_ns`` and are new."""
        while self._read_until <= now_ns:
            end = min(self._read_until + CHUNK_NS, self._last_ns + 1)
            if end <= self._read_until:
                break
            for table in TABLES:
                fresh = self._store.scan(self._run_id, table, self._read_until, end)
                if table == "profile" and len(fresh["t_ns"]):
                    self._texts += self._store.profile_stacks(self._run_id, self._read_until, end)
                waiting = self._waiting[table]
                self._waiting[table] = {
                    name: np.concatenate([waiting[name], fresh[name]]) for name in waiting
                }
            self._read_until = end
        for table, waiting in self._waiting.items():
            is_recorded = ended_ns(table, waiting) <= now_ns
            if is_recorded.any():
                yield table, {name: column[is_recorded] for name, column in waiting.items()}
                self._waiting[table] = {name: column[~is_recorded] for name, column in waiting.items()}

    def take_texts(self) -> list[ProfileStack]:
        """Return the texts of the sampled stacks in rows that were read since the last call."""
        texts, self._texts = self._texts, []
        return texts


def ended_ns(table: str, columns: Columns) -> NDArray[np.int64]:
    ended: NDArray[np.int64] = columns[TIME_COLUMN[table]].copy()
    for name in ENDS_AFTER.get(table, ()):
        ended += np.where(columns[name] == UNKNOWN, 0, np.minimum(columns[name], LONGEST_ROW_NS))
    return ended
