"""Exports a stored run or its newest part as a recording: to show it to others, to move it, and for tests."""

from __future__ import annotations

import time
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from loaderwatch.core import wire
from loaderwatch.core.clock import END_OF_TIME_NS
from loaderwatch.core.columns import Columns
from loaderwatch.core.errors import LoaderwatchError
from loaderwatch.core.facts import ProfileStack
from loaderwatch.core.records import TABLES, UNKNOWN
from loaderwatch.core.wire import Envelope
from loaderwatch.server.live.summary import state_now
from loaderwatch.server.recordings.recording import Recording
from loaderwatch.server.store.protocol import Rest, Store, StoredEvent, StoredRun
from loaderwatch.server.window.replay import LONGEST_ROW_NS, ended_ns

DEFAULT_LAST_S: Final = 600.0
MOST_STORED: Final = 64 * 2**20
"""Bytes on disk of the largest run that is exported whole: two million rows, which take 300 MB of memory."""


class CannotExport(LoaderwatchError):
    """The run cannot be exported as a whole."""


def export(
    store: Store, run_id: str, last_s: float | None = DEFAULT_LAST_S, hang_after_s: float | None = None
) -> Recording:
    """Return the last ``last_s`` seconds of a stored run. Rows go with the first envelope made after them.

    Args:
        store: the run's store.
        run_id: the run's id.
        last_s: None for the whole run.
        hang_after_s: the limit by which the run was judged, None for the detectors' own.

    Raises:
        UnknownRun, StoreError: see ``Store``.
        CannotExport: a whole run still reports, or is too large.
    """
    run = store.run(run_id)
    whole = last_s is None
    if whole and state_now(run, time.time_ns()) == "live":
        raise CannotExport(f"run {run_id} still reports; export it as a whole when it is over")
    if whole and run.bytes > MOST_STORED:
        raise CannotExport(
            f"run {run_id} takes {run.bytes >> 20} MiB, and at most {MOST_STORED >> 20} MiB go into one "
            "file; `loaderwatch import` takes the .duckdb file of a run of any size"
        )
    since_ns = 0 if last_s is None else run.last_seen_ns - int(last_s * 1e9)
    sequences = store.sequences(run_id) if whole else {}
    events = list(store.all_events(run_id) if whole else store.events(run_id, since_ns, END_OF_TIME_NS))
    texts = (
        list(store.all_profile_stacks(run_id))
        if whole
        else store.profile_stacks(run_id, since_ns, END_OF_TIME_NS)
    )
    parts = _Parts(run, events, texts, whole=whole)
    for table in TABLES:
        # Rows are stored under their begin. A wait that ended in the range may have begun long before.
        begin_ns = max(0, since_ns - LONGEST_ROW_NS)
        parts.take(table, store.scan(run_id, table, begin_ns, END_OF_TIME_NS, counted=True), since_ns)
    first_ns, newest_ns = store.bounds(run_id)
    return Recording(
        run_id=run_id,
        run_name=run.name,
        hang_after_s=hang_after_s,
        envelopes=[wire.encode(envelope) for envelope in parts.envelopes()],
        counted=parts.counted,
        rest=Rest(
            first_ns=max(first_ns, since_ns),
            newest_ns=newest_ns,
            received_ns=run.received_ns,
            sequences=sequences,
            alerts=store.alerts(run_id),
            labels=run.labels,
        ),
    )


