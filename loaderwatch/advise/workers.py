"""Workers against CPUs: more than the process's CPUs can run, or none at all."""

from __future__ import annotations

import math
from typing import Final

from loaderwatch.advise.facts import Facts, HostFacts, LoaderFacts
from loaderwatch.core.answers import Advice, Param
from loaderwatch.detect.iterable_datasets import split
from loaderwatch.detect.measures.fetches import taken_from_memory
from loaderwatch.detect.measures.gain import workers_needed
from loaderwatch.detect.shared_thresholds import LATENCY_CPU_RATIO

SERIAL_STEP_RATIO: Final = 0.1
"""Share (0 to 1) of a step from which loading on the training thread is worth advice. Below it, more
processes would cost more than they gain (Lightning#18149: message passing dominates for data in memory)."""
SERIAL_FLOOR_S: Final = 0.005
"""Seconds of a fetch below which workers gain nothing: passing a batch on costs about a millisecond."""
SERIAL_FETCH_S: Final = 0.05
"""Seconds of a fetch from which loading on the training thread is worth advice if the step is unknown."""

MUCH_CROWDED: Final = 1.5
"""Computing workers per CPU from which more workers cost time. Below, more of them only gain nothing."""


def check(facts: Facts) -> list[Advice]:
    """Find too many workers on a machine, then loaders without workers, then a mask that leaves one CPU."""
    advices = [advice for host in facts.hosts.values() for advice in _crowded(facts, host)]
    advices += [advice for loader in facts.loaders if (advice := _serial(facts, loader)) is not None]
    advices += [advice for host in facts.hosts.values() if (advice := _one_cpu(facts, host)) is not None]
    return advices


def _crowded(facts: Facts, host: HostFacts) -> list[Advice]:
    if not math.isfinite(host.usable_cpus):
        return []
    loaders = [loader for loader in facts.on_host(host.name) if loader.workers]
    # An evaluation loader's workers compute only while no others do, unless they persist and read ahead.
    at_once = [loader for loader in loaders if loader.trains or loader.info.persistent_workers]
    at_once = at_once or loaders
    total = sum(loader.workers for loader in at_once)
    ratios = [loader.fetch_cpu_ratio for loader in at_once if math.isfinite(loader.fetch_cpu_ratio)]
    cpu_ratio = max(ratios, default=math.nan)
    if total <= host.usable_cpus or cpu_ratio < LATENCY_CPU_RATIO:
        return []  # workers that wait for storage or network do not need a CPU each
    ranks = facts.ranks_on(host.name)
    per_rank = most_workers(host.usable_cpus, ranks)
    largest = max(at_once, key=lambda loader: loader.workers)
    if per_rank >= largest.workers:
        return []  # several small loaders: there is no single number to change
    names = sorted({loader.info.name for loader in at_once})
    return [
        Advice(
            check="workers-cpus",
            severity="warning" if total >= MUCH_CROWDED * host.usable_cpus else "info",
            rule="workers-cpus",
            params={
                "workers": total,
                "ranks": ranks if ranks > 1 else None,
                "split": _split(at_once) if len(at_once) > 1 else None,
                **cpus(host),
                "computing_ratio": min(1.0, cpu_ratio) if math.isfinite(cpu_ratio) else None,
                "quota": _is_quota(host),
                "num_workers": per_rank,
                "num_workers_now": largest.workers,
                "loader": largest.info.name,
            },
            loader=largest.info.name if len(names) == 1 else None,
            ranks=sorted({loader.rank for loader in at_once}),
        )
    ]


def _split(loaders: list[LoaderFacts]) -> str:
    """Return how the workers of one rank are split over its loaders: "8", or "8 + 4" for two of them."""
    first = min(loader.rank for loader in loaders)
    return " + ".join(str(loader.workers) for loader in loaders if loader.rank == first)


def cpus(host: HostFacts | None) -> dict[str, Param]:
    """Return the parameters of the message ``usable-cpus``: the usable CPUs, and the total if larger."""
    if host is None or not math.isfinite(host.usable_cpus):
        return {"usable_cpus": None, "of_cpus": None}
    return {"usable_cpus": host.usable_cpus, "of_cpus": host.cpus if host.usable_cpus < host.cpus else None}


def _is_quota(host: HostFacts) -> bool:
    return (
        math.isfinite(host.quota_cpus) and host.quota_cpus <= host.usable_cpus and host.quota_cpus < host.cpus
    )


def _serial(facts: Facts, loader: LoaderFacts) -> Advice | None:
    if loader.info.num_workers != 0 or not loader.trains or not math.isfinite(loader.fetch_s):
        return None
    known_step = math.isfinite(loader.step_s)
    least_s = max(SERIAL_FLOOR_S, SERIAL_STEP_RATIO * loader.step_s) if known_step else SERIAL_FETCH_S
    if loader.fetch_s < least_s or _in_memory(loader):
        return None
    host = facts.host_of(loader)
    most = _room(facts, host, loader)
    if most is not None and most < 1:
        return None
    wanted = workers_needed(loader.fetch_s, loader.step_s) if known_step else 2
    wanted = wanted if most is None else min(wanted, most)
    return Advice(
        check="workers-none",
        severity="warning",
        rule="workers-none",
        params={
            "fetch_s": loader.fetch_s,
            "step_s": loader.step_s if known_step else None,
            "num_workers": wanted,
            **cpus(host),
            **split(loader.info),
        },
        loader=loader.info.name,
        ranks=[loader.rank],
    )


def _in_memory(loader: LoaderFacts) -> bool:
    samples = math.nan if loader.info.batch_size is None else float(loader.info.batch_size)
    cpu_s = loader.fetch_s * loader.fetch_cpu_ratio
    return taken_from_memory(samples, cpu_s, loader.fetch_s, loader.batch_bytes, read=loader.read_bytes)


def _room(facts: Facts, host: HostFacts | None, loader: LoaderFacts) -> int | None:
    """Return how many workers still find a CPU; None if they need none or it is unknown."""
    if host is None or not math.isfinite(host.usable_cpus) or loader.fetch_cpu_ratio < LATENCY_CPU_RATIO:
        return None
    ranks = max(1, facts.ranks_on(host.name))
    return most_workers(host.usable_cpus, ranks) if host.usable_cpus > ranks else 0


def most_workers(usable_cpus: float, ranks: int) -> int:
    """Return how many computing workers each rank may have: one per CPU of its share.

    From three CPUs on, one is left for the training process. Of two CPUs both may load: a training process
    that drives a GPU sleeps most of the time.
    """
    per_rank = math.floor(usable_cpus / max(1, ranks))
    return max(1, per_rank if per_rank <= 2 else per_rank - 1)


def _one_cpu(facts: Facts, host: HostFacts) -> Advice | None:
    """Find a mask that leaves one of several CPUs although there is no quota (pytorch#101850)."""
    if host.usable_cpus != 1 or host.cpus < 4 or math.isfinite(host.quota_cpus):
        return None
    loaders = [loader for loader in facts.on_host(host.name) if loader.workers]
    if not loaders:
        return None
    return Advice(
        check="affinity",
        severity="warning",
        rule="affinity",
        params={"cpus": host.cpus},
        ranks=sorted({loader.rank for loader in loaders}),
    )
