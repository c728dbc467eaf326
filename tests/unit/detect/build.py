"""Builds windows by hand: a rank's steps and fetches from a few numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from loaderwatch.core.answers import RunStatus, Verdict
from loaderwatch.core.facts import (
    Call,
    FailedSample,
    GpuInfo,
    HostInfo,
    LoaderInfo,
    PhaseName,
    ProcessInfo,
    ProcessState,
    SpanInfo,
    StackDump,
)
from loaderwatch.core.records import TABLES, TIME_COLUMN, UNKNOWN, EndedBy
from loaderwatch.detect.evidence import RunEvidence
from loaderwatch.detect.finding import Finding
from loaderwatch.detect.incidents.tracker import Incident
from loaderwatch.detect.incidents.verdict import verdict_of
from loaderwatch.detect.window import HostWindow, RankWindow, RunWindow
from loaderwatch.server.window.kept_stacks import PASSING

T0 = 1_800_000_000 * 10**9
S = 10**9
Row = dict[str, float | int]


def table(name: str, rows: Sequence[Mapping[str, float | int]]) -> dict[str, np.ndarray[Any, Any]]:
    """Rows as columns, in order of time; what a row does not name is unknown."""
    rows = sorted(rows, key=lambda row: row[TIME_COLUMN[name]])
    columns = {}
    for column in TABLES[name]:
        missing: float | int = UNKNOWN if column.dtype == "i8" else float("nan")
        kind = np.int64 if column.dtype == "i8" else np.float64
        columns[column.name] = np.array([row.get(column.name, missing) for row in rows], dtype=kind)
    return columns


def loader(**fields: Any) -> LoaderInfo:
    """A map-style training loader with two workers."""
    base: dict[str, Any] = {
        "loader": 0,
        "name": "train_loader",
        "role": "train",
        "class_name": "DataLoader",
        "batches": 1000,
        "batch_size": 8,
        "num_workers": 2,
        "prefetch_factor": 2,
        "iterable_dataset": False,
    }
    base.update(fields)
    if base["num_workers"] in (0, None):
        base["prefetch_factor"] = None
    return LoaderInfo(**base)


class RankBuilder:
    """Collects the rows of one rank; time runs forward as steps are added."""

    def __init__(
        self, rank: int = 0, world_size: int = 1, *, loaders: Sequence[LoaderInfo] | None = None
    ) -> None:
        self.rank, self.world_size = rank, world_size
        self.loaders = list(loaders if loaders is not None else [loader()])
        self.now_ns = T0
        self.rows: dict[str, list[Row]] = {name: [] for name in TABLES if name != "hosts"}
        self.batch: dict[int, int] = {}
        self.epoch: dict[int, int] = {}
        self.fetches: Counter[tuple[int, int]] = Counter()  # by loader and worker
        self.steps = 0
        self.span: SpanInfo | None = None
        self.workers: list[SpanInfo] = []
        self.workers_are_gone = False  # the newest envelope tells of none
        self.stacks: list[StackDump] = []
        self.state: ProcessState = "live"
        self.faults = 0  # of ours; the hooks are out when it is not 0
        self.phase_names: list[str] = []
        self.host = "box"
        self.cuda = False
        self.other_stream: bool | None = False
        self.terminal = False
        self.calls: list[Call] = []
        self.written = 0.0  # bytes, by the training process
        self.helpers: dict[str, float] = {}  # what is known of its other threads and its children
        self.exit: str | None = None
        self.failed: FailedSample | None = None
        self.has_model = False
        self.has_optimizer = False
        self.backend: str | None = None
        self.timeout_s: float | None = None

    def step(self, wait: float, step: float, *, loader: int = 0, **fields: float) -> RankBuilder:
        """One batch: its wait and its step, seconds."""
        batch = self.batch.get(loader, 0)
        row: Row = {
            "rank": self.rank,
            "loader": loader,
            "epoch": self.epoch.get(loader, 0),
            "batch": batch,
            "step": self.steps,
            "request_ns": self.now_ns,
            "wait_ns": int(wait * S),
            "wait_cpu_ns": int(min(wait, 0.001) * S),
            "ready": 0,
            "cached": 0,
            "awaited_worker": batch % max(1, self.loaders[0].num_workers or 1),
            "step_ns": int(step * S),
            "nested_ns": 0,
            "off_main_thread": 0,
        }
        row.update(fields)
        self.rows["steps"].append(row)
        self.batch[loader] = batch + 1
        self.steps += 1
        self.now_ns += int((wait + step) * S) + int(row["nested_ns"])
        return self

    def fetch(
        self, worker: int, seconds: float, *, cpu: float = 0.0, loader: int = 0, **fields: float
    ) -> RankBuilder:
        """A fetch that ends now."""
        row: Row = {
            "rank": self.rank,
            "loader": loader,
            "worker": worker,
            "ordinal": self.fetches[loader, worker],
            "request_ns": self.now_ns - int(seconds * S),
            "fetch_ns": int(seconds * S),
            "collate_ns": int(0.001 * S),
            "cpu_ns": int(seconds * cpu * S),
            "idle_ns": 0,
            "samples": 8,
            "slow_index": 7,
            "slow_ns": int(seconds / 8 * S),
            "bytes": 1_000_000,
        }
        row.update(fields)
        self.rows["fetches"].append(row)
        self.fetches[loader, worker] += 1
        return self

    def process(self, *, worker: int, pid: int, cpu: float, **fields: float) -> RankBuilder:
        """A reading of a process, now."""
        row: Row = {
            "rank": self.rank,
            "loader": 0,
            "worker": worker,
            "pid": pid,
            "t_ns": self.now_ns,
            "state": ord("S"),
            "cpu_ratio": cpu,
            "read_chars": 1000.0,
        }
        row.update(fields)
        self.rows["processes"].append(row)
        return self

    def add(self, table_name: str, /, **fields: float) -> RankBuilder:
        """Any other row, stamped now unless it says when."""
        self.rows[table_name].append({"rank": self.rank, TIME_COLUMN[table_name]: self.now_ns, **fields})
        return self

    def epoch_left(self, ended_by: EndedBy, *, in_iter: bool = False, loader: int = 0) -> RankBuilder:
        """End the current epoch as an error does; ``in_iter``: it was ``iter(loader)`` that raised."""
        epoch = self.epoch.get(loader, 0)
        began_ns = self.now_ns if in_iter else T0
        self.add("epoch_begins", loader=loader, epoch=epoch, request_ns=began_ns, iter_ns=S // 100)
        self.add(
            "epoch_ends",
            loader=loader,
            epoch=epoch,
            batches=self.batch.get(loader, 0),
            ended_by=ended_by,
            request_ns=self.now_ns,
            teardown_ns=S // 100,
        )
        return self

    def open(self, phase: PhaseName, age: float, **fields: Any) -> RankBuilder:
        """What the training process is doing now, since ``age`` seconds; time goes on by that much."""
        since_ns = self.now_ns
        self.now_ns += int(age * S)
        base: dict[str, Any] = {"loader": 0, "epoch": 0, "batch": self.batch.get(0, 0), "batches": self.steps}
        base.update(fields)
        self.span = SpanInfo(
            rank=self.rank, worker=-1, pid=100 + self.rank, phase=phase, since_ns=since_ns, **base
        )
        return self

    def worker(
        self, worker: int, phase: PhaseName, age: float, *, sample_age: float | None = None, **fields: Any
    ) -> RankBuilder:
        """What a worker is doing, since ``age`` seconds before now (call after ``open``)."""
        base: dict[str, Any] = {"loader": 0, "os_state": "S", "wchan": "poll_schedule_timeout"}
        base.update(fields)
        since = None if sample_age is None else self.now_ns - int(sample_age * S)
        base.setdefault("pid", 200 + 10 * self.rank + worker)
        self.workers.append(
            SpanInfo(
                rank=self.rank,
                worker=worker,
                phase=phase,
                since_ns=self.now_ns - int(age * S),
                sample_since_ns=since,
                **base,
            )
        )
        return self

    def stack(
        self,
        worker: int,
        pid: int,
        text: str,
        why: str = "",
        wchan: str | None = None,
        *,
        feeds: bool = False,
    ) -> RankBuilder:
        """A dump taken now."""
        dump = StackDump(
            rank=self.rank,
            worker=worker,
            pid=pid,
            taken_ns=self.now_ns,
            text=text,
            why=why,
            wchan=wchan,
            feeds=feeds,
        )
        self.stacks.append(dump)
        return self

    def half_a_minute(
        self,
        *,
        cpu: float = 0.0,
        switches_per_s: float = 0.0,
        written_per_s: float = 0.0,
        timer_wait: float = 0.0,
    ) -> RankBuilder:
        """Time goes on; what the training process does of it, and how often it gives up its CPU."""
        for second in range(31):
            self.now_ns += S if second else 0
            self.written += written_per_s if second else 0.0
            woken = second * switches_per_s
            self.process(
                worker=-1,
                pid=100 + self.rank,
                cpu=cpu,
                voluntary_switches=woken,
                written_chars=self.written,
                **self.helpers,
                timer_wait=timer_wait,
            )
        return self

    def build(self) -> RankWindow:
        """The rank's window."""
        return RankWindow(
            rank=self.rank,
            host=self.host,
            made_ns=self.now_ns,
            process=ProcessInfo(
                pid=100 + self.rank,
                rank=self.rank,
                local_rank=self.rank,
                world_size=self.world_size,
                started_ns=T0 - 10 * S,
                state=self.state,
                loaders=self.loaders,
                phase_names=self.phase_names,
                cuda=self.cuda,
                other_stream=self.other_stream,
                terminal=self.terminal,
                calls=self.calls,
                exit=self.exit,
                failed=self.failed,
                faults=self.faults,
                tripped=self.faults > 0,
                has_model=self.has_model,
                has_optimizer=self.has_optimizer,
                backend=self.backend,
                collective_timeout_s=self.timeout_s,
            ),
            span=self.span,
            workers=[] if self.workers_are_gone else self.workers,
            tables={name: table(name, rows) for name, rows in self.rows.items()},
            stacks=self.stacks,
            passing_stacks={why: [dump for dump in self.stacks if dump.why == why] for why in PASSING},
            last_workers=self.workers,
        )


