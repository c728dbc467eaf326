"""The protocol of a store: what the server asks for, whichever database answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from loaderwatch.core.answers import Labels
from loaderwatch.core.clock import END_OF_TIME_NS
from loaderwatch.core.columns import Columns
from loaderwatch.core.errors import LoaderwatchError
from loaderwatch.core.facts import GpuInfo, HostInfo, Loss, ProcessInfo, ProcessState, ProfileStack
from loaderwatch.core.wire import Envelope
from loaderwatch.server.store.facts import Attempt, UnknownAttempt

MOST_EPOCH_ROWS: Final = 20_000
"""At most so many epochs, of all ranks together, are read at once. One takes about 100 bytes."""


class UnknownRun(LoaderwatchError):
    """No run with this id is stored."""

    def __init__(self, run_id: str) -> None:
        super().__init__(f"run {run_id[:80]!r} is not known here; `loaderwatch runs` lists those that are")
        self.run_id = run_id


class StoreError(LoaderwatchError):
    """The store cannot do this now, for example because the disk is full or another process has the file."""


class Behind(StoreError):
    """A run sends faster than its rows can be summed: its envelopes have to be sent again."""


class StoredRun(msgspec.Struct, frozen=True, kw_only=True):
    """What is known about a run without reading its rows.

    ``state`` is what the processes last reported: ``live``, ``finished`` or ``crashed``. The clock decides
    whether a live run is lost, see ``loaderwatch.server.live.summary.state_now``.
    """

    run_id: str
    name: str
    started_ns: int  # UTC
    last_seen_ns: int  # UTC of the newest envelope, by its host's clock
    received_ns: int  # UTC of the newest envelope, by this server's clock
    world_size: int
    hosts: list[HostInfo] = []
    state: ProcessState = "live"
    processes: list[ProcessInfo] = []  # by rank
    rank_hosts: dict[int, str] = {}
    gpus: dict[str, list[GpuInfo]] = {}  # by host
    lost_records: int = 0
    bytes: int = 0  # on disk
    attempt: int = 1  # the newest attempt's number; ``processes`` belong to it
    attempt_ns: int = 0  # UTC, when that attempt began; 0 for the first
    earlier: list[Attempt] = []  # earlier attempts, oldest first
    labels: Labels = Labels()

    @property
    def shown_name(self) -> str:
        """Return the name that a person gave the run, or else the script's name."""
        return self.labels.name or self.name

    def span_of(self, attempt: int | None) -> tuple[int, int]:
        """Return an attempt's span in ns UTC (None: the newest's); raise UnknownAttempt if there is none."""
        if attempt in (None, self.attempt):
            return self.attempt_ns, END_OF_TIME_NS
        for earlier in self.earlier:
            if earlier.number == attempt:
                return (earlier.began_ns if earlier.number > 1 else 0), earlier.ended_ns
        raise UnknownAttempt(attempt or 0, self.attempt)

    @property
    def steps(self) -> int | None:
        """Training steps of the furthest rank, as reported when processes ended; None if none has ended."""
        return max((process.steps for process in self.processes if process.steps is not None), default=None)


class StoredAlert(msgspec.Struct, frozen=True, kw_only=True):
    """An alert as the store keeps it. ``finding`` is a JSON object."""

    id: str
    finding: str
    state: str  # "firing" | "acknowledged" | "silenced" | "resolved"
    opened_ns: int
    updated_ns: int
    closed_ns: int | None = None
    silenced_until_ns: int | None = None


@dataclass(frozen=True)
class Series:
    """A metric over time: one value per bucket, ordered by time. Buckets without values are left out."""

    bucket_ns: int
    t_ns: NDArray[np.int64]  # where the buckets begin
    low: NDArray[np.float64]
    mean: NDArray[np.float64]
    high: NDArray[np.float64]


@dataclass(frozen=True)
class Grid:
    """A metric over time, a row per rank; NaN where a bucket has no value."""

    bucket_ns: int
    t_ns: NDArray[np.int64]
    ranks: NDArray[np.int64]
    values: NDArray[np.float64]  # (ranks, buckets)


@dataclass(frozen=True)
class RankTotals:
    """Sums of one rank over a whole run."""

    steps: int  # training steps
    batches: int  # batches of training loaders
    eval_batches: int
    wait_s: float  # by the loop's clock
    step_s: float
    epochs: int
    boundary_s: float  # iter() and teardown of every epoch; first waits are part of wait_s
    device_batches: int = 0  # batches of training loaders with a CUDA event
    starved_s: float = 0.0  # how long the device was idle for lack of these batches


@dataclass(frozen=True)
class PathTotals:
    """By table, the sum of what the slowest rank took in each iteration (epoch) of a run, and their number.

    The tables are ``steps`` (waits by the loop's clock), ``gpu_waits`` (times in which the device lacked
    data), ``epoch_begins`` (iter()) and ``epoch_ends`` (teardown).
    """

    by_table: dict[str, tuple[float, int]]  # seconds, and the number of iterations or epochs


