"""Batches read ahead: whether they outlast a slow fetch, and whether shared memory holds them."""

from __future__ import annotations

import math
from functools import reduce
from typing import Final

from loaderwatch.advise.facts import Facts, HostFacts, LoaderFacts
from loaderwatch.core.answers import Advice, Param, Text
from loaderwatch.detect.measures.gain import MOST_PREFETCH, prefetch_needed

TIGHT_RATIO: Final = 0.8
CONTAINER_SHM_BYTES: Final = 64 * 2**20
"""The default of Docker and Kubernetes for a container (pytorch#5040)."""
ENOUGH_TIMES: Final = 1.5
"""The advised size of /dev/shm, as a multiple of what the batches in flight need."""


def check(facts: Facts) -> list[Advice]:
    """Find loaders whose slow fetches outlast the ready batches, and machines short of shared memory."""
    found = [advice for loader in facts.loaders if (advice := _jitter(facts, loader)) is not None]
    found += [advice for host in facts.hosts.values() if (advice := _shared_memory(facts, host)) is not None]
    return found


def _jitter(facts: Facts, loader: LoaderFacts) -> Advice | None:
    """Find slow fetches that outlast the ready batches, if the mean fetch is fast enough.

    Otherwise more prefetch gives no throughput.
    """
    workers, ahead = loader.workers, loader.info.prefetch_factor
    if not workers or not ahead or not loader.trains or not loader.step_s > 0:
        return None
    if not loader.fetch_s / workers < 0.9 * loader.step_s:
        return None
    cushion_s = ahead * workers * loader.step_s
    if not loader.fetch_tail_s > max(1.5 * cushion_s, 0.25):
        return None
    wanted = min(MOST_PREFETCH, prefetch_needed(loader.fetch_tail_s, loader.step_s, workers))
    if wanted <= ahead:
        return None
    more = (wanted - ahead) * workers * loader.batch_bytes
    return Advice(
        check="prefetch",
        severity="warning",
        rule="prefetch",
        params={
            "prefetch_factor": wanted,
            "prefetch_factor_now": ahead,
            "workers": workers,
            "covered_s": cushion_s,
            "slowest_s": loader.fetch_tail_s,
            "fetch_s": loader.fetch_s,
            "step_s": loader.step_s,
            "more_bytes": more if math.isfinite(more) else None,
        },
        loader=loader.info.name,
        ranks=[loader.rank],
    )


def _shared_memory(facts: Facts, host: HostFacts) -> Advice | None:
    if not math.isfinite(host.shm_bytes):
        return None
    loaders = [loader for loader in facts.on_host(host.name) if loader.workers]
    if not loaders:
        return None
    free = max(0.0, host.shm_bytes - host.shm_used_bytes)
    sized = [loader for loader in loaders if math.isfinite(loader.batch_bytes)]
    need = sum(loader.in_flight * loader.batch_bytes for loader in sized)
    if need > TIGHT_RATIO * free:
        parts = [_part(loader) for loader in sized if loader.rank == sized[0].rank]
        ranks = facts.ranks_on(host.name)
        return Advice(
            check="shared-memory",
            severity="critical" if need > free else "warning",
            rule="shared-memory-short",
            params={
                "needed_bytes": need,
                "loaders": reduce(
                    lambda first, more: Text("comma-also", {"first": first, "more": more}), parts
                ),
                "ranks": ranks if ranks > 1 else None,
                "host": host.name,
                "free_bytes": free,
                "total_bytes": host.shm_bytes,
                "enough_bytes": ENOUGH_TIMES * need,
                **_lower(sized, TIGHT_RATIO * free / need),
            },
            ranks=sorted({loader.rank for loader in loaders}),
        )
    if not sized and host.shm_bytes <= CONTAINER_SHM_BYTES:
        return Advice(
            check="shared-memory",
            severity="info",
            rule="shared-memory-default",
            params={"host": host.name, "total_bytes": host.shm_bytes},
            ranks=sorted({loader.rank for loader in loaders}),
        )
    return None


def _lower(sized: list[LoaderFacts], by: float) -> dict[str, Param]:
    """Return what to lower so that batches in flight need only the share ``by`` of today's need."""
    largest = max(sized, key=lambda loader: loader.in_flight * loader.batch_bytes)
    now = largest.info.prefetch_factor or 2
    factor = math.floor(now * by)
    return {
        "loader": largest.info.name,
        "prefetch_factor": factor if 1 <= factor < now else None,
        "prefetch_factor_now": now,
        "num_workers": largest.workers,
    }


def _part(loader: LoaderFacts) -> Text:
    return Text(
        "loader-reads-ahead",
        {
            "loader": loader.info.name,
            "all": loader.in_flight == (loader.info.batches or 0) + 1,
            "batches": loader.info.batches,
            "workers": loader.workers,
            "prefetch_factor": loader.info.prefetch_factor or 2,
            "batch_bytes": loader.batch_bytes,
        },
    )
