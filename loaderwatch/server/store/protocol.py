"""What the server asks of a store, as meanings; DuckDB is one way to answer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from loaderwatch.core.errors import LoaderwatchError
from loaderwatch.core.wire import Envelope, GpuInfo, HostInfo, Loss, ProcessInfo
from loaderwatch.detect.window import Columns
from loaderwatch.server.store.attempts import Attempt, UnknownAttempt

_END_NS: Final = 2**62


class UnknownRun(LoaderwatchError):
    """No run of this id is stored."""

    def __init__(self, run_id: str) -> None:
        super().__init__(f"run {run_id[:80]!r} is not known here; `loaderwatch runs` lists those that are")
        self.run_id = run_id


class StoreError(LoaderwatchError):
    """The store cannot do what was asked now: a full disk, a file another process holds."""


class StoredRun(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a run without reading its rows.

    ``state`` is what the processes last said: ``live``, ``finished`` or ``crashed``; whether a live one is lost is a
    question of the clock, see ``loaderwatch.server.live.summary.state_now``.
    """

    run_id: str
    name: str
    started_ns: int  # UTC
    last_seen_ns: int  # UTC of the newest envelope, by its host's clock
    received_ns: int  # UTC of the newest envelope, by this server's clock
    world_size: int
    hosts: list[HostInfo] = []
    state: str = "live"
    processes: list[ProcessInfo] = []  # by rank
    rank_hosts: dict[int, str] = {}
    gpus: dict[str, list[GpuInfo]] = {}  # by host
    lost_records: int = 0
    bytes: int = 0  # on disk
    attempt: int = 1  # the newest, whose processes these are
    attempt_ns: int = 0  # UTC, when it began; 0 for the first
    earlier: list[Attempt] = []  # attempts, oldest first

    def span_of(self, attempt: int | None) -> tuple[int, int]:
        """From when to when an attempt was, UTC; None: the newest.

        Raises:
            UnknownAttempt
        """
        if attempt in (None, self.attempt):
            return self.attempt_ns, _END_NS
        for one in self.earlier:
            if one.number == attempt:
                return (one.began_ns if one.number > 1 else 0), one.ended_ns
        raise UnknownAttempt(attempt or 0, self.attempt)

    @property
    def steps(self) -> int | None:
        """Training steps, of the rank that is furthest, as the processes said when they ended; None if none did yet."""
        return max((process.steps for process in self.processes if process.steps is not None), default=None)


class StoredAlert(msgspec.Struct, frozen=True, kw_only=True):
    """An alert as it is kept. ``finding`` is a JSON object."""

    id: str
    finding: str
    state: str  # "firing" | "acknowledged" | "silenced" | "resolved"
    opened_ns: int
    updated_ns: int
    closed_ns: int | None = None
    silenced_until_ns: int | None = None


@dataclass(frozen=True)
class Series:
    """A metric in time: one value per bucket that has any, ordered by time."""

    bucket_ns: int
    t_ns: NDArray[np.int64]  # where the buckets begin
    low: NDArray[np.float64]
    mean: NDArray[np.float64]
    high: NDArray[np.float64]


@dataclass(frozen=True)
class Grid:
    """A metric in time, a row per rank; NaN where a bucket has no value."""

    bucket_ns: int
    t_ns: NDArray[np.int64]
    ranks: NDArray[np.int64]
    values: NDArray[np.float64]  # (ranks, buckets)


@dataclass(frozen=True)
class RankTotals:
    """Sums over a whole run of one rank."""

    steps: int  # of the training
    batches: int  # of training loaders
    eval_batches: int
    wait_s: float
    step_s: float
    epochs: int
    boundary_s: float  # iter() and teardown of every epoch; first waits are part of wait_s
    first_ns: int
    last_ns: int


@dataclass(frozen=True)
class StoredEvent:
    """Something that is not a row of a table: infos that changed, spans, stacks, losses.

    ``body`` is an Envelope with only those parts filled; feeding it to a WindowBuilder reproduces them.
    """

    t_ns: int
    body: Envelope


