"""Batches read ahead: whether they outlast a slow fetch, and whether shared memory holds them."""

from __future__ import annotations

import math
from typing import Final

from loaderwatch.advise.facts import Facts, HostFacts, LoaderFacts
from loaderwatch.core.answers import Advice
from loaderwatch.detect.measures.gain import prefetch_needed
from loaderwatch.detect.text import count, duration

TIGHT_RATIO: Final = 0.8
CONTAINER_SHM_BYTES: Final = 64 * 2**20
"""What Docker and Kubernetes give a container that asks for nothing (pytorch#5040)."""
MOST_PREFETCH: Final = 32


def check(facts: Facts) -> list[Advice]:
    """Find loaders whose slow fetches outlast the batches ready, and machines short of shared memory."""
    found = [advice for loader in facts.loaders if (advice := _jitter(facts, loader)) is not None]
    found += [advice for host in facts.hosts.values() if (advice := _shared_memory(facts, host)) is not None]
    return found


def _jitter(facts: Facts, loader: LoaderFacts) -> Advice | None:
    """Find slow fetches that outlast the batches that lie ready, or return None.

    This is only done where the mean fetch is fast enough: prefetching more gives no throughput.
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
    memory = f" It takes up to {_size(more)} more shared memory." if math.isfinite(more) else ""
    return Advice(
        check="prefetch",
        severity="warning",
        what=f"prefetch_factor={ahead} × {count(workers, 'worker')} cover {duration(cushion_s)} of training, but the"
        f" slowest fetches take {duration(loader.fetch_tail_s)}.",
        why=f"On average the workers keep up ({duration(loader.fetch_s)} per fetch, {duration(loader.step_s)} per step);"
        " only their rare slow fetches outlast the batches that lie ready.",
        change=f"prefetch_factor={wanted}.{memory}",
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
        parts = ", ".join(_part(loader) for loader in sized if loader.rank == sized[0].rank)
        ranks = facts.ranks_on(host.name)
        return Advice(
            check="shared-memory",
            severity="critical" if need > free else "warning",
            what=f"Batches in flight need up to {_size(need)} of shared memory ({parts}"
            + (f", times {count(ranks, 'rank')}" if ranks > 1 else "")
            + f"); /dev/shm on {host.name} has {_size(free)} free of {_size(host.shm_bytes)}.",
            why="Workers hand batches over in shared memory. When it is full they fail with a bus error or"
            " 'unable to write to file', often only when the second loader starts.",
            change=f"Enlarge it to at least {_size(_generous(need))} (docker --shm-size or --ipc=host; in Kubernetes an"
            f" emptyDir with medium: Memory on /dev/shm), or {_lower(sized, TIGHT_RATIO * free / need)}.",
            ranks=sorted({loader.rank for loader in loaders}),
        )
    if not sized and host.shm_bytes <= CONTAINER_SHM_BYTES:
        return Advice(
            check="shared-memory",
            severity="info",
            what=f"/dev/shm on {host.name} has {_size(host.shm_bytes)}, a container's default.",
            why="Workers hand batches over in shared memory, and it is shared by all loaders and ranks.",
            change="Start the container with --shm-size or --ipc=host.",
            ranks=sorted({loader.rank for loader in loaders}),
        )
    return None


def _lower(sized: list[LoaderFacts], by: float) -> str:
    """Return what to lower so that batches in flight need only the share ``by`` of what they need now."""
    largest = max(sized, key=lambda loader: loader.in_flight * loader.batch_bytes)
    now, name = largest.info.prefetch_factor or 2, largest.info.name
    factor = math.floor(now * by)
    if 1 <= factor < now:
        return f"set prefetch_factor={factor} (now {now}) for {name}"
    return f"lower num_workers (now {largest.workers}) or the batch size of {name}"


def _part(loader: LoaderFacts) -> str:
    ahead = f"{loader.workers} × {loader.info.prefetch_factor or 2}"
    if loader.in_flight == (loader.info.batches or 0) + 1:
        ahead = f"all {loader.info.batches}"
    return f"{loader.info.name}: {ahead} batches of {_size(loader.batch_bytes)}"


def _generous(need: float) -> float:
    return 1.5 * need


def _size(size: float) -> str:
    if size >= 10e9:
        return f"{size / 1e9:.0f} GB"
    if size >= 1e9:
        return f"{size / 1e9:.1f} GB"
    if size >= 1e6:
        return f"{size / 1e6:.0f} MB"
    return f"{size / 1e3:.0f} kB"
