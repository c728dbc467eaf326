"""The metrics that a store can draw, and the columns that each is computed from.

A *source* is a table with a filter, a key (the rank or the host) and measures: SQL expressions over its rows.
Rollups keep the count, sum, minimum and maximum of each measure per time bucket. Every metric uses these.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal

from loaderwatch.core.clock import SECOND_NS
from loaderwatch.core.records import BAD_BITS, BAD_REASONS


@dataclass(frozen=True)
class Source:
    """Rows that rollups are made from."""

    table: str
    measures: dict[str, str]  # name -> SQL expression (DOUBLE, NULL when not known)
    where: str = "true"
    key: Literal["rank", "host"] = "rank"
    time: str = "request_ns"
    spans: bool = False  # a row is a data wait and a step, which may reach into later buckets
    completed_by: str = ""  # the table that says more about the same row: what the device did in it
    least_width_ns: int = SECOND_NS // 10  # the narrowest bucket, a few sampling intervals


@dataclass(frozen=True)
class Metric:
    """How a metric is computed from a source.

    Kind ``mean``: mean, minimum and maximum of a measure over the rows of a bucket.
    Kind ``share``: sum(of) / sum(of and rest) per bucket; minimum and maximum over the keys.
    Kind ``rate``: sum(of) per second of a bucket; mean, minimum and maximum over keys. An idle process has 0.
    Kind ``others``: mean wait for other ranks per iteration, see ``others_wait.py``.
    Kinds ``device_mean``, ``device_share``: the same by the device's clock where it counts: ``data_wait.py``.
    """

    source: str
    kind: Literal["mean", "share", "rate", "others", "device_mean", "device_share"]
    of: str
    rest: str = ""
    scale: float = 1.0
    complement: bool = False  # 1 - share
    device_only: bool = False  # only for ranks whose device's clock counts


def _columns(*names: str) -> dict[str, str]:
    return {name: name for name in names}


_PHASES: Final = ("h2d_ns", "forward_ns", "backward_ns", "optimizer_ns")
_PHASE_SUM: Final = " - ".join(f"coalesce({phase}, 0)" for phase in _PHASES)

_POWER_CAP: Final = 0x04  # a limit that somebody set, not a fault
_SLOWED_BY: Final = {
    **{
        f"slowed_{name.removesuffix('-slowdown').replace('-', '_')}": bit for bit, name in BAD_REASONS.items()
    },
    "slowed_power_cap": _POWER_CAP,
}
"""The bits of NVML's clocks event reasons (nvml.h) that hold a clock down."""


def _held_by(bits: int) -> str:
    return f"CASE WHEN throttle_reasons & {bits} != 0 THEN 1 WHEN throttle_reasons IS NOT NULL THEN 0 END"


_TOLD: Final = "CASE WHEN wait_ns IS NOT NULL AND starved_ns IS NOT NULL THEN"  # batches with a CUDA event

SPANS: Final = ("wait_in", "step_in", "hidden_in", "missing_in", "told_in")
"""Nanoseconds per bucket, in this order: data wait; step; data wait during which the device still worked;
data wait of batches without a CUDA event; iterations with a CUDA event."""