@dataclass(frozen=True)
class StoredEvent:
    """The parts of an envelope that are not table rows: changed descriptions, spans, stacks, losses.

    ``body`` is an Envelope with only these parts. A WindowBuilder that takes it in restores them.
    """

    t_ns: int
    body: Envelope
    facts: bool = False  # a fact changed


@dataclass(frozen=True)
class Recall:
    """The recent past of a run, and sums over the time before it, all from one snapshot."""

    run: StoredRun
    totals: dict[int, RankTotals]
    path: PathTotals | None  # None for a run of one rank
    sequences: dict[str, list[tuple[int, int]]]  # by stream: stored sequence numbers, as inclusive intervals
    events: list[StoredEvent]
    tables: dict[str, Columns]  # ``hosts`` with the extra column ``host``
    profile_stacks: list[ProfileStack]  # the texts of the stacks that ``tables`` count


@dataclass(frozen=True)
class Recent:
    """The recent past of some ranks of a run, all from one snapshot. Fields are as in ``Recall``."""

    sequences: dict[str, list[tuple[int, int]]]
    tables: dict[str, Columns]
    profile_stacks: list[ProfileStack]


@dataclass(frozen=True)
class StoredProfile:
    """The counts of sampled stacks of one part of a training, and what they are shares of.

    ``counts`` are rows of the table ``profile`` without its loaders and workers. They are summed over time:
    ``t_ns`` is the last one. ``sample_s`` and ``batch_s`` are the average fetch per sample of the dataset and
    per batch, in seconds, for a profile of fetches. For one of steps, ``batch_s`` is a step's own work.
    ``loop_ratio`` is the share (0 to 1) of the loop's time that it waits for data, or works for itself. It is
    of the rank where that is largest.
    """

    counts: Columns
    texts: dict[int, str]  # by id of the stack
    first_ns: int | None  # when the first counts were taken, ns UTC
    sample_s: float | None
    batch_s: float | None
    loop_ratio: float | None


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """What an envelope carried besides rows."""

    facts: bool  # a fact changed
    body: bytes  # the envelope, without rows


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a run: rows by table and column, as in envelopes, and events in the order in which they came.

    ``counted`` has one byte per row of a table with that column. If it is missing, the store computes it.
    """

    tables: dict[str, dict[str, bytes]] = {}
    counted: dict[str, bytes] = {}
    hosts: list[str] = []  # one host name per row of ``hosts``
    events: list[Kept] = []
    profile_stacks: list[ProfileStack] = []  # texts of sampled stacks; a repeated one counts once


class Rest(msgspec.Struct, frozen=True, kw_only=True):
    """What is known about a run besides its parts. Times are ns UTC."""

    first_ns: int
    newest_ns: int
    received_ns: int
    sequences: dict[str, list[tuple[int, int]]]  # by stream: its envelopes' numbers, as inclusive intervals
    alerts: list[StoredAlert] = []
    labels: Labels = Labels()


class RunExists(LoaderwatchError):
    """A run that should be imported exists already."""

    def __init__(self, run_id: str) -> None:
        super().__init__(f"run {run_id} is there already")


class Arrival(Protocol):
    """A run that is being imported, invisible until ``finish`` returns. Use it from one thread at a time."""

    def add(self, part: Part) -> None:
        """Store a part.

        Raises:
            WireError: the part is damaged, or belongs to another run.
            StoreError: the disk or the database refuses.
        """

    def finish(self, rest: Rest) -> None:
        """Make the run visible in the store.

        Raises:
            RunExists: the run has meanwhile been stored by another way.
            StoreError
        """

    def give_up(self) -> None:
        """Remove what was stored so far. Call this after an error, too."""


class Store(Protocol):
    """Runs on disk. Every method may be called from any thread; ``append`` and ``delete`` from one at a time.

    Methods that name a run raise UnknownRun, or StoreError when it exists but cannot be read now.
    """

    commit_interval_s: float
    """Seconds between two commits. A longer interval costs less, as more envelopes share a commit."""
    shared: bool
    """Whether other servers may write to this store. People are then alerted only about what is stored."""

    def check(self) -> None:
        """Raise StoreError if the database does not answer an empty query."""

    def append(self, envelopes: Sequence[Envelope]) -> list[Envelope]:
        """Store envelopes of any runs; they are on disk on return. Return those that were not stored before.

        Storing is idempotent by (run_id, stream, seq). For each run, either all envelopes are stored or none.
        """

    def stored_seq(self, run_id: str, stream: str) -> int:
        """Return the highest sequence number stored for a stream; 0 if there is none, or no such run."""

    def runs(self) -> list[StoredRun]:
        """Return every run, newest first."""

    def run(self, run_id: str) -> StoredRun:
        """Return what is known about one run."""

    def arrive(self, run_id: str) -> Arrival:
        """Begin to import a run.

        Raises:
            RunExists: the run exists already.
            StoreError
        """

    def save_alerts(self, run_id: str, alerts: Sequence[StoredAlert]) -> None:
        """Insert or replace alerts by id."""

    def alerts(self, run_id: str) -> list[StoredAlert]:
        """Return every alert of a run, newest first."""

    def label(self, run_id: str, labels: Labels) -> None:
        """Replace the labels that people gave a run."""

    def delete(self, run_id: str) -> None:
        """Remove a run and its files."""

    def owns(self, run_id: str) -> bool:
        """Whether this server writes the run. Of several servers on a database, the run's owner writes it."""

    def tidy(self) -> None:
        """Do the housekeeping. The thread that appends calls this about once a second."""

    def close(self) -> None:
        """Flush and close every file."""

    def bounds(self, run_id: str) -> tuple[int, int]:
        """Return the first and last UTC nanosecond for which the run has rows."""

    def series(
        self, run_id: str, metric: str, rank: int | None, start_ns: int, end_ns: int, points: int
    ) -> Series:
        """Return a metric (see ``store.metrics``) over [start, end) in at most ``points`` buckets."""

    def several_series(
        self, run_id: str, metrics: Sequence[str], rank: int | None, start_ns: int, end_ns: int, points: int
    ) -> list[Series]:
        """Return several metrics in their order, all from one snapshot."""

    def grid(self, run_id: str, metric: str, start_ns: int, end_ns: int, points: int) -> Grid:
        """Return a metric over [start, end), a row per rank, in at most ``points`` buckets."""

    def epochs(self, run_id: str, rank: int | None, limit: int = MOST_EPOCH_ROWS) -> list[dict[str, Any]]:
        """Return the newest epochs, oldest first: columns of epoch_begins and epoch_ends, None if unknown."""

    def fetches(
        self, run_id: str, rank: int, start_ns: int, end_ns: int, limit: int, worker: int | None = None
    ) -> Columns:
        """Return the newest fetches of a worker (None: all) that overlap [start, end), ordered by time."""

    def phases(
        self, run_id: str, rank: int | None, names: Sequence[int], start_ns: int, end_ns: int, limit: int
    ) -> list[dict[str, Any]]:
        """Return the newest phases that overlap [start, end), oldest first; ``names`` index phase_names."""

    def slow_samples(self, run_id: str, rank: int | None, limit: int) -> list[dict[str, Any]]:
        """Return the slowest sample of each index, slowest first."""

    def profile(self, run_id: str, part: int, rank: int | None, start_ns: int, end_ns: int) -> StoredProfile:
        """Return the counts of sampled stacks of a ``ProfilePart`` that were taken in [start, end)."""

    def profile_stacks(self, run_id: str, start_ns: int, end_ns: int) -> list[ProfileStack]:
        """Return the texts of the stacks with counts in [start, end), ordered by id."""

    def all_profile_stacks(self, run_id: str) -> Iterator[ProfileStack]:
        """Yield the texts of all sampled stacks, ordered by id."""

    def totals(self, run_id: str) -> dict[int, RankTotals]:
        """Return sums over the whole run, by rank."""

    def losses(self, run_id: str) -> list[Loss]:
        """Return the records that were lost before they reached the store."""

    def recall(
        self, run_id: str, reach_ns: int, attempt: int | None = None, *, most_ranks: int | None = None
    ) -> Recall:
        """Return the last ``reach_ns`` of an attempt and all its epochs, for a server that takes over a run.

        ``attempt`` None is the newest one. An earlier one is returned as it was when it ended. If the run has
        more than ``most_ranks`` ranks, rows are left out, and only the newest events are returned.

        Raises:
            UnknownAttempt
        """

    def recent(self, run_id: str, reach_ns: int, ranks: Sequence[int], hosts: Sequence[str]) -> Recent:
        """Return the last ``reach_ns`` of the newest attempt and all its epochs, for some ranks and hosts."""

    def scan(self, run_id: str, table: str, start_ns: int, end_ns: int, *, counted: bool = False) -> Columns:
        """Return rows with start <= time < end, ordered by time; ``hosts`` has an extra column ``host``.

        ``counted`` adds the column of that name where the table has it: 1 for a row that counts as training.
        """

    def next_row(self, run_id: str, table: str, since_ns: int) -> int | None:
        """Return the time (ns UTC) of a table's first row at or after ``since_ns``; None if there is none."""

    def events(self, run_id: str, start_ns: int, end_ns: int) -> Iterator[StoredEvent]:
        """Yield what envelopes carried besides rows, ordered by time."""

    def all_events(self, run_id: str) -> Iterator[StoredEvent]:
        """Yield everything that envelopes carried besides rows, in the order in which it was stored."""

    def sequences(self, run_id: str) -> dict[str, list[tuple[int, int]]]:
        """Return which envelopes are stored: sequence numbers by stream, as inclusive intervals."""

    def facts(self, run_id: str, limit: int) -> Iterator[StoredEvent]:
        """Yield the newest ``limit`` events that changed a fact, in the order in which they were stored."""
