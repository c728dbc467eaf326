"""The facts of a configuration for the audit, from a live or recorded window, or from ``doctor``."""

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
"""Steps needed for the steady state; fewer say nothing about it."""


@dataclass(frozen=True, slots=True)
class HostFacts:
    """A machine as its training processes see it. Unknown numbers are NaN."""

    name: str
    cpus: int
    usable_cpus: float = math.nan  # min(affinity, cgroup quota)
    quota_cpus: float = math.nan
    shm_bytes: float = math.nan
    shm_used_bytes: float = 0.0  # by others, without this run's batches
    has_gpu: bool = False


@dataclass(frozen=True, slots=True)
class LoaderFacts:
    """The configuration of a loader on one rank and, if known, its measurements. Unknown numbers are NaN."""

    rank: int
    host: str
    info: LoaderInfo
    fetch_s: float = math.nan  # mean time to read and collate a batch
    fetch_tail_s: float = math.nan  # 99.9th percentile of that time, without the dataset's worst sample
    fetch_cpu_ratio: float = math.nan  # share of a fetch that computes
    batch_bytes: float = math.nan
    read_bytes: float = math.nan  # mean bytes read per batch from files or sockets
    step_s: float = math.nan
    first_wait_s: float = math.nan  # the longest first wait of an epoch
    starts: int = 0  # epochs that restarted workers, without the first epoch
    start_s: float = math.nan  # mean time until their first batch
    rebuilt: int = 0  # of those epochs, how many a newly built loader started
    epoch_s: float = math.nan  # mean length of an epoch
    worker_threads: float = math.nan  # the most threads of a worker
    worker_cpu_ratio: float = math.nan  # of one core, mean over busy workers
    probe: LoaderProbe | None = None
    made_at: str | None = None  # "train.py:38"

    @property
    def workers(self) -> int:
        """The number of worker processes; 0 for loaders without workers."""
        return self.info.num_workers or 0

    @property
    def trains(self) -> bool:
        """Whether its batches train the model."""
        return self.info.role == "train"

    @property
    def in_flight(self) -> int:
        """The most batches that exist at once: read ahead, delivered, and the one in the loop."""
        ahead = self.workers * (self.info.prefetch_factor or 2)
        return (ahead if self.info.batches is None else min(ahead, max(1, self.info.batches))) + 1


@dataclass(frozen=True, slots=True)
class Facts:
    """All facts for the audit, of every rank and host of a run or script."""

    loaders: list[LoaderFacts]
    processes: Mapping[int, ProcessInfo]  # by rank
    hosts: Mapping[str, HostFacts]
    world_size: int = 1
    reports: Mapping[int, ScriptReport] | None = None  # by rank; only of a script that ``doctor`` checks

    def host_of(self, loader: LoaderFacts) -> HostFacts | None:
        """Return the loader's machine; None if unknown."""
        return self.hosts.get(loader.host)

    def on_host(self, name: str) -> list[LoaderFacts]:
        """Return the loaders of every rank on a machine."""
        return [loader for loader in self.loaders if loader.host == name]

    def ranks_on(self, name: str) -> int:
        """Return how many ranks on a machine have a loader."""
        return len({loader.rank for loader in self.on_host(name)})

    def torch_of(self, rank: int) -> tuple[int, int] | None:
        """Return the rank's torch version, as (major, minor); None if unknown."""
        process = self.processes.get(rank)
        parts = ((process.torch if process else None) or "").split("+")[0].split(".")
        try:
            return int(parts[0]), int(parts[1])
        except (IndexError, ValueError):
            return None


def facts_of(window: RunWindow) -> Facts:
    """Return a run's configuration as a window shows it. A loader rebuilt for every epoch counts once."""
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
    """Return the facts of a script that ran up to its first batch, with all ranks on this machine."""
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
    # The present use includes this run's own batches; the least ever used is closest to the others' share.
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
    # A worker opens its files and imports modules with its first batch.
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
    """Return the mean bytes read between two fetches of a loader; NaN for fewer than two fetches."""
    if began_ns.size < 2:
        return math.nan
    first_ns, last_ns = int(began_ns.min()), int(began_ns.max())
    return read_per_s(rank, loader, first_ns) * (last_ns - first_ns) / 1e9 / (began_ns.size - 1)


def _worst_sample(
    slow_index: np.ndarray[tuple[int], np.dtype[np.int64]],
    fetch_s: np.ndarray[tuple[int], np.dtype[np.float64]],
) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Return the mask, shape (fetches,), of fetches that the single worst sample makes slow in every epoch.

    That sample must be repaired; more prefetch does not help.
    """
    if not np.isfinite(fetch_s).any():
        return np.zeros(fetch_s.size, dtype=np.bool_)
    worst = slow_index[int(np.nanargmax(fetch_s))]
    result: np.ndarray[tuple[int], np.dtype[np.bool_]] = (slow_index == worst) & (worst != UNKNOWN)
    return result


def _most(values: np.ndarray[tuple[int], np.dtype[np.float64]]) -> float:
    values = known(values)
    return float(values.max()) if values.size else math.nan
