"""The window: the recent past of a run that detectors look at.

It is immutable. The server builds it live, and ``loaderwatch analyze`` builds it from files.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from loaderwatch.core.columns import Columns
from loaderwatch.core.facts import GpuInfo, GpuState, HostInfo, LoaderInfo, ProcessInfo, SpanInfo, StackDump
from loaderwatch.core.records import TABLES, UNKNOWN
from loaderwatch.core.threshold import threshold
from loaderwatch.detect.device_clock import by_device
from loaderwatch.detect.loader_history import Course
from loaderwatch.detect.nested_evaluation import steps_apart

WINDOW_S: Final = threshold(
    120.0, "s", "chosen: the recent past that detectors look at and learn the limits of a hang from"
)


def empty_columns(table: str) -> dict[str, NDArray[Any]]:
    """Return the columns of a table without rows, each of shape (0,)."""
    return {c.name: np.empty(0, dtype=np.int64 if c.dtype == "i8" else np.float64) for c in TABLES[table]}


def seconds(values: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return nanoseconds as seconds, in the same shape; NaN where unknown."""
    result: NDArray[np.float64] = np.where(values == UNKNOWN, np.nan, values / 1e9)
    return result


def between_s(steps: Columns) -> NDArray[np.float64]:
    """Return the seconds from each delivery to the next request, shape (steps,); NaN where unknown.

    This includes the loader's own step and the time that other loaders take within it.
    """
    return seconds(steps["step_ns"]) + np.nan_to_num(seconds(steps["nested_ns"]))


def first_at(times: NDArray[np.int64], ns: int) -> int:
    """Return the index of the first row at or after the time ``ns``, of rows ordered by time.

    It avoids ``searchsorted``, which releases the interpreter's lock. With a thousand ranks it would wait a
    thousand times for that lock, behind the threads that store data and answer requests.
    """
    return bisect_left(times.data, ns)


def distinct(values: NDArray[np.int64]) -> list[int]:
    """Return the values in order, each once. It avoids ``np.unique``, which also releases the lock."""
    return sorted(set(values.data))


def one_of(values: NDArray[np.int64], numbers: Sequence[int]) -> NDArray[np.bool_]:
    """Return which values are among the numbers, in the shape of the values.

    For the one or two loaders of a rank it takes a tenth of the time of ``np.isin``.
    """
    result = np.zeros(values.size, dtype=bool)
    for number in numbers:
        result |= values == number
    return result


@dataclass(frozen=True)
class RankWindow:
    """The recent past of one rank.

    ``made_ns``: when the newest envelope was made, ns UTC by the clock of the rank's own host. The age of an
    open span is ``made_ns - since_ns``, so a late server or network never looks like a stuck process.
    """

    rank: int
    host: str
    made_ns: int
    process: ProcessInfo
    span: SpanInfo | None
    workers: list[SpanInfo]  # every DataLoader worker of this rank that is live, or dead but still held
    tables: Mapping[str, Columns]  # every rank-keyed table of records.TABLES, rows of this rank only
    # Of LEARNED_FROM: the last ``WINDOW_S`` that had rows.
    history: Mapping[str, Columns] = field(default_factory=dict)
    stacks: list[StackDump] = field(default_factory=list)  # the newest of each process
    # Stacks of short repeated phases, by the reason why they were taken, oldest first.
    passing_stacks: Mapping[str, list[StackDump]] = field(default_factory=dict)
    profile_texts: Mapping[int, str] = field(default_factory=dict)  # by id, of the table "profile"
    last_workers: list[SpanInfo] = field(default_factory=list)  # as last reported; a crash leaves only these
    rebuilt: frozenset[tuple[int, int]] = frozenset()  # (loader, epoch) that a newly built loader began
    courses: Mapping[int, Course] = field(default_factory=dict)  # by training loader, rebuilt ones as one

    def table(self, name: str) -> Columns:
        """Return the rank's rows of a table; a table without rows if there are none."""
        return self.tables.get(name) or empty_columns(name)

    def loader(self, number: int | None) -> LoaderInfo | None:
        """Return how a loader of the rank is configured; None if no loader has the number."""
        return next((info for info in self.process.loaders if info.loader == number), None)

    def past(self, name: str) -> Columns:
        """Return the rows that show what is usual, however old they are."""
        return self.history.get(name) or self.table(name)

    @cached_property
    def clocked_steps(self) -> Columns:
        """Return the table ``steps`` by the device's clock if known, else as the loop recorded it."""
        return by_device(self.table("steps"), self.table("gpu_waits"))

    @cached_property
    def steps(self) -> Columns:
        """Return ``clocked_steps`` as the model sees them: training steps without the evaluation inside."""
        return steps_apart(
            self.process.loaders,
            self.clocked_steps,
            self.table("epoch_begins"),
            self.table("epoch_ends"),
        )


