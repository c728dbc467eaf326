"""What other numbers of workers would give: a table, from the fetch and step times of a running loader.

The model is the same that the detectors' advice rests on: loading and computing overlap, so an iteration
takes as long as the slower of the two. Workers that compute share the usable CPUs; workers that wait for
storage do not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from loaderwatch.detect.limits import LATENCY_CPU_RATIO, Limits
from loaderwatch.detect.measures.gain import gain_ratio, iteration_with
from loaderwatch.detect.measures.machine import cpus_of
from loaderwatch.detect.measures.pace import Pace, paces, recent
from loaderwatch.detect.measures.statistics import mean
from loaderwatch.detect.window import RunWindow

MOST_WORKERS = 32


@dataclass(frozen=True, slots=True)
class Option:
    """One number of workers, and what it would bring at most.

    Times are in seconds, ``gain_ratio`` is a share of the run's time, 0 to 1.
    """

    num_workers: int
    iteration_s: float
    steps_per_s: float
    gain_ratio: float
    fits_cpus: bool  # False: these workers would share CPUs, so that the promise is not kept


def what_if(window: RunWindow, rank: int, loader: int) -> list[Option]:
    """Return the options for the loader of a rank, from one worker to where more bring nothing.

    The list is empty when the loader is not being iterated, is no DataLoader, or its fetch times are not
    known.
    """
    found = window.ranks.get(rank)
    pace = next((p for p in paces(found) if p.loader.loader == loader), None) if found else None
    now = recent(pace, Limits()) if pace else None
    if found is None or now is None or now.workers is None:
        return []
    fetch_s, step_s = _fetch_s(now), now.mean_step_s
    if not (fetch_s > 0 and step_s > 0):
        return []
    cpus = cpus_of(window, found)
    computing = not now.fetches.cpu_ratio < LATENCY_CPU_RATIO
    most = cpus.per_rank if computing else math.inf
    options = []
    for workers in range(1, MOST_WORKERS + 1):
        after_s = iteration_with(fetch_s, workers, step_s)
        options.append(
            Option(
                num_workers=workers,
                iteration_s=after_s,
                steps_per_s=1 / after_s,
                gain_ratio=gain_ratio(now.iteration_s, after_s) or 0.0,
                fits_cpus=not workers > most,
            )
        )
        if after_s <= 1.01 * step_s:
            break
    return options


def _fetch_s(pace: Pace) -> float:
    """Return the mean seconds to read a batch, without workers the wait itself; NaN if not known."""
    mean_s = mean(pace.fetches.fetch_s)
    return mean_s if math.isfinite(mean_s) else mean(pace.wait_s) if not pace.workers else math.nan
