"""The window: what detectors look at. Immutable; built live by the server and from files by ``loaderwatch analyze``."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from loaderwatch.core.facts import GpuInfo, HostInfo, ProcessInfo, SpanInfo, StackDump
from loaderwatch.core.records import TABLES, UNKNOWN
from loaderwatch.detect.evaluation.nesting import steps_apart

WINDOW_S: Final = 120.0
"""How much recent past the detectors want to see."""

Columns: TypeAlias = Mapping[str, NDArray[Any]]
"""A table as arrays of equal length, ordered by time: int64 with ``UNKNOWN``, or float64 with NaN."""


def empty_columns(table: str) -> dict[str, NDArray[Any]]:
    """The table with no rows."""
    return {c.name: np.empty(0, dtype=np.int64 if c.dtype == "i8" else np.float64) for c in TABLES[table]}


def seconds(values: NDArray[np.int64]) -> NDArray[np.float64]:
    """Nanoseconds as seconds, NaN where unknown."""
    result: NDArray[np.float64] = np.where(values == UNKNOWN, np.nan, values / 1e9)
    return result


def between_s(steps: Columns) -> NDArray[np.float64]:
    """From each delivery to the next request, in seconds: the step and what other loaders have of it. NaN where unknown."""
    return seconds(steps["step_ns"]) + np.nan_to_num(seconds(steps["nested_ns"]))


def first_at(times: NDArray[np.int64], ns: int) -> int:
    """The first row at or after a time, of rows ordered by time.

    Not ``searchsorted``: it lets go of the interpreter's lock each time, and with the rows of a thousand ranks waits for
    it a thousand times behind the threads that store and answer.
    """
    return bisect_left(times.data, ns)


def distinct(values: NDArray[np.int64]) -> list[int]:
    """The values, each once, in order. ``np.unique`` lets go of the lock, too."""
    return sorted(set(values.data))


def one_of(values: NDArray[np.int64], numbers: Sequence[int]) -> NDArray[np.bool_]:
    """As ``np.isin``, a tenth of its time for the one or two loaders of a rank."""
    result = np.zeros(values.size, dtype=bool)
    for number in numbers:
        result |= values == number
    return result


@dataclass(frozen=True)
class RankWindow:
    """The recent past of one rank.

    ``made_ns`` is the rank's host's own time of the newest envelope: ages of open spans are ``made_ns - since_ns``, so
    a server or network that is late never looks like a training process that is stuck.
    """

    rank: int
    host: str
    made_ns: int
    process: ProcessInfo
    span: SpanInfo | None
    workers: list[SpanInfo]  # every live or dead-but-held DataLoader worker of this rank
    tables: Mapping[str, Columns]  # every rank-keyed table of records.TABLES, rows of this rank only
    stacks: list[StackDump] = field(default_factory=list)  # the newest of each process
    last_workers: list[SpanInfo] = field(default_factory=list)  # as last told of: what a crash leaves of them
    rebuilt: frozenset[tuple[int, int]] = frozenset()  # loader and epoch that a newly built loader began

    def table(self, name: str) -> Columns:
        """The rank's rows of a table; no rows if there are none."""
        return self.tables.get(name) or empty_columns(name)

    @cached_property
    def steps(self) -> Columns:
        """The table ``steps`` as the model sees it: evaluation is no part of the training step that it lies in."""
        return steps_apart(
            self.process.loaders,
            self.table("steps"),
            self.table("epoch_begins"),
            self.table("epoch_ends"),
        )


@dataclass(frozen=True)
class HostWindow:
    """The recent past of one host."""

    info: HostInfo
    made_ns: int
    hosts: Columns  # rows of the table "hosts"
    gpus: list[GpuInfo] = field(default_factory=list)

    @property
    def usable_cpus(self) -> float:
        """The CPUs that training may use here, min(affinity, control group's quota): what every sentence says and counts with.

        As measured last, else as the host told of itself; all of its CPUs where no limit is known.
        """
        measured = self.hosts["usable_cpus"]
        measured = measured[np.isfinite(measured)]
        return float(measured[-1]) if measured.size else float(self.info.usable_cpus or self.info.cpus)


@dataclass(frozen=True)
class RunWindow:
    """The recent past of a run, all ranks.

    ``now_ns`` is the newest ``made_ns``. ``span_s`` says how far back the tables reach: ``WINDOW_S`` when live. The
    tables ``epoch_begins`` and ``epoch_ends`` are small and better reach over the whole run (the newest few hundred
    epochs of a rank), because an epoch is often longer than any window.
    """

    run_id: str
    run_name: str
    now_ns: int
    span_s: float
    started_ns: int
    ranks: Mapping[int, RankWindow]
    hosts: Mapping[str, HostWindow]
    attempt: int = 1  # nothing in it is of an earlier one
    attempt_ns: int = 0  # when that began, 0 for the first

    @cached_property
    def world_size(self) -> int:
        """How many ranks the run has, those of which nothing was heard included."""
        return max([len(self.ranks), *(rank.process.world_size for rank in self.ranks.values())])

    @cached_property
    def ranks_by_host(self) -> Mapping[str, list[RankWindow]]:
        """The ranks of each host, in the order of ``ranks``."""
        found: dict[str, list[RankWindow]] = {}
        for rank in self.ranks.values():
            found.setdefault(rank.host, []).append(rank)
        return found
