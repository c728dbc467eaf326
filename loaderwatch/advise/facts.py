"""The facts of a configuration, at which the audit looks.

They are built from a live or recorded window, or by ``doctor``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from loaderwatch.core.facts import LoaderInfo, LoaderProbe, ProcessInfo, ScriptReport
from loaderwatch.core.records import UNKNOWN, IterKind
from loaderwatch.detect.measures.machine import read_per_s
from loaderwatch.detect.measures.rebuilt_loaders import joined
from loaderwatch.detect.measures.statistics import known, last, mean, quantile, ratio
from loaderwatch.detect.window import HostWindow, RankWindow, RunWindow, between_s, seconds

MEASURED_STEPS = 20
"""How many steps tell the steady state; fewer say nothing about it."""


@dataclass(frozen=True, slots=True)
class HostFacts:
    """A machine as its training processes see it. Numbers are NaN where not known."""

    name: str
    cpus: int
    usable_cpus: float = math.nan  # min(affinity, cgroup quota)
    quota_cpus: float = math.nan
    shm_bytes: float = math.nan
    shm_used_bytes: float = 0.0  # by others than this run's batches
    has_gpu: bool = False


@dataclass(frozen=True, slots=True)
class LoaderFacts:
    """One loader of one rank: its configuration and, where known, how it does. Numbers are NaN where not."""

    rank: int
    host: str
    info: LoaderInfo
    fetch_s: float = math.nan  # mean, reading and collating a batch
    fetch_tail_s: float = math.nan  # its 99.9th percentile, without the one worst sample of the dataset
    fetch_cpu_ratio: float = math.nan  # share of a fetch that computes
    batch_bytes: float = math.nan
    read_bytes: float = math.nan  # mean, read for a batch from files or sockets
    step_s: float = math.nan
    first_wait_s: float = math.nan  # the longest first wait of an epoch
    starts: int = 0  # epochs that started workers anew, the first one left out
    start_s: float = math.nan  # mean until their first batch
    rebuilt: int = 0  # of those epochs, how many a newly built loader began
    epoch_s: float = math.nan  # mean length of an epoch
    worker_threads: float = math.nan  # the most that a worker has
    worker_cpu_ratio: float = math.nan  # of one core, the mean over busy workers
    probe: LoaderProbe | None = None
    made_at: str | None = None  # "train.py:38"

    @property
    def workers(self) -> int:
        """Return the number of worker processes; 0 for loaders that have no such notion."""
        return self.info.num_workers or 0

    @property
    def trains(self) -> bool:
        """Whether its batches train the model."""
        return self.info.role == "train"

    @property
    def in_flight(self) -> int:
        """Return the most batches that exist at once: read ahead, delivered, and the one in the loop."""
        ahead = self.workers * (self.info.prefetch_factor or 2)
        return (ahead if self.info.batches is None else min(ahead, max(1, self.info.batches))) + 1


@dataclass(frozen=True, slots=True)
class Facts:
    """All the facts that the audit looks at, of every rank and host of a run or script."""

    loaders: list[LoaderFacts]
    processes: Mapping[int, ProcessInfo]  # by rank
    hosts: Mapping[str, HostFacts]
    world_size: int = 1
    reports: Mapping[int, ScriptReport] | None = None  # by rank; only of a script that ``doctor`` looks at

    def host_of(self, loader: LoaderFacts) -> HostFacts | None:
        """Return the loader's machine; None if it is not known."""
        return self.hosts.get(loader.host)

    def on_host(self, name: str) -> list[LoaderFacts]:
        """Return the loaders of every rank on a machine."""
        return [loader for loader in self.loaders if loader.host == name]

    def ranks_on(self, name: str) -> int:
        """Return how many ranks on a machine have a loader."""
        return len({loader.rank for loader in self.on_host(name)})

    def torch_of(self, rank: int) -> tuple[int, int] | None:
        """Return the rank's torch version, as (major, minor); None if it is not known."""
        process = self.processes.get(rank)
        parts = ((process.torch if process else None) or "").split("+")[0].split(".")
        try:
            return int(parts[0]), int(parts[1])
        except (IndexError, ValueError):
            return None


def facts_of(window: RunWindow) -> Facts:
    """Return what a window tells of a run's configuration.

    A loader that is built anew for every epoch counts once.
    """
    window = joined(window)
    return Facts(
        loaders=[
            _loader_facts(rank, info)
            for _, rank in sorted(window.ranks.items())
            for info in rank.process.loaders
        ],
        processes={number: rank.process for number, rank in window.ranks.items()},
        hosts={name: _host_facts(host) for name, host in window.hosts.items()},
        world_size=max([len(window.ranks), *(rank.process.world_size for rank in window.ranks.values())]),
    )


def facts_of_script(reports: list[ScriptReport], host: HostFacts) -> Facts:
    """Return what a script told that ran up to its first batch, with all its ranks on this machine."""
    return Facts(
        loaders=[
            _probed(report, info, next((p for p in report.probes if p.loader == info.loader), None), host)
            for report in reports
            for info in report.process.loaders
        ],
        processes={report.process.rank: report.process for report in reports},
        hosts={host.name: host},
        world_size=max((report.process.world_size for report in reports), default=1),
        reports={report.process.rank: report for report in reports},
    )