class _Parts:
    """The events as envelopes, and the rows and texts of sampled stacks that each envelope will carry."""

    def __init__(
        self, run: StoredRun, events: list[StoredEvent], texts: list[ProfileStack], *, whole: bool
    ) -> None:
        self._run = run
        self._whole = whole
        self._bodies = [event.body for event in events]
        self._tables: list[dict[str, dict[str, bytes]]] = [{} for _ in events]
        self._waiting_texts = {stack.id: stack for stack in texts}
        self._texts: list[list[ProfileStack]] = [[] for _ in events]
        self.counted: list[dict[str, bytes]] = [{} for _ in events]
        self._of_host: dict[str, list[int]] = {}
        for place, body in enumerate(self._bodies):
            self._of_host.setdefault(body.host.name, []).append(place)

    def take(self, table: str, columns: Columns, since_ns: int) -> None:
        """Distribute a table's rows that ended at ``since_ns`` or later over the envelopes."""
        ended = ended_ns(table, columns)
        remaining = ended >= since_ns
        for host, places in self._of_host.items():
            of_host = remaining & self._is_of(host, columns)
            self._give(table, columns, ended, np.flatnonzero(of_host), places)
            remaining &= ~of_host
        if self._whole and remaining.any():  # of ranks that moved to another host, or no longer exist
            self._give(table, columns, ended, np.flatnonzero(remaining), list(range(len(self._bodies))))

    def _give(
        self,
        table: str,
        columns: Columns,
        ended: NDArray[np.int64],
        rows: NDArray[np.intp],
        places: list[int],
    ) -> None:
        """Distribute rows over the envelopes at these places."""
        made_ns = np.maximum.accumulate([self._bodies[place].made_ns for place in places])
        # Rows that were recorded after the last event go with the last event, so that none is lost.
        envelope_index = np.minimum(np.searchsorted(made_ns, ended[rows]), len(places) - 1)
        for index in np.unique(envelope_index).tolist():
            picked, place = rows[envelope_index == index], places[index]
            old = self._tables[place].get(table, {})
            self._tables[place][table] = {
                name: old.get(name, b"") + data for name, data in _packed(table, columns, picked).items()
            }
            if table == "profile":  # each text goes with the first counts of its stack
                named = dict.fromkeys(columns["stack"][picked].tolist())
                waiting = self._waiting_texts
                self._texts[place] += [waiting.pop(number) for number in named if number in waiting]
            if "counted" in columns:
                counted = columns["counted"][picked].astype("<u1").tobytes()
                self.counted[place][table] = self.counted[place].get(table, b"") + counted

    def _is_of(self, host: str, columns: Columns) -> NDArray[np.bool_]:
        if "host" in columns:
            return np.asarray(columns["host"] == host, dtype=np.bool_)
        ranks = [rank for rank, rank_host in self._run.rank_hosts.items() if rank_host == host]
        if len(self._of_host) == 1:
            ranks.append(UNKNOWN)  # the rank of an unused GPU
        return np.isin(columns["rank"], ranks)

    def envelopes(self) -> list[Envelope]:
        """Return the envelopes. The first one of each host describes its processes and GPUs.

        The envelopes of a whole run keep their numbers, and their descriptions are not completed.
        """
        if self._whole:
            if self._texts:  # the last one takes the texts that no count names
                self._texts[-1] += self._waiting_texts.values()
            return [
                msgspec.structs.replace(body, tables=tables, profile_stacks=texts)
                for body, tables, texts in zip(self._bodies, self._tables, self._texts, strict=True)
            ]
        envelopes = []
        introduced: set[str] = set()
        for place, body in enumerate(self._bodies):
            host = body.host.name
            replaced: dict[str, Any] = {
                "tables": self._tables[place],
                "profile_stacks": self._texts[place],
                "stream": "export",
                "seq": place + 1,
            }
            if host not in introduced:
                introduced.add(host)
                described = {process.rank for process in body.processes}
                replaced["processes"] = [
                    *body.processes,
                    *(
                        msgspec.structs.replace(process, state="live", exit=None)
                        for process in self._run.processes
                        if self._run.rank_hosts.get(process.rank) == host and process.rank not in described
                    ),
                ]
                replaced["gpus"] = body.gpus or self._run.gpus.get(host, [])
            envelopes.append(msgspec.structs.replace(body, **replaced))
        return envelopes


def _packed(table: str, columns: Columns, rows: NDArray[np.intp]) -> dict[str, bytes]:
    return {
        column.name: columns[column.name][rows].astype("<i8" if column.dtype == "i8" else "<f8").tobytes()
        for column in TABLES[table]
    }