SOURCES: Final[dict[str, Source]] = {
    "steps": Source(
        table="steps",
        where="counted = 1",
        spans=True,
        completed_by="gpu_waits",
        measures={
            **_columns("wait_ns", "step_ns", *_PHASES, "ready", "cached"),
            "iteration_ns": "wait_ns + coalesce(step_ns, 0)",
            "lost_ns": f"{_TOLD} least(wait_ns, starved_ns) END",
            "hidden_ns": f"{_TOLD} greatest(0, wait_ns - starved_ns) END",
            "other_ns": f"CASE WHEN step_ns IS NOT NULL THEN greatest(0, step_ns - {_PHASE_SUM}) END",
            "advance": "advance",
        },
    ),
    "fetches": Source(table="fetches", where="counted = 1", measures=_columns("fetch_ns", "samples")),
    "gpu_waits": Source(
        table="gpu_waits",
        where="counted = 1",
        measures=_columns("starved_ns", "gpu_step_ns", "slack_ns", *(f"gpu_{phase}" for phase in _PHASES)),
    ),
    "gpus": Source(
        table="gpus",
        where="rank IS NOT NULL",
        time="t_ns",
        least_width_ns=SECOND_NS // 2,
        measures={
            **_columns(
                "utilization_ratio",
                "power_w",
                "sm_clock_hz",
                "pcie_rx_bytes_per_s",
                "pcie_tx_bytes_per_s",
                "temperature_c",
                "process_memory_bytes",
                "process_sm_ratio",
            ),
            "memory_ratio": "memory_used_bytes / nullif(memory_total_bytes, 0)",
            "throttled": _held_by(BAD_BITS),
            **{name: _held_by(bit) for name, bit in _SLOWED_BY.items()},
        },
    ),
    "hosts": Source(
        table="hosts",
        key="host",
        time="t_ns",
        least_width_ns=2 * SECOND_NS,
        measures={
            **_columns(
                "cpu_ratio",
                "psi_cpu_some_ratio",
                "psi_io_some_ratio",
                "psi_memory_some_ratio",
                "throttled_ratio",
                "memory_available_bytes",
                "disk_read_bytes_per_s",
            ),
            "shm_used_ratio": "shm_used_bytes / nullif(shm_total_bytes, 0)",
        },
    ),
    "trainers": Source(
        table="processes",
        where="worker = -1",
        time="t_ns",
        least_width_ns=2 * SECOND_NS,
        measures=_columns("cpu_ratio", "rss_bytes"),
    ),
    "workers": Source(
        table="processes",
        where="worker >= 0",
        time="t_ns",
        least_width_ns=2 * SECOND_NS,
        measures=_columns("cpu_ratio", "rss_bytes"),
    ),
}

_S: Final = 1.0 / SECOND_NS


def _mean(source: str, of: str, scale: float = 1.0) -> Metric:
    return Metric(source, "mean", of, scale=scale)


METRICS: Final[dict[str, Metric]] = {
    "wait_s": _mean("steps", "wait_ns", _S),
    "step_s": _mean("steps", "step_ns", _S),
    "h2d_s": _mean("steps", "h2d_ns", _S),
    "forward_s": _mean("steps", "forward_ns", _S),
    "backward_s": _mean("steps", "backward_ns", _S),
    "optimizer_s": _mean("steps", "optimizer_ns", _S),
    "other_s": _mean("steps", "other_ns", _S),
    "iteration_s": _mean("steps", "iteration_ns", _S),
    "others_wait_s": Metric("steps", "others", "others_wait", scale=_S),
    "data_wait_s": Metric("steps", "device_mean", "data_wait", scale=_S),
    "ready_batches": _mean("steps", "ready"),
    "cushion_s": Metric("steps", "device_mean", "cushion", scale=_S),
    "cached_batches": _mean("steps", "cached"),
    "data_wait_ratio": Metric("steps", "device_share", "wait_in", "step_in"),
    "compute_duty_ratio": Metric("steps", "device_share", "wait_in", "step_in", complement=True),
    "steps_per_s": Metric("steps", "rate", "advance"),
    "samples_per_s": Metric("fetches", "rate", "samples"),
    "fetch_s": _mean("fetches", "fetch_ns", _S),
    "gpu_starved_s": _mean("gpu_waits", "starved_ns", _S),
    "slack_s": _mean("gpu_waits", "slack_ns", _S),
    "gpu_h2d_s": _mean("gpu_waits", "gpu_h2d_ns", _S),
    "gpu_forward_s": _mean("gpu_waits", "gpu_forward_ns", _S),
    "gpu_backward_s": _mean("gpu_waits", "gpu_backward_ns", _S),
    "gpu_optimizer_s": _mean("gpu_waits", "gpu_optimizer_ns", _S),
    "gpu_starved_ratio": Metric("steps", "device_share", "wait_in", "step_in", device_only=True),
    "gpu_utilization_ratio": _mean("gpus", "utilization_ratio"),
    "gpu_power_w": _mean("gpus", "power_w"),
    "gpu_memory_ratio": _mean("gpus", "memory_ratio"),
    "gpu_sm_clock_hz": _mean("gpus", "sm_clock_hz"),
    "gpu_pcie_rx_bytes_per_s": _mean("gpus", "pcie_rx_bytes_per_s"),
    "gpu_pcie_tx_bytes_per_s": _mean("gpus", "pcie_tx_bytes_per_s"),
    "gpu_temperature_c": _mean("gpus", "temperature_c"),
    "gpu_throttled_ratio": _mean("gpus", "throttled"),
    **{f"gpu_{name}_ratio": _mean("gpus", name) for name in _SLOWED_BY},
    "gpu_process_memory_bytes": _mean("gpus", "process_memory_bytes"),
    "gpu_process_sm_ratio": _mean("gpus", "process_sm_ratio"),
    "host_cpu_ratio": _mean("hosts", "cpu_ratio"),
    "host_psi_cpu_ratio": _mean("hosts", "psi_cpu_some_ratio"),
    "host_psi_io_ratio": _mean("hosts", "psi_io_some_ratio"),
    "host_psi_memory_ratio": _mean("hosts", "psi_memory_some_ratio"),
    "host_throttled_ratio": _mean("hosts", "throttled_ratio"),
    "host_memory_available_bytes": _mean("hosts", "memory_available_bytes"),
    "host_shm_used_ratio": _mean("hosts", "shm_used_ratio"),
    "host_disk_read_bytes_per_s": _mean("hosts", "disk_read_bytes_per_s"),
    "process_cpu_ratio": _mean("trainers", "cpu_ratio"),
    "process_rss_bytes": _mean("trainers", "rss_bytes"),
    "worker_cpu_ratio": _mean("workers", "cpu_ratio"),
    "worker_rss_bytes": _mean("workers", "rss_bytes"),
}


