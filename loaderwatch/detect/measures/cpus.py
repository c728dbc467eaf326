"""CPUs: how many a rank may use, and how many of them are free."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from loaderwatch.detect.measures.statistics import mean
from loaderwatch.detect.window import RankWindow, RunWindow, distinct, first_at

RECENT_NS = 10_000_000_000
FEW_LOOKS = 4


@dataclass(frozen=True, slots=True)
class Cpus:
    """CPUs of a rank's host. NaN where not known."""

    usable: float  # min(affinity, cgroup quota), whole host
    ranks: int  # of this run that share them
    free: float  # usable and idle now, whole host
    busy: float  # in use by anybody, whole host
    ours: float  # cores that training processes and their workers keep busy
    worker_ratio: float  # mean CPU use of this rank's workers, share of one core
    runnable_ratio: (
        float  # share of the looks at this rank's workers that found them running or waiting for a CPU
    )

    @property
    def per_rank(self) -> float:
        """What each rank has of them."""
        return self.usable / self.ranks

    @property
    def others(self) -> float:
        """CPUs of the host that programs outside this run keep busy; NaN where not known."""
        return max(0.0, self.busy - self.ours) if math.isfinite(self.busy - self.ours) else math.nan

    def least_s(self, iteration_s: float) -> float:
        """What an iteration takes at least as long as it costs the CPU time that it costs now; 0 where not known."""
        ratio = self.ours / self.usable if self.usable > 0 else math.nan
        return iteration_s * min(1.0, ratio) if math.isfinite(ratio) else 0.0


def cpus_of(window: RunWindow, rank: RankWindow) -> Cpus:
    """CPUs as this rank sees them.

    ``os.cpu_count()`` is not asked: in a container it names the host's CPUs, not the quota.
    """
    neighbours = window.ranks_by_host.get(rank.host, [])
    host = window.hosts.get(rank.host)
    usable, idle, busy = math.nan, math.nan, math.nan
    if host is not None:
        usable = host.usable_cpus
        recent = host.hosts["t_ns"] >= host.made_ns - RECENT_NS
        busy_ratio = mean(host.hosts["cpu_ratio"][recent])
        idle, busy = host.info.cpus * (1 - busy_ratio), host.info.cpus * busy_ratio
    ours = _sum_known([_busy(other) for other in neighbours])
    free = usable - ours
    if math.isfinite(idle):
        free = min(free, idle) if math.isfinite(free) else min(idle, usable)
    return Cpus(
        usable=usable,
        ranks=ranks_on(neighbours),
        free=max(0.0, free) if math.isfinite(free) else math.nan,
        busy=busy,
        ours=ours,
        worker_ratio=_worker_ratio(rank),
        runnable_ratio=_runnable_ratio(rank),
    )


def ranks_on(neighbours: Sequence[RankWindow]) -> int:
    """How many ranks of a host share its CPUs: those that run, or all where none does any more."""
    live = sum(rank.process.state == "live" for rank in neighbours)
    return max(1, live or len(neighbours))


def _sum_known(values: list[float]) -> float:
    numbers = [value for value in values if math.isfinite(value)]
    return sum(numbers) if numbers else math.nan


def _busy(rank: RankWindow) -> float:
    """Cores that a rank's processes keep busy: the mean of each process over the last seconds, summed."""
    rows = rank.table("processes")
    first = first_at(rows["t_ns"], rank.made_ns - RECENT_NS)
    pids, ratios = rows["pid"][first:], rows["cpu_ratio"][first:]
    return _sum_known([mean(ratios[pids == pid]) for pid in distinct(pids)])


def _worker_ratio(rank: RankWindow) -> float:
    rows = rank.table("processes")
    recent = (rows["t_ns"] >= rank.made_ns - RECENT_NS) & (rows["worker"] >= 0)
    return mean(rows["cpu_ratio"][recent])


def _runnable_ratio(rank: RankWindow) -> float:
    """On a crowded machine a worker that computes gets little CPU, but its state still says that it wants it."""
    rows = rank.table("processes")
    recent = (rows["t_ns"] >= rank.made_ns - RECENT_NS) & (rows["worker"] >= 0)
    states = rows["state"][recent]
    return float((states == ord("R")).mean()) if states.size >= FEW_LOOKS else math.nan
