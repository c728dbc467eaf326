"""What a rank's host and processes reported recently: CPUs, quota, threads, run queue, bytes read."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from loaderwatch.core.columns import Columns
from loaderwatch.core.threshold import threshold
from loaderwatch.detect.measures.pace import Pace
from loaderwatch.detect.measures.statistics import mean, median, ratio, total
from loaderwatch.detect.window import HostWindow, RankWindow, distinct, first_at

RECENT_NS: Final = threshold(
    10_000_000_000, "ns", "chosen: ten readings of a host and its processes, which are taken once a second"
)
FEW_WORKER_LOOKS: Final = threshold(4, "looks", "chosen: fewer looks do not show how often workers run")
NOW_NS: Final = threshold(
    2_500_000_000, "ns", "processes are read once a second: a process missing from two readings is gone"
)
LOOK_NS: Final = threshold(
    1_000_000_000, "ns", "the streamer reads processes this often; a reading covers the time before it"
)
FEW_FETCHES: Final = threshold(
    2, "fetches", "chosen: the newest of each worker, if a fetch takes longer than RECENT_NS"
)
SLOWEST: Final = threshold(
    3.0, "factor", "at a pressure of 0.9 unpacking two small tensors took 2.0 to 2.4 ms; below 2 is nothing"
)
FEW_SECONDS: Final = threshold(
    4.0, "s", "chosen: of fetching, all workers together; CPU use of processes has a resolution of a second"
)


@dataclass(frozen=True, slots=True)
class Cpus:
    """The CPUs of a rank's host and their use, in cores. NaN if unknown."""

    usable: float  # min(affinity, cgroup quota), whole host
    ranks: int  # ranks of this run that share them
    free: float  # usable and idle now, whole host
    busy: float  # in use by any program, whole host
    ours: float  # kept busy by training processes and their workers
    worker_ratio: float  # mean CPU use of this rank's workers, share of one core
    runnable_ratio: float  # share of looks that found this rank's workers running or waiting for a CPU

    @property
    def per_rank(self) -> float:
        """Return the number of usable CPUs per rank."""
        return self.usable / self.ranks

    @property
    def others(self) -> float:
        """Return the CPUs of the host that programs outside this run keep busy; NaN if unknown."""
        return max(0.0, self.busy - self.ours) if math.isfinite(self.busy - self.ours) else math.nan

    def least_s(self, iteration_s: float) -> float:
        """Return the least seconds of an iteration with the present CPU time; 0 if unknown."""
        busy_ratio = ratio(self.ours, self.usable)
        return iteration_s * min(1.0, busy_ratio) if math.isfinite(busy_ratio) else 0.0


class HostLoad:
    """The CPU use of a run's ranks on one host, each number measured once.

    ``window``: the host's own readings, None without any. ``ranks``: the ranks of the run on the host.
    """

    def __init__(self, window: HostWindow | None, ranks: Sequence[RankWindow]) -> None:
        self.window = window
        self.ranks = ranks

    @cached_property
    def busy_cpus(self) -> float:
        """Return the cores that all processes of the ranks keep busy; NaN if unknown."""
        return _sum_known([_busy(rank) for rank in self.ranks])

    @cached_property
    def worker_cpus(self) -> float:
        """Return the cores that the ranks' workers keep busy; NaN if unknown."""
        return _sum_known([_busy(rank, workers=True) for rank in self.ranks])

    @cached_property
    def crowd(self) -> tuple[int, float, float]:
        """Return the number of workers of live ranks, how many are runnable, on average, and cores in use."""
        return _crowd([rank for rank in self.ranks if _lives(rank)])

    @cached_property
    def pressure(self) -> tuple[float, float]:
        """Return the share of time in which a task had no CPU, and the busy share of CPUs; NaN if unknown."""
        if self.window is None:
            return math.nan, math.nan
        rows = self.window.hosts
        since = rows["t_ns"] >= self.window.made_ns - RECENT_NS
        return mean(rows["psi_cpu_some_ratio"][since]), mean(rows["cpu_ratio"][since])


