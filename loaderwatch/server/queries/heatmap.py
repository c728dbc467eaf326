"""The answer of ``GET /runs/{run}/heatmap``: a metric over time, one row per rank or host, sorted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from loaderwatch.core import answers
from loaderwatch.core.clock import SECOND_NS
from loaderwatch.server.encoding import significant
from loaderwatch.server.queries.charts import (
    DEFAULT_POINTS,
    MAX_POINTS,
    check_count,
    check_metric,
    or_none,
    time_range,
)
from loaderwatch.server.store.protocol import Grid, Store

By = Literal["rank", "host"]
Order = Literal["rank", "worst"]

LOW_IS_BAD: Final = frozenset(
    {
        "compute_duty_ratio",
        "steps_per_s",
        "ready_batches",
        "cached_batches",
        "cushion_s",
        "slack_s",
        "gpu_utilization_ratio",
        "gpu_power_w",
        "gpu_sm_clock_hz",
        "gpu_process_sm_ratio",
        "host_memory_available_bytes",
    }
)
"""Metrics whose lowest value is the worst; for all others it is the highest."""


@dataclass(frozen=True, kw_only=True)
class Rows:
    """The wanted rows. ``find``: each word is a rank's number or a part of its host's name."""

    by: By = "rank"
    order: Order = "rank"
    find: str = ""
    limit: int | None = None


def heatmap(
    store: Store,
    run_id: str,
    metric: str,
    start: float | None = None,
    end: float | None = None,
    points: int = DEFAULT_POINTS,
    attempt: int | None = None,
    rows: Rows | None = None,
    digits: int | None = None,
) -> answers.Heatmap:
    """Answer ``GET /runs/{run}/heatmap``; with very many ranks there are fewer buckets than requested."""
    check_metric(metric)
    check_count("points", points, 2, MAX_POINTS)
    start_ns, end_ns = time_range(store, run_id, start, end, attempt)
    grid = store.grid(run_id, metric, start_ns, end_ns, points)
    return shaped(grid, metric, store.run(run_id).rank_hosts, rows or Rows(), digits)


def shaped(
    grid: Grid, metric: str, rank_hosts: dict[int, str], rows: Rows, digits: int | None = None
) -> answers.Heatmap:
    """Group, sort, search and cut the rows of a grid."""
    sign = -1.0 if metric in LOW_IS_BAD else 1.0
    badness = sign * grid.values  # the greatest is the worst; NaN where nothing is known
    scores = _means(badness)
    hosts = [rank_hosts.get(rank, "") for rank in grid.ranks.tolist()]
    groups = _groups(hosts) if rows.by == "host" else [[at] for at in range(len(hosts))]
    groups = [group for group in groups if _matches(rows.find, grid.ranks[group].tolist(), hosts[group[0]])]
    worst = [max(group, key=lambda at: scores[at]) for group in groups]
    order = list(range(len(groups)))
    if rows.order == "worst":
        order.sort(key=lambda row: -scores[worst[row]])
    order = order[: rows.limit]
    values = np.array(
        [sign * np.fmax.reduce(badness[groups[row]], axis=0) for row in order], dtype=np.float64
    ).reshape(len(order), len(grid.t_ns))
    return answers.Heatmap(
        metric=metric,
        bucket_s=grid.bucket_ns / SECOND_NS,
        ranks=[int(grid.ranks[worst[row]]) for row in order],
        t=(grid.t_ns / SECOND_NS).tolist(),
        values=or_none(significant(values, digits)),
        hosts=[hosts[worst[row]] for row in order],
        of=len(groups),
    )


def _means(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The mean of the known values in each row; minus infinity if there are none."""
    known = np.isfinite(values)
    count = known.sum(axis=1)
    total = np.where(known, values, 0.0).sum(axis=1)
    means: NDArray[np.float64] = np.where(count > 0, total / np.maximum(count, 1), -np.inf)
    return means


def _groups(hosts: list[str]) -> list[list[int]]:
    """The row numbers of each host's ranks; hosts in the order of their first rank."""
    groups: dict[str, list[int]] = {}
    for place, host in enumerate(hosts):
        groups.setdefault(host, []).append(place)
    return list(groups.values())


def _matches(find: str, ranks: list[int], host: str) -> bool:
    words = [word for word in find.casefold().split() if word != "rank"]
    return all(int(word) in ranks if word.isdecimal() else word in host.casefold() for word in words)
