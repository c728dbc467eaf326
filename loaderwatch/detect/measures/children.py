"""Whether anything works for a process that stands still: another thread of it, or a process that it has started.

None where nobody knows: the streamer reads them only of a process that has been in one span for some seconds, outside its
loaders, and only where the kernel lists a process's children.
"""

from __future__ import annotations

import numpy as np

from loaderwatch.detect.limits import IDLE_CPU_RATIO
from loaderwatch.detect.measures.progress import FEW, STILL_SWITCHES_PER_S
from loaderwatch.detect.window import RankWindow


def children_work(rank: RankWindow, pid: int, since_ns: int) -> bool | None:
    """Whether a descendant of the process, its workers left out, has used a CPU or was woken again and again since a time."""
    cpu = _mean(rank, pid, since_ns, "children_cpu_ratio")
    woken = _mean(rank, pid, since_ns, "children_switches_per_s")
    if cpu is None or woken is None:
        return None
    return cpu > IDLE_CPU_RATIO or woken > STILL_SWITCHES_PER_S


def threads_work(rank: RankWindow, pid: int, since_ns: int) -> bool | None:
    """Whether another thread of the process was woken again and again since a time."""
    woken = _mean(rank, pid, since_ns, "threads_switches_per_s")
    return None if woken is None else woken > STILL_SWITCHES_PER_S


def _mean(rank: RankWindow, pid: int, since_ns: int, column: str) -> float | None:
    rows = rank.table("processes")
    values = rows[column][(rows["pid"] == pid) & (rows["t_ns"] >= since_ns)]
    values = values[np.isfinite(values)]
    return float(values.mean()) if values.size >= FEW else None