def cpus_of(load: HostLoad, rank: RankWindow) -> Cpus:
    """Return the CPUs as this rank sees them.

    ``os.cpu_count()`` is not used: in a container it returns the host's CPUs, not the quota.
    """
    host = load.window
    usable, idle, busy = math.nan, math.nan, math.nan
    if host is not None:
        usable = host.usable_cpus
        recent = host.hosts["t_ns"] >= host.made_ns - RECENT_NS
        busy_ratio = mean(host.hosts["cpu_ratio"][recent])
        idle, busy = host.info.cpus * (1 - busy_ratio), host.info.cpus * busy_ratio
    ours = load.busy_cpus
    free = usable - ours
    if math.isfinite(idle):
        free = min(free, idle) if math.isfinite(free) else min(idle, usable)
    return Cpus(
        usable=usable,
        ranks=ranks_on(load.ranks),
        free=max(0.0, free) if math.isfinite(free) else math.nan,
        busy=busy,
        ours=ours,
        worker_ratio=_worker_ratio(rank),
        runnable_ratio=_runnable_ratio(rank),
    )


def ranks_on(neighbours: Sequence[RankWindow]) -> int:
    """Return how many ranks of a host share its CPUs: the live ones, or all if none is alive."""
    live = sum(rank.process.state == "live" for rank in neighbours)
    return max(1, live or len(neighbours))


def _sum_known(values: list[float]) -> float:
    numbers = [value for value in values if math.isfinite(value)]
    return sum(numbers) if numbers else math.nan


def _busy(rank: RankWindow, *, workers: bool = False) -> float:
    """Return the cores that a rank's processes, or only its workers, keep busy: a sum of recent means."""
    rows = _recent(rank, ("pid", "worker", "cpu_ratio"))
    mask = rows["worker"] >= 0 if workers else slice(None)
    pids, ratios = rows["pid"][mask], rows["cpu_ratio"][mask]
    return _sum_known([mean(ratios[pids == pid]) for pid in distinct(pids)])


def _worker_ratio(rank: RankWindow) -> float:
    rows = rank.table("processes")
    recent = (rows["t_ns"] >= rank.made_ns - RECENT_NS) & (rows["worker"] >= 0)
    return mean(rows["cpu_ratio"][recent])


def _runnable_ratio(rank: RankWindow) -> float:
    """Return the share of looks that found a rank's workers running or waiting for a CPU; NaN if too few.

    On a crowded machine a computing worker gets little CPU, but its state still shows that it wants one.
    """
    rows = rank.table("processes")
    recent = (rows["t_ns"] >= rank.made_ns - RECENT_NS) & (rows["worker"] >= 0)
    states = rows["state"][recent]
    return float((states == ord("R")).mean()) if states.size >= FEW_WORKER_LOOKS else math.nan


def slowness_of(load: HostLoad, rank: RankWindow, cpus: Cpus | None = None) -> float:
    """Return how many times as long work takes on a rank's host as on an idle one, from 1 to ``SLOWEST``.

    Multiply every limit in seconds that separates much work from little by it. The evidence is the share of
    time in which a task of the host, or the rank's main thread, was ready to run without a CPU. If the kernel
    reports neither, it is the busy share of the CPUs. With ``cpus`` it is the slowness for workers, without
    the pressure that the run's workers cause.
    """
    pressure = _pressure(load, rank)
    if cpus is not None:
        pressure *= 1 - _workers_part(load, cpus)
    return 1 + (SLOWEST - 1) * pressure


def _workers_part(load: HostLoad, cpus: Cpus) -> float:
    """Return the share (0 to 1) of the busy CPUs of a rank's host that the run's workers use; 0 if unknown.

    If the run may use only some CPUs, only those count: programs on other CPUs take nothing from the workers.
    """
    return min(1.0, float(np.nan_to_num(ratio(load.worker_cpus, min(cpus.busy, cpus.usable)))))