def _probed(
    report: ScriptReport, info: LoaderInfo, probe: LoaderProbe | None, host: HostFacts
) -> LoaderFacts:
    fetch_s = cpu_ratio = size = read = math.nan
    if probe is not None and probe.samples and probe.wall_s is not None:
        whole = max(1, probe.batch) / probe.samples
        fetch_s = probe.wall_s * whole
        cpu_ratio = min(1.0, ratio(probe.cpu_s or 0.0, probe.wall_s))
        size = math.nan if probe.bytes is None else probe.bytes * whole
        read = math.nan if probe.read_bytes is None else probe.read_bytes * whole
    return LoaderFacts(
        rank=report.process.rank,
        host=host.name,
        info=info,
        fetch_s=fetch_s,
        fetch_cpu_ratio=cpu_ratio,
        batch_bytes=size,
        read_bytes=read,
        probe=probe,
        made_at=report.made_at.get(info.loader),
    )


def _host_facts(host: HostWindow) -> HostFacts:
    quota, total, used = (
        last(host.hosts[name]) for name in ("quota_cpus", "shm_total_bytes", "shm_used_bytes")
    )
    if not math.isfinite(total) and host.info.shm_bytes is not None:
        total = float(host.info.shm_bytes)
    # What is used now holds this run's own batches; the least ever used comes nearest to the others' share.
    least = known(host.hosts["shm_used_bytes"])
    return HostFacts(
        name=host.info.name,
        cpus=host.info.cpus,
        usable_cpus=host.usable_cpus,
        quota_cpus=quota,
        shm_bytes=total,
        shm_used_bytes=float(least.min()) if math.isfinite(used) else 0.0,
        has_gpu=bool(host.gpus),
    )


def _loader_facts(rank: RankWindow, info: LoaderInfo) -> LoaderFacts:
    fetches, steps, begins = rank.table("fetches"), rank.steps, rank.table("epoch_begins")
    mine_fetches = fetches["loader"] == info.loader
    fetch_s, cpu_s = seconds(fetches["fetch_ns"][mine_fetches]), seconds(fetches["cpu_ns"][mine_fetches])
    sizes = fetches["bytes"][mine_fetches]
    sizes = sizes[(sizes != UNKNOWN) & (sizes > 0)]
    # A worker opens its files, and imports, with its first batch.
    first = fetches["ordinal"][mine_fetches] == 0
    both = np.isfinite(fetch_s) & np.isfinite(cpu_s)
    step_rows = between_s(steps)[steps["loader"] == info.loader]
    mine = begins["loader"] == info.loader
    wait_s = seconds(begins["first_wait_ns"][mine])
    until_s = seconds(begins["iter_ns"][mine]) + wait_s
    kinds = begins["iter_kind"][mine]
    rebuilt = kinds == IterKind.REBUILT
    anew = ((kinds == IterKind.STARTED) | rebuilt) & (begins["epoch"][mine] > 0)
    gaps = np.diff(begins["request_ns"][mine]) / 1e9
    processes = rank.table("processes")
    ours = (processes["loader"] == info.loader) & (processes["worker"] >= 0)
    ratios = known(processes["cpu_ratio"][ours])
    return LoaderFacts(
        rank=rank.rank,
        host=rank.host,
        info=info,
        fetch_s=mean(fetch_s),
        fetch_tail_s=quantile(
            fetch_s[~first & ~_worst_sample(fetches["slow_index"][mine_fetches], fetch_s)], 0.999
        ),
        fetch_cpu_ratio=ratio(float(cpu_s[both].sum()), float(fetch_s[both].sum())),
        batch_bytes=float(sizes.max()) if sizes.size else math.nan,
        read_bytes=_read_bytes(rank, info.loader, fetches["request_ns"][mine_fetches]),
        step_s=mean(step_rows) if step_rows.size >= MEASURED_STEPS else math.nan,
        first_wait_s=_most(wait_s),
        starts=int(anew.sum()),
        start_s=mean(until_s[anew]),
        rebuilt=int(rebuilt.sum()) + sum(number == info.loader for number, _ in rank.rebuilt),
        epoch_s=mean(gaps),
        worker_threads=_most(processes["threads"][ours]),
        worker_cpu_ratio=mean(ratios[ratios > 0.05]),
    )


def _read_bytes(rank: RankWindow, loader: int, began_ns: np.ndarray[tuple[int], np.dtype[np.int64]]) -> float:
    """Return the mean bytes that are read from one fetch of a loader to the next; NaN for fewer than two fetches."""
    if began_ns.size < 2:
        return math.nan
    first_ns, last_ns = int(began_ns.min()), int(began_ns.max())
    return read_per_s(rank, loader, first_ns) * (last_ns - first_ns) / 1e9 / (began_ns.size - 1)


def _worst_sample(
    slow_index: np.ndarray[tuple[int], np.dtype[np.int64]],
    fetch_s: np.ndarray[tuple[int], np.dtype[np.float64]],
) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Return the mask, shape (fetches,), of those that the one worst sample makes slow, epoch after epoch.

    That sample wants mending, not more prefetch.
    """
    if not np.isfinite(fetch_s).any():
        return np.zeros(fetch_s.size, dtype=np.bool_)
    worst = slow_index[int(np.nanargmax(fetch_s))]
    result: np.ndarray[tuple[int], np.dtype[np.bool_]] = (slow_index == worst) & (worst != UNKNOWN)
    return result


def _most(values: np.ndarray[tuple[int], np.dtype[np.float64]]) -> float:
    values = known(values)
    return float(values.max()) if values.size else math.nan