@dataclass(frozen=True)
class Recall:
    """The recent past of a run, and what came before in sums; all of one moment."""

    run: StoredRun
    totals: dict[int, RankTotals]
    sequences: dict[str, list[tuple[int, int]]]  # by stream: sequence numbers stored, as inclusive intervals
    events: list[StoredEvent]
    tables: dict[str, Columns]  # ``hosts`` with the extra column ``host``


class Store(Protocol):
    """Runs on disk. Every method may be called from any thread; ``append`` and ``delete`` from one at a time.

    Methods that name a run raise UnknownRun, or StoreError when it exists but cannot be read now.
    """

    def append(self, envelopes: Sequence[Envelope]) -> list[Envelope]:
        """Store envelopes of any runs; on disk when it returns. Returns those that were not stored before.

        Idempotent by (run_id, stream, seq). All or nothing per run.
        """

    def stored_seq(self, run_id: str, stream: str) -> int:
        """The highest sequence number stored of a stream; 0 when there is none, or no such run."""

    def runs(self) -> list[StoredRun]:
        """Every run, newest first."""

    def run(self, run_id: str) -> StoredRun:
        """One run."""

    def save_alerts(self, run_id: str, alerts: Sequence[StoredAlert]) -> None:
        """Insert or replace alerts by id."""

    def alerts(self, run_id: str) -> list[StoredAlert]:
        """Every alert of a run, newest first."""

    def delete(self, run_id: str) -> None:
        """Remove a run and its files."""

    def retain(self, max_age_days: float | None, max_bytes: int | None, now_ns: int) -> list[str]:
        """Delete the oldest runs until limits hold; never one that was heard of within the last hour."""

    def tidy(self) -> None:
        """Housekeeping, called about once a second by the thread that appends."""

    def close(self) -> None:
        """Flush and let go of every file."""

    def bounds(self, run_id: str) -> tuple[int, int]:
        """First and last UTC nanosecond for which the run has rows."""

    def series(
        self, run_id: str, metric: str, rank: int | None, start_ns: int, end_ns: int, points: int
    ) -> Series:
        """A metric over [start, end) in at most ``points`` buckets; see ``store.metrics`` for names."""

    def several_series(
        self, run_id: str, metrics: Sequence[str], rank: int | None, start_ns: int, end_ns: int, points: int
    ) -> list[Series]:
        """The same of several metrics, in their order and all of one moment."""

    def grid(self, run_id: str, metric: str, start_ns: int, end_ns: int, points: int) -> Grid:
        """A metric over [start, end), a row per rank, in at most ``points`` buckets."""

    def epochs(self, run_id: str, rank: int | None) -> list[dict[str, Any]]:
        """Epochs, oldest first: columns of epoch_begins with those of the matching epoch_ends, ``None`` where unknown."""

    def fetches(self, run_id: str, rank: int, start_ns: int, end_ns: int, limit: int) -> Columns:
        """The newest ``limit`` fetches that overlap [start, end), ordered by time."""

    def slow_samples(self, run_id: str, rank: int | None, limit: int) -> list[dict[str, Any]]:
        """The slowest sample of each index, slowest first."""

    def totals(self, run_id: str) -> dict[int, RankTotals]:
        """Sums over the whole run, by rank."""

    def losses(self, run_id: str) -> list[Loss]:
        """Records that were lost before they reached the store."""

    def recall(self, run_id: str, reach_ns: int, attempt: int | None = None) -> Recall:
        """The last ``reach_ns`` of the newest attempt, of epochs all, for a server that begins where another stopped.

        With ``attempt`` an earlier one, as it was when it ended.

        Raises:
            UnknownAttempt
        """

    def scan(self, run_id: str, table: str, start_ns: int, end_ns: int) -> Columns:
        """Rows of a table with start <= time < end, ordered by time; ``hosts`` has an extra column ``host``."""

    def events(self, run_id: str, start_ns: int, end_ns: int) -> Iterator[StoredEvent]:
        """What envelopes carried besides rows, ordered by time."""