def _pressure(load: HostLoad, rank: RankWindow) -> float:
    pressure, busy = load.pressure
    rows = _recent(rank, ("worker", "run_delay_ratio"))
    delayed = mean(rows["run_delay_ratio"][rows["worker"] < 0])
    known = [value for value in (pressure, delayed) if math.isfinite(value)] or [busy]
    return min(1.0, max(0.0, float(np.nan_to_num(max(known)))))


@dataclass(frozen=True, slots=True)
class Machine:
    """The load of a rank's host and processes: means over the last ten seconds, NaN if unknown.

    CPUs are in units of one core.
    """

    cpus: int | None  # of the host
    quota: float
    throttled_ratio: float  # share of the quota's periods in which it stopped us
    psi_cpu_ratio: float
    psi_io_ratio: float
    available_bytes: float
    refault_bytes_per_s: float
    limit_hits_per_s: float  # how often the control group reached its memory limit
    ours: float  # CPUs that this run keeps busy here
    workers_here: int  # live workers of all ranks and loaders of this run on the host
    workers_runnable: float  # mean number of these workers running or waiting for a CPU
    worker_cpu_ratio: float  # of one of this rank's workers, all its threads
    worker_threads: float
    worker_affinity: float
    worker_delay_ratio: float  # share of the time a worker was ready but had no CPU
    worker_switches_per_s: float  # involuntary, of one worker
    worker_waits_per_s: float  # voluntary switches of one worker: each time it waited for something
    worker_lock_ratio: float  # share of the time a worker waits for a lock
    worker_faults_per_s: float  # major, of one worker: pages that had to come from storage
    main_affinity: float
    main_delay_ratio: float
    pin_cpu_ratio: float  # of the busiest of this rank's threads that pin memory
    other_cpu_ratio: float  # of all its threads but that one and the main one
    read_chars_per_s: float  # of this rank's workers together
    read_bytes_per_s: float  # the part from storage


def machine_of(load: HostLoad, rank: RankWindow, loader: int) -> Machine:
    """Return the machine as this rank and the workers of its loader see it."""
    mine = _recent(rank)
    workers = (mine["worker"] >= 0) & (mine["loader"] == loader)
    main = mine["worker"] < 0
    host = load.window
    hosts: dict[str, float] = {}
    cpus = None
    if host is not None:
        cpus = host.info.cpus
        since = host.hosts["t_ns"] >= host.made_ns - RECENT_NS
        hosts = {name: mean(values[since]) for name, values in host.hosts.items() if values.dtype.kind == "f"}
    counts, runnable, ours = load.crowd
    get = hosts.get
    pin_ratio = _mean(mine, "pin_cpu_ratio", main)
    return Machine(
        cpus=cpus,
        quota=get("quota_cpus", math.nan),
        throttled_ratio=get("throttled_ratio", math.nan),
        psi_cpu_ratio=get("psi_cpu_some_ratio", math.nan),
        psi_io_ratio=get("psi_io_some_ratio", math.nan),
        available_bytes=get("memory_available_bytes", math.nan),
        refault_bytes_per_s=get("refault_bytes_per_s", math.nan),
        limit_hits_per_s=math.nan if host is None else limit_hits_per_s(host),
        ours=ours,
        workers_here=counts,
        workers_runnable=runnable,
        worker_cpu_ratio=mean(mine["cpu_ratio"][workers]),
        worker_threads=median(mine["threads"][workers]),
        worker_affinity=median(mine["affinity_cpus"][workers]),
        worker_delay_ratio=_mean(mine, "run_delay_ratio", workers),
        worker_switches_per_s=_per_process_rate(mine, "involuntary_switches", workers),
        worker_waits_per_s=_per_process_rate(mine, "voluntary_switches", workers),
        worker_lock_ratio=_mean(mine, "lock_wait", workers),
        worker_faults_per_s=_per_process_rate(mine, "major_faults", workers),
        main_affinity=median(mine["affinity_cpus"][main]),
        main_delay_ratio=_mean(mine, "run_delay_ratio", main),
        pin_cpu_ratio=pin_ratio,
        other_cpu_ratio=mean(mine["cpu_ratio"][main])
        - _mean(mine, "main_cpu_ratio", main)
        - (pin_ratio if math.isfinite(pin_ratio) else 0.0),
        read_chars_per_s=_total_rate(mine, "read_chars", workers),
        read_bytes_per_s=_total_rate(mine, "read_bytes", workers),
    )


