"""The window, which is what detectors look at.

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
    120.0, "s", "chosen: the recent past that detectors look at, and from which limits of a hang are learned"
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

    They hold the loader's own step and what other loaders take of that time.
    """
    return seconds(steps["step_ns"]) + np.nan_to_num(seconds(steps["nested_ns"]))


def first_at(times: NDArray[np.int64], ns: int) -> int:
    """Return the index of the first row at or after the time ``ns``, of rows ordered by time.

    ``searchsorted`` is not used: it releases the interpreter's lock each time, and with the rows of a
    thousand ranks waits for it a thousand times behind the threads that store and answer.
    """
    return bisect_left(times.data, ns)


def distinct(values: NDArray[np.int64]) -> list[int]:
    """Return the values in order, each once. ``np.unique`` is not used: it releases that lock, too."""
    return sorted(set(values.data))


def one_of(values: NDArray[np.int64], numbers: Sequence[int]) -> NDArray[np.bool_]:
    """Return which values are among the numbers, in the shape of the values.

    It does what ``np.isin`` does, in a tenth of the time for the one or two loaders of a rank.
    """
    result = np.zeros(values.size, dtype=bool)
    for number in numbers:
        result |= values == number
    return result


@dataclass(frozen=True)
class RankWindow:
    """The recent past of one rank.

    ``made_ns`` is when the newest envelope was made, in ns UTC by the clock of the rank's own host: the age
    of an open span is ``made_ns - since_ns``, so a late server or network never looks like a training process
    that is stuck.
    """

    rank: int
    host: str
    made_ns: int
    process: ProcessInfo
    span: SpanInfo | None
    workers: list[SpanInfo]  # every live or dead-but-held DataLoader worker of this rank
    tables: Mapping[str, Columns]  # every rank-keyed table of records.TABLES, rows of this rank only
    history: Mapping[str, Columns] = field(
        default_factory=dict
    )  # of LEARNED_FROM the last ``WINDOW_S`` in which there were rows
    stacks: list[StackDump] = field(default_factory=list)  # the newest of each process
    passing_stacks: Mapping[str, list[StackDump]] = field(
        default_factory=dict
    )  # by why they were taken, of what is over in a moment and comes again, oldest first
    last_workers: list[SpanInfo] = field(default_factory=list)  # as last reported; a crash leaves only these
    rebuilt: frozenset[tuple[int, int]] = frozenset()  # (loader, epoch) that a newly built loader began
    courses: Mapping[int, Course] = field(default_factory=dict)  # by training loader, rebuilt ones as one

    def table(self, name: str) -> Columns:
        """Return the rank's rows of a table; a table without rows if there are none."""
        return self.tables.get(name) or empty_columns(name)

    def loader(self, number: int | None) -> LoaderInfo | None:
        """Return how a loader of the rank is configured; None where the number names none."""
        return next((info for info in self.process.loaders if info.loader == number), None)

    def past(self, name: str) -> Columns:
        """Return the rows that tell what is usual, however long none has come since."""
        return self.history.get(name) or self.table(name)

    @cached_property
    def clocked_steps(self) -> Columns:
        """Return the table ``steps`` by the device's clock where it is known, else as the loop recorded it."""
        return by_device(self.table("steps"), self.table("gpu_waits"))

    @cached_property
    def steps(self) -> Columns:
        """Return these steps as the model sees them: training steps without the evaluation in them."""
        return steps_apart(
            self.process.loaders,
            self.clocked_steps,
            self.table("epoch_begins"),
            self.table("epoch_ends"),
        )


class SummedRank(NamedTuple):
    """A rank of a large run of which no rows are at hand, but sums of the last half minute (``server.window.recent_sums``)."""

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
    forward_s: float  # the part of worked_s in the forward pass, and in the backward pass; 0 where no phases are known
    backward_s: float
    by_device: bool
    utilization_ratio: float  # NaN where it is not known

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
    looked_ns: int | None = None  # when these were

    @property
    def usable_cpus(self) -> float:
        """Return the CPUs that training may use on the host: min(affinity, control group's quota).

        Every sentence of a finding counts with this number. It is the one measured last, else the one that
        the host reported of itself; all of its CPUs where no limit is known.
        """
        measured = self.hosts["usable_cpus"]
        measured = measured[np.isfinite(measured)]
        return float(measured[-1]) if measured.size else float(self.info.usable_cpus or self.info.cpus)

    def newest(self, column: str) -> float:
        """Return the newest known value of a column of the table "hosts"; NaN where there is none."""
        values = self.hosts[column]
        values = values[np.isfinite(values)]
        return float(values[-1]) if values.size else math.nan


@dataclass(frozen=True)
class RunWindow:
    """The recent past of a run.

    ``ranks`` are all of its ranks, or of a large run those that stand out and a sample of the others (``server.window.detailed_hosts``);
    ``summed`` are the rest. Detectors look at ``ranks``.
    ``now_ns`` is the newest ``made_ns``. ``span_s`` says how far back the tables reach: ``WINDOW_S`` when
    live. The tables ``epoch_begins`` and ``epoch_ends`` are small and should reach over the whole run (the
    newest few hundred epochs of a rank), because an epoch is often longer than any window.
    """

    run_id: str
    run_name: str
    now_ns: int
    span_s: float
    started_ns: int
    ranks: Mapping[int, RankWindow]
    hosts: Mapping[str, HostWindow]
    attempt: int = 1  # its number; nothing of an earlier attempt is in the window
    attempt_ns: int = 0  # when the attempt began, UTC; 0 for the first one
    summed: Mapping[int, SummedRank] = field(default_factory=dict)

    @cached_property
    def world_size(self) -> int:
        """Return how many ranks the run has, including those of which nothing was heard."""
        known = len(self.ranks) + len(self.summed)
        return max([known, *(rank.process.world_size for rank in self.ranks.values())])

    def standing_for(self, ranks: Sequence[int]) -> list[int]:
        """Return for which ranks some stand: for all of the run where they are all that are looked at, else for themselves."""
        return sorted([*ranks, *self.summed]) if len(ranks) == len(self.ranks) else list(ranks)

    @cached_property
    def ranks_by_host(self) -> Mapping[str, list[RankWindow]]:
        """Return the ranks of each host by its name, in the order of ``ranks``."""
        found: dict[str, list[RankWindow]] = {}
        for rank in self.ranks.values():
            found.setdefault(rank.host, []).append(rank)
        return found
