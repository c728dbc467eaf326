"""Threads that numeric libraries start inside workers.

``torch.set_num_threads`` in the training process does not reach workers. A worker limits only torch's
threads, to one. OpenBLAS, MKL, OpenCV, numexpr, rayon start one per CPU (pytorch#20311, pytorch#22451).
"""

from __future__ import annotations

import math
from typing import Final

from loaderwatch.advise.facts import Facts, LoaderFacts
from loaderwatch.core.answers import Advice
from loaderwatch.core.facts import LoaderProbe

OWN_THREADS: Final = 2
"""A worker's main thread, and the thread that feeds its result queue."""
BUSY_RATIO: Final = 1.1
"""CPUs that a worker keeps busy. Above it, more than one of its threads computes."""
COMPUTES_RATIO: Final = 0.5
OTHERS_RATIO: Final = 0.25
"""Share (0 to 1) of a worker's CPU time from which threads besides the reading one compute. An idle helper,
such as a client's event loop, is below it."""


def check(facts: Facts) -> list[Advice]:
    """Find loaders whose workers compute with several threads each, or will do so."""
    return [advice for loader in facts.loaders if (advice := _threaded(facts, loader)) is not None]


def _threaded(facts: Facts, loader: LoaderFacts) -> Advice | None:
    if not loader.workers:
        return None
    threads = _threads(loader)
    host = facts.host_of(loader)
    usable = host.usable_cpus if host is not None else math.nan
    computing = sum(other.workers for other in facts.on_host(loader.host) if other.trains) or loader.workers
    # Threads that fit onto the CPUs are a choice; only workers × threads beyond the CPUs hurt.
    if threads <= 1 or not computing * threads > usable:
        return None
    limits = (facts.processes[loader.rank].thread_limits if loader.rank in facts.processes else None) or {}
    too_high = [f"{name}={value}" for name, value in limits.items() if value.isdecimal() and int(value) > 1]
    return Advice(
        check="worker-threads",
        severity="warning",
        rule="worker-threads",
        params={
            "threads": threads,
            "computing": computing,
            "total": computing * threads,
            "usable_cpus": usable,
            "of_cpus": None,
            "limits": ", ".join(too_high) or None,
            "workers": loader.workers,
        },
        loader=loader.info.name,
        ranks=[loader.rank],
    )


def _threads(loader: LoaderFacts) -> int:
    """Return how many threads a worker computes with; 1 without a sign of more."""
    probe = loader.probe
    if probe is not None:
        several = (probe.threads or 1) > 1 and loader.fetch_cpu_ratio > COMPUTES_RATIO
        return (probe.threads or 1) if several and _others_compute(probe) else 1
    if not (loader.worker_threads > OWN_THREADS and loader.worker_cpu_ratio > BUSY_RATIO):
        return 1
    return int(loader.worker_threads) - OWN_THREADS + 1


def _others_compute(probe: LoaderProbe) -> bool:
    if probe.main_cpu_s is None or not probe.cpu_s:
        return True
    return 1 - probe.main_cpu_s / probe.cpu_s >= OTHERS_RATIO