def run_delay_s(
    rank: RankWindow, began_ns: int, took_s: float, *, worker: int | None = None, loader: int | None = None
) -> float:
    """Return the seconds, at most ``took_s``, that a process was ready without a CPU from ``began_ns`` on.

    Without ``worker`` it is the training process's main thread. The readings are per second, so for parts of
    a second this is an upper bound.
    """
    rows = rank.table("processes")
    ended_ns = began_ns + int(took_s * 1e9)
    during = (rows["t_ns"] > began_ns) & (rows["t_ns"] <= ended_ns + LOOK_NS)
    mine = rows["worker"] < 0 if worker is None else (rows["worker"] == worker) & (rows["loader"] == loader)
    t_ns, delayed = rows["t_ns"][during & mine], rows["run_delay_ratio"][during & mine]
    # Each row covers the second before it.
    shared_s = (np.minimum(t_ns, ended_ns) - np.maximum(t_ns - LOOK_NS, began_ns)) / 1e9
    return min(took_s, total(np.minimum(delayed * (LOOK_NS / 1e9), shared_s)))


def asleep_ratio(rank: RankWindow, last_s: float) -> float:
    """Return the share (0 to 1) of looks in ``last_s`` that found the process in a timed sleep, or NaN."""
    rows = rank.table("processes")
    mine = (rows["pid"] == rank.process.pid) & (rows["t_ns"] >= rank.made_ns - int(last_s * 1e9))
    return mean(rows["timer_wait"][mine])


def limit_hits_per_s(host: HostWindow) -> float:
    """Return how often per second the control group recently hit its memory limit; NaN without a limit."""
    rows = host.hosts
    known_rows = np.isfinite(rows["memory_limit_hits"]) & (rows["t_ns"] >= host.made_ns - RECENT_NS)
    hits, t_ns = rows["memory_limit_hits"][known_rows], rows["t_ns"][known_rows]
    if hits.size < 2 or hits[-1] < hits[0]:
        return math.nan
    return ratio(float(hits[-1] - hits[0]), float(t_ns[-1] - t_ns[0]) / 1e9)


def counter_rates(rows: Columns, name: str, mask: NDArray[np.bool_]) -> list[tuple[float, float]]:
    """Return (growth, seconds) of a counter over the rows of a mask, for each process seen at least twice."""
    pids, times, values = rows["pid"][mask], rows["t_ns"][mask], rows[name][mask]
    rates = []
    for pid in distinct(pids):
        own = (pids == pid) & np.isfinite(values)
        if own.sum() >= 2:
            own_ns, counts = times[own], values[own]
            lasted_s = (int(own_ns[-1]) - int(own_ns[0])) / 1e9
            if lasted_s > 0 and counts[-1] >= counts[0]:
                rates.append((float(counts[-1] - counts[0]), lasted_s))
    return rates


def _lives(rank: RankWindow) -> bool:
    return rank.process.state == "live"


def _recent(rank: RankWindow, names: Iterable[str] | None = None) -> dict[str, NDArray[Any]]:
    rows = rank.table("processes")
    since = slice(first_at(rows["t_ns"], rank.made_ns - RECENT_NS), None)
    return {name: rows[name][since] for name in names or rows}


def _mean(rows: Columns, name: str, mask: NDArray[np.bool_]) -> float:
    return mean(rows[name][mask]) if name in rows else math.nan


