"""Export of the newest part of a stored run as a recording, to show it to somebody else, and for tests."""

from __future__ import annotations

from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from loaderwatch.core import wire
from loaderwatch.core.clock import END_OF_TIME_NS
from loaderwatch.core.records import TABLES, UNKNOWN
from loaderwatch.core.wire import Envelope
from loaderwatch.detect.window import Columns
from loaderwatch.server.live.replay import LONGEST_ROW_NS, ended_ns
from loaderwatch.server.recordings.recording import Recording
from loaderwatch.server.store.protocol import Store, StoredEvent, StoredRun

DEFAULT_LAST_S: Final = 600.0


def export(
    store: Store, run_id: str, last_s: float = DEFAULT_LAST_S, hang_after_s: float | None = None
) -> Recording:
    """Return the last ``last_s`` seconds of a stored run; each row goes with the first envelope made after it was recorded.

    ``hang_after_s`` is the limit by which the run was judged, None for the detectors' own.

    Raises:
        UnknownRun, StoreError: see ``Store``.
    """
    run = store.run(run_id)
    since_ns = run.last_seen_ns - int(last_s * 1e9)
    events = list(store.events(run_id, since_ns, END_OF_TIME_NS))
    parts = _Parts(run, events)
    for table in TABLES:
        # A row is stored under the time it began, and a wait that ended within the time may have begun long before.
        parts.take(
            table, store.scan(run_id, table, max(0, since_ns - LONGEST_ROW_NS), END_OF_TIME_NS), since_ns
        )
    return Recording(
        run_id=run_id,
        run_name=run.name,
        hang_after_s=hang_after_s,
        envelopes=[wire.encode(each) for each in parts.envelopes()],
    )


class _Parts:
    """The events as envelopes, and the rows that each envelope is to carry."""

    def __init__(self, run: StoredRun, events: list[StoredEvent]) -> None:
        self._run = run
        self._bodies = [event.body for event in events]
        self._tables: list[dict[str, dict[str, bytes]]] = [{} for _ in events]
        self._of_host: dict[str, list[int]] = {}
        for place, body in enumerate(self._bodies):
            self._of_host.setdefault(body.host.name, []).append(place)

    def take(self, table: str, columns: Columns, since_ns: int) -> None:
        """Give the rows of a table that ended at ``since_ns`` or later to the envelopes."""
        ended = ended_ns(table, columns)
        for host, places in self._of_host.items():
            mine = np.flatnonzero((ended >= since_ns) & self._is_of(host, columns))
            made = np.array([self._bodies[place].made_ns for place in places])
            # Rows that were recorded after the last event go with that one, so that none is left out.
            at = np.minimum(np.searchsorted(made, ended[mine]), len(places) - 1)
            for which in np.unique(at).tolist():
                self._tables[places[which]][table] = _packed(table, columns, mine[at == which])

    def _is_of(self, host: str, columns: Columns) -> NDArray[np.bool_]:
        if "host" in columns:
            return np.asarray(columns["host"] == host, dtype=np.bool_)
        ranks = [rank for rank, where in self._run.rank_hosts.items() if where == host]
        if len(self._of_host) == 1:
            ranks.append(UNKNOWN)  # the rank of a GPU that nobody uses
        return np.isin(columns["rank"], ranks)

    def envelopes(self) -> list[Envelope]:
        """Return the envelopes; the first of each host describes its processes and GPUs."""
        made = []
        introduced: set[str] = set()
        for number, (body, tables) in enumerate(zip(self._bodies, self._tables, strict=True), start=1):
            host = body.host.name
            more: dict[str, Any] = {"tables": tables, "stream": "export", "seq": number}
            if host not in introduced:
                introduced.add(host)
                known = {process.rank for process in body.processes}
                more["processes"] = [
                    *body.processes,
                    *(
                        msgspec.structs.replace(process, state="live", exit=None)
                        for process in self._run.processes
                        if self._run.rank_hosts.get(process.rank) == host and process.rank not in known
                    ),
                ]
                more["gpus"] = body.gpus or self._run.gpus.get(host, [])
            made.append(msgspec.structs.replace(body, **more))
        return made


def _packed(table: str, columns: Columns, rows: NDArray[np.intp]) -> dict[str, bytes]:
    return {
        column.name: columns[column.name][rows].astype("<i8" if column.dtype == "i8" else "<f8").tobytes()
        for column in TABLES[table]
    }
