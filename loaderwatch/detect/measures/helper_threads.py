"""How much of the workers' CPU time goes to threads other than the one that reads."""

from __future__ import annotations

import math

import numpy as np

from loaderwatch.detect.measures.machine import RECENT_NS
from loaderwatch.detect.measures.pace import Pace
from loaderwatch.detect.measures.statistics import mean, total

LOOK_NS = 1_000_000_000  # processes are looked at this often, and a look tells of the time before it
FEW_FETCHES = 2
FEW_SECONDS = 4.0  # of fetching, all workers together: CPU use of processes is known to the second only


def helper_cpu_ratio(pace: Pace) -> float:
    """Share of the workers' CPU time that is not the reading thread's; NaN if not known.

    Of the last seconds, or where a fetch takes longer than those, of each worker's newest fetches.
    """
    fetches, processes = pace.fetches, pace.rank.table("processes")
    own_s = used_s = covered_s = 0.0
    for worker in np.unique(fetches.worker[fetches.worker >= 0]):
        rows = np.flatnonzero((fetches.worker == worker) & np.isfinite(fetches.cpu_s))
        lately = rows[fetches.ended_ns[rows] >= pace.rank.made_ns - RECENT_NS]
        rows = lately if lately.size >= FEW_FETCHES else rows[-FEW_FETCHES:]
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