def _crowd(ranks: list[RankWindow]) -> tuple[int, float, float]:
    """Return how many workers some ranks have, how many are runnable on average, and the cores in use."""
    workers, runnable, busy = 0, 0.0, math.nan
    for rank in ranks:
        rows = _recent(rank, ("t_ns", "pid", "worker", "cpu_ratio", "state"))
        for pid in distinct(rows["pid"][rows["t_ns"] >= rank.made_ns - NOW_NS]):
            own = rows["pid"] == pid
            used = mean(rows["cpu_ratio"][own])
            if math.isfinite(used):
                busy = used if math.isnan(busy) else busy + used
            if rows["worker"][own][-1] >= 0:
                workers += 1
                runnable += float((rows["state"][own] == ord("R")).mean())
    return workers, runnable, busy


def _per_process_rate(rows: Columns, name: str, mask: NDArray[np.bool_]) -> float:
    pairs = counter_rates(rows, name, mask)
    return ratio(sum(grown for grown, _ in pairs), sum(lasted for _, lasted in pairs))


def _total_rate(rows: Columns, name: str, mask: NDArray[np.bool_]) -> float:
    pairs = counter_rates(rows, name, mask)
    return sum(grown / lasted for grown, lasted in pairs) if pairs else math.nan


def read_per_s(rank: RankWindow, loader: int, since_ns: int) -> float:
    """Return the bytes per second that a loader's readers have read since a time (ns UTC); NaN if unknown.

    Readers are its workers, or the training process without workers. Files and sockets count.
    """
    rows = rank.table("processes")
    workers = (rows["worker"] >= 0) & (rows["loader"] == loader)
    readers = workers if workers.any() else rows["worker"] < 0
    return _total_rate(rows, "read_chars", readers & (rows["t_ns"] >= since_ns))


def written_per_s(rank: RankWindow, loader: int, until_ns: int) -> float:
    """Return the bytes per second that a loader's readers wrote in the ten seconds up to a time (ns UTC).

    Readers are its workers, or the training process without workers. In a younger run all readings count. It
    is the smaller rate of two halves, so a single write, such as a checkpoint, does not count. NaN if a half
    has less than two readings.
    """
    rows = rank.table("processes")
    t_ns = rows["t_ns"]
    workers = (rows["worker"] >= 0) & (rows["loader"] == loader)
    readers = workers if workers.any() else rows["worker"] < 0
    recent = readers & (t_ns >= until_ns - RECENT_NS) & (t_ns <= until_ns)
    if not recent.any():
        return math.nan
    middle_ns = (int(t_ns[recent].min()) + until_ns) // 2
    halves = recent & (t_ns <= middle_ns), recent & (t_ns >= middle_ns)
    return float(np.min([_total_rate(rows, "written_chars", half) for half in halves]))


def helper_cpu_ratio(pace: Pace) -> float:
    """Return the share (0 to 1) of the workers' CPU time outside the reading thread; NaN if unknown.

    It covers the last ten seconds or, if a fetch takes longer, each worker's newest fetches.
    """
    fetches, processes = pace.fetches, pace.rank.table("processes")
    own_s = used_s = covered_s = 0.0
    for worker in np.unique(fetches.worker[fetches.worker >= 0]):
        rows = np.flatnonzero((fetches.worker == worker) & np.isfinite(fetches.cpu_s))
        recent = rows[fetches.ended_ns[rows] >= pace.rank.made_ns - RECENT_NS]
        rows = recent if recent.size >= FEW_FETCHES else rows[-FEW_FETCHES:]
        if not rows.size:
            continue
        began_ns, ended_ns = int(fetches.began_ns[rows].min()), int(fetches.ended_ns[rows].max())
        looks = (processes["loader"] == pace.loader.loader) & (processes["worker"] == worker)
        looks &= (processes["t_ns"] > began_ns) & (processes["t_ns"] <= ended_ns + LOOK_NS)
        used = mean(processes["cpu_ratio"][looks])
        if math.isfinite(used):
            own_s += total(fetches.cpu_s[rows])
            used_s += used * (ended_ns - began_ns) / 1e9
            covered_s += (ended_ns - began_ns) / 1e9
    if not (covered_s >= FEW_SECONDS and used_s > 0):
        return math.nan
    return max(0.0, 1 - own_s / used_s)