def verdict_now(window: RunWindow, findings: Sequence[Finding], state: RunStatus = "live") -> Verdict:
    """The first report if each finding is an open incident, with its key as the id."""
    incidents = [
        Incident(id=finding.key, key=finding.key, finding=finding, opened_ns=T0, updated_ns=T0)
        for finding in findings
    ]
    return verdict_of(state, lambda: RunEvidence(window), incidents)


def run(
    *ranks: RankBuilder,
    cpus: int = 16,
    usable: float | None = None,
    busy: float = 0.1,
    gpus: Sequence[GpuInfo] = (),
    host: Mapping[str, float] | None = None,
    host_rows: Sequence[Mapping[str, float]] | None = None,
) -> RunWindow:
    """A run on one host. ``busy`` is the share of all CPUs in use; ``host`` gives more columns for every row.

    ``host_rows`` are the newest rows, one a second, with what changes from row to row.
    """
    built = {rank.rank: rank.build() for rank in ranks}
    now_ns = max(rank.made_ns for rank in built.values())
    changing: Sequence[Mapping[str, float]] = host_rows if host_rows is not None else [{}] * 5
    rows = [
        {
            "t_ns": now_ns - (len(changing) - i) * S,
            "cpu_ratio": busy,
            "usable_cpus": float(usable or cpus),
            **(host or {}),
            **more,
        }
        for i, more in enumerate(changing)
    ]
    hosts = {
        name: HostWindow(
            info=HostInfo(name=name, cpus=cpus, usable_cpus=usable),
            made_ns=now_ns,
            hosts=table("hosts", rows),
            gpus=list(gpus),
        )
        for name in {rank.host for rank in built.values()}
    }
    return RunWindow(
        run_id="run",
        run_name="train.py",
        now_ns=now_ns,
        span_s=120.0,
        started_ns=T0 - 10 * S,
        ranks=built,
        hosts=hosts,
    )


def keeps_up(rank: int = 0, world: int = 1, **fields: object) -> RankBuilder:
    """A rank whose two workers keep up, with batches of 10 MB."""
    builder = RankBuilder(rank, world, loaders=[loader(**fields)])
    for number in range(100):
        builder.fetch(number % 2, 0.02, bytes=10 * 1000 * 1000)
        builder.step(0.001, 0.05)
    return builder


def of_scenario(findings: list[Finding], scenario: str) -> Finding | None:
    """The one finding of a scenario."""
    found = [finding for finding in findings if finding.scenario == scenario]
    assert len(found) <= 1
    return found[0] if found else None