@dataclass(frozen=True)
class Level:
    """The resolution of a rollup."""

    seconds: int
    name: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", f"r{self.seconds}")

    @property
    def ns(self) -> int:
        """The width of its buckets."""
        return self.seconds * SECOND_NS

    def table(self, source: str) -> str:
        """Return the name of its table for a source."""
        return f"{self.name}_{source}"


LEVELS: Final = (Level(5), Level(60), Level(600))
"""The levels, finest first. Each width is a multiple of the one before."""


@dataclass(frozen=True)
class Digest:
    """Rows that are kept for each bucket besides its sums, for what sums cannot answer (``sql/digests.py``).

    They are valid as long as the bucket of their ``source`` is clean. With ``together``, the rows of a bucket
    form one result, so rows of an earlier sum must not remain beside them.
    """

    name: str
    source: str
    levels: tuple[Level, ...]
    columns: dict[str, str]  # with SQL types
    key: tuple[str, ...]  # at most one row has these values
    together: bool = False


_PATH_COLUMNS: Final = {
    "t_ns": "BIGINT",
    "loader": "BIGINT",
    "epoch": "BIGINT",
    "batch": "BIGINT",
    "longest": "DOUBLE",
    "number": "BIGINT",
}
_PATH_KEY: Final = ("t_ns", "loader", "epoch", "batch")

SLOW_FETCHES: Final = Digest(
    "slow_fetches",
    "fetches",
    LEVELS[1:],
    dict.fromkeys(
        ("t_ns", "rank", "loader", "worker", "slow_index", "slow_ns", "fetch_ns", "request_ns"), "BIGINT"
    ),
    ("rank", "t_ns", "loader", "slow_index"),
)
"""The slowest samples of each rank, each index once."""
PATHS: Final = {
    "steps": Digest("path_steps", "steps", LEVELS[1:2], _PATH_COLUMNS, _PATH_KEY, together=True),
    "gpu_waits": Digest("path_gpu_waits", "gpu_waits", LEVELS[1:2], _PATH_COLUMNS, _PATH_KEY, together=True),
}
"""What ranks in step wait for, by table: the sum over iterations with all ranks in the bucket, and each other
iteration."""
DIGESTS: Final = (SLOW_FETCHES, *PATHS.values())

BUCKETS_NS: Final[tuple[int, ...]] = tuple(
    int(s * SECOND_NS)
    for s in (0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 43200)
)
"""The bucket widths of charts. From 5 s on, each is a multiple of a level that it can be drawn from."""


def bucket_width_ns(start_ns: int, end_ns: int, points: int, at_least_ns: int = 0) -> int:
    """Return the narrowest width for which [start, end) falls into at most ``points`` buckets."""
    day = 86400 * SECOND_NS
    days = 1
    for width in BUCKETS_NS:
        if width >= at_least_ns and -(-end_ns // width) - start_ns // width <= points:
            return width
    while -(-end_ns // (day * days)) - start_ns // (day * days) > points:
        days += 1
    return day * days