class SummedRank(NamedTuple):
    """A rank of a large run without rows: sums of the last half minute (``server.window.recent_sums``)."""

    rank: int
    host: str
    made_ns: int
    process: ProcessInfo
    span: SpanInfo | None
    gpu: int | None
    covered_s: float
    batches: float
    steps_per_s: float  # NaN before there was anything to count
    waited_s: float
    worked_s: float
    forward_s: float  # part of worked_s in the forward pass; 0 if no phases are known
    backward_s: float  # part of worked_s in the backward pass; 0 if no phases are known
    by_device: bool
    utilization_ratio: float  # NaN if unknown

    @property
    def wait_ratio(self) -> float:
        """Return the data wait, 0 to 1; NaN before there was anything."""
        used_s = self.waited_s + self.worked_s
        return self.waited_s / used_s if used_s > 0 else math.nan


@dataclass(frozen=True)
class HostWindow:
    """The recent past of one host."""

    info: HostInfo
    made_ns: int
    hosts: Columns  # rows of the table "hosts"
    gpus: list[GpuInfo] = field(default_factory=list)
    gpu_states: list[GpuState] = field(default_factory=list)
    looked_ns: int | None = None  # when ``gpu_states`` were read

    @property
    def usable_cpus(self) -> float:
        """Return the CPUs that training may use on the host: min(affinity, control group's quota).

        Every finding counts with this number. It is the newest measured one, else the one that the host
        reported, else all CPUs of the host.
        """
        measured = self.hosts["usable_cpus"]
        measured = measured[np.isfinite(measured)]
        return float(measured[-1]) if measured.size else float(self.info.usable_cpus or self.info.cpus)

    def newest(self, column: str) -> float:
        """Return the newest known value of a column of the table "hosts"; NaN if there is none."""
        values = self.hosts[column]
        values = values[np.isfinite(values)]
        return float(values[-1]) if values.size else math.nan


@dataclass(frozen=True)
class RunWindow:
    """The recent past of a run.

    ``ranks``: all ranks; in a large run those that stand out and a sample (``server.window.detailed_hosts``).
    Detectors look at them. ``summed``: the other ranks. ``now_ns``: the newest ``made_ns``. ``span_s``: how
    far back the tables reach, ``WINDOW_S`` when live. The tables ``epoch_begins`` and ``epoch_ends`` are
    small and should cover the whole run (the newest few hundred epochs of a rank), because an epoch often
    lasts longer than a window.
    """

    run_id: str
    run_name: str
    now_ns: int
    span_s: float
    started_ns: int
    ranks: Mapping[int, RankWindow]
    hosts: Mapping[str, HostWindow]
    attempt: int = 1  # number of the attempt; the window holds nothing of earlier attempts
    attempt_ns: int = 0  # when the attempt began, UTC; 0 for the first one
    summed: Mapping[int, SummedRank] = field(default_factory=dict)

    @cached_property
    def world_size(self) -> int:
        """Return the number of ranks of the run, including ranks that never reported."""
        known = len(self.ranks) + len(self.summed)
        return max([known, *(rank.process.world_size for rank in self.ranks.values())])

    def standing_for(self, ranks: Sequence[int]) -> list[int]:
        """Return all ranks of the run if ``ranks`` are all that have rows, else only ``ranks``."""
        return sorted([*ranks, *self.summed]) if len(ranks) == len(self.ranks) else list(ranks)

    @cached_property
    def ranks_by_host(self) -> Mapping[str, list[RankWindow]]:
        """Return the ranks of each host, by host name, in the order of ``ranks``."""
        by_host: dict[str, list[RankWindow]] = {}
        for rank in self.ranks.values():
            by_host.setdefault(rank.host, []).append(rank)
        return by_host
