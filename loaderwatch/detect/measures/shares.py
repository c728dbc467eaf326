"""Where a rank's time went, as sums over its steps: cheap, for the many ranks that are well."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from loaderwatch.detect.limits import Limits
from loaderwatch.detect.measures.pace import open_wait_s
from loaderwatch.detect.measures.statistics import total
from loaderwatch.detect.window import RankWindow, first_at, one_of, seconds

_TAKE: Final = ("wait_ns", "step_ns", "nested_ns", "iter_ns", "first_wait_ns", "teardown_ns")
QUIET_ROWS = 64


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over a rank's training steps, in seconds; they are cheap, for the many ranks that are well."""

    rows: int
    wait_s: float
    total_s: float


def totals_since(rank: RankWindow, since_ns: int, *, at_least: int = 0) -> Totals:
    """Return the sums over the steps of training loaders requested since a time (ns UTC).

    They go back further where needed to look at the last ``at_least`` steps of any loader.
    """
    steps = rank.steps
    first = first_at(steps["request_ns"], since_ns)
    first = max(0, min(first, steps["request_ns"].size - at_least))
    training = [loader.loader for loader in rank.process.loaders if loader.role == "train"]
    mask = one_of(steps["loader"][first:], training) & (steps["off_main_thread"][first:] != 1)
    wait_ns = steps["wait_ns"][first:][mask]
    sums = [wait_ns, steps["step_ns"][first:][mask]]
    seconds_of = [float(values[values > 0].sum()) / 1e9 for values in sums]  # UNKNOWN is negative
    return Totals(int(wait_ns.size), seconds_of[0], sum(seconds_of))


@dataclass(frozen=True, slots=True)
class Shares:
    """The parts of a rank's training time since its first batch was asked for, in seconds.

    The first waits of epochs count.
    """

    elapsed_s: float
    wait_s: float
    start_s: float  # in iter(loader)


def shares_of(rank: RankWindow) -> Shares | None:
    """Return where the time went in the window; None when no training batch came and none is waited for."""
    training = [loader.loader for loader in rank.process.loaders if loader.role == "train"]
    begins, steps = rank.table("epoch_begins"), rank.table("steps")
    begun = one_of(begins["loader"], training)
    rows = one_of(steps["loader"], training) & (steps["off_main_thread"] != 1)
    ended_ns = rank.made_ns
    if rank.process.state != "live":
        ended_ns = max(_last_ns(rank, name) for name in ("steps", "epoch_begins", "epoch_ends"))
    open_s = 0.0
    span = rank.span
    if rank.process.state == "live" and span is not None and span.phase == "wait" and span.loader in training:
        open_s = max(0.0, (rank.made_ns - span.since_ns) / 1e9)
    requested = np.concatenate((begins["request_ns"][begun], steps["request_ns"][rows]))
    if not requested.size or not (rows.any() or open_s):
        return None
    return Shares(
        elapsed_s=(ended_ns - int(requested.min())) / 1e9,
        wait_s=total(seconds(steps["wait_ns"][rows])) + open_s,
        start_s=total(seconds(begins["iter_ns"][begun])),
    )


def _last_ns(rank: RankWindow, name: str) -> int:
    """Return when the last thing that a table tells of was over, ns UTC; 0 for a table without rows."""
    table = rank.table(name)
    took = [table[column] for column in _TAKE if column in table]
    ends = table["request_ns"] + sum(np.maximum(values, 0) for values in took)  # UNKNOWN is negative
    return int(ends.max()) if ends.size else 0


def wait_share(rank: RankWindow, limits: Limits) -> float:
    """Return the share (0 to 1) of the last half minute that a rank waited for data; roughly, but cheaply."""
    since_ns = rank.made_ns - int(limits.spike_recent_s * 1e9)
    totals = totals_since(rank, since_ns, at_least=QUIET_ROWS)
    open_s = open_wait_s(rank)
    return (totals.wait_s + open_s) / max(totals.total_s + open_s, 1.0)
