"""Checks of foreign times: an envelope's against the server's clock, its rows' against the envelope's.

Charts, rollups and windows iterate over time. For rows spread over years they would take hours.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from loaderwatch.core.clock import SECOND_NS
from loaderwatch.core.errors import WireError
from loaderwatch.core.facts import Loss
from loaderwatch.core.records import TIME_COLUMN
from loaderwatch.core.wire import ENVELOPE_S, MAX_ITEMS, Envelope, item_count
from loaderwatch.server.store import rows

ENVELOPES: Final = ((8192, 4.0), (2048, 2.0), (512, 1.0))
"""Sending interval in s above a number of ranks. Besides its rows, an envelope costs a request and a look."""
MISSED: Final = 2.5
"""Intervals by which a stream is behind after one missed envelope: sends vary, and large commits are slow."""


def envelope_s(world_size: int, *, stands: bool = False) -> float:
    """Return the interval in s at which a run's streams should send; half of it while a rank stands still.

    Envelopes then have few rows, and a standstill is recognized by span ages, which are as old as envelopes.
    """
    seconds = next((seconds for ranks, seconds in ENVELOPES if world_size > ranks), ENVELOPE_S)
    return max(ENVELOPE_S, seconds / 2) if stands else seconds


def behind_s(world_size: int, least_s: float) -> float:
    """Return by how many s a stream with a missed envelope is behind the newest one; at least ``least_s``."""
    return max(least_s, MISSED * envelope_s(world_size))


_DAY_NS: Final = 86400 * SECOND_NS
MOST_OFF_NS: Final = 2 * 365 * _DAY_NS
"""Largest distance of an envelope's time from our clock. Outboxes are days late, and clocks hours wrong."""
_WRITTEN_NS: Final = 1_767_225_600 * SECOND_NS
"""2026: a server whose clock is earlier has not been given the time yet, and accepts all times."""
OLDEST_NS: Final = 1_577_836_800 * SECOND_NS
"""2020, before any run that can be imported."""
BEFORE_NS: Final = 7 * _DAY_NS
"""How long before its envelope a row may have begun: a wait of days, or records that were read late."""
AFTER_NS: Final = _DAY_NS
"""How long after it: the clock was set back in between, as from local time to UTC."""
MOST_BUCKETS: Final = 30_000
"""Time buckets of 5 s that an envelope's rows may fall into. The longest drawn wait (28 h) fills 20,160."""
_FEW_NS: Final = 3600 * SECOND_NS
"""Rows within an hour fall into about 5,000 buckets at most, and are not counted."""
OUT_OF_TIME: Final = "time"
"""The ``Loss.what`` of rows left out because of their time."""


def in_time(envelope: Envelope, now_ns: int | None = None) -> Envelope:
    """Return an envelope without the rows whose time is far from its own; they count as its losses.

    Raises:
        WireError: the envelope's time is years off the clock, or its rows are spread over too much time.
    """
    now_ns = time.time_ns() if now_ns is None else now_ns
    check_clock("made_ns", (envelope.made_ns,), now_ns - MOST_OFF_NS, now_ns)
    started_ns = (process.started_ns for process in envelope.processes if process.started_ns)  # 0: unknown
    check_clock("processes", started_ns, OLDEST_NS, now_ns)
    first_ns, last_ns = envelope.made_ns - BEFORE_NS, envelope.made_ns + AFTER_NS
    kept: dict[str, dict[str, bytes]] = {}
    left_out = 0
    spread = False
    for name, table in envelope.tables.items():
        times = _column(table, TIME_COLUMN[name])
        if not len(times):
            continue
        low, high = times.min(), times.max()
        if low < first_ns or high > last_ns:
            near = (times >= first_ns) & (times <= last_ns)
            kept[name] = {column: _column(table, column)[near].tobytes() for column in table}
            left_out += len(near) - int(near.sum())
            low, high = first_ns, last_ns
        spread = spread or high - low > _FEW_NS or _longest_ns(name, table) > _FEW_NS
    if left_out:
        if item_count(envelope) >= MAX_ITEMS:
            raise WireError(
                "tables", f"{left_out} rows are of other days, and there is no room to count them"
            )
        lost = Loss(what=OUT_OF_TIME, rank=-1, count=left_out, t_ns=envelope.made_ns)
        envelope = msgspec.structs.replace(
            envelope, tables=envelope.tables | kept, losses=[*envelope.losses, lost]
        )
    if spread:
        _check_spread(envelope)
    return envelope


def check_clock(
    field: str, times_ns: Iterable[int], oldest_ns: int = OLDEST_NS, now_ns: int | None = None
) -> None:
    """Check that times are not years off the server's clock.

    Raises:
        WireError: one is; the error names the ``field``.
    """
    newest_ns = max(time.time_ns() if now_ns is None else now_ns, _WRITTEN_NS) + MOST_OFF_NS
    for t_ns in times_ns:
        if not oldest_ns <= t_ns <= newest_ns:
            raise WireError(
                field,
                f"{t_ns} ns is {_date(t_ns)}, years off this server's clock; set the clock of that host",
            )


def _date(t_ns: int) -> str:
    return str(np.datetime64(t_ns, "ns"))[:10]


def _column(table: dict[str, bytes], name: str) -> NDArray[np.int64]:
    return np.frombuffer(table[name], dtype="<i8")


def _longest_ns(name: str, table: dict[str, bytes]) -> int:
    """Return about how long the longest iteration in a table is; a long one falls into many buckets."""
    columns = {"steps": ("wait_ns", "step_ns"), "gpu_waits": ("starved_ns", "gpu_step_ns")}.get(name, ())
    return max((int(_column(table, column).max()) for column in columns), default=0)


def _check_spread(envelope: Envelope) -> None:
    tables: dict[str, dict[str, NDArray[Any]]] = {
        name: {column: _column(table, column) for column in table}
        for name, table in envelope.tables.items()
        if table[TIME_COLUMN[name]]
    }
    count = rows.count_buckets(tables)
    if count > MOST_BUCKETS:
        raise WireError(
            "tables", f"rows in {count} stretches of 5 s; those of one envelope may be in {MOST_BUCKETS}"
        )
