"""How ranks and workers share the data: each reads its own part, equal parts, in a new order every epoch."""

from __future__ import annotations

from collections import defaultdict

from loaderwatch.advise.facts import Facts, LoaderFacts
from loaderwatch.core.answers import Advice
from loaderwatch.detect.iterable_datasets import copies

NEW_BUFFER_SWITCH = (2, 13)
"""First torch version with DDP's ``forward_sync_buffers``; it deprecates the old name (pytorch#178054)."""


def check(facts: Facts) -> list[Advice]:
    """Find faults between ranks, streams that are not split, and shards that do not divide evenly."""
    advices = [
        advice
        for loader in facts.loaders
        for advice in (
            _same_order(loader),
            _epoch_never_set(facts, loader),
            _shards(facts, loader),
            _copies(loader),
        )
        if advice
    ]
    by_name: dict[str, list[LoaderFacts]] = defaultdict(list)
    for loader in facts.loaders:
        by_name[loader.info.name].append(loader)
    advices += [advice for same in by_name.values() if (advice := _uneven(facts, same)) is not None]
    advices += _buffers(facts)
    return advices


def _same_order(loader: LoaderFacts) -> Advice | None:
    passes = loader.info.same_epoch_passes or 0
    if not loader.trains or passes < 2:
        return None
    return Advice(
        check="set-epoch",
        severity="warning",
        rule="set-epoch-forgotten",
        params={
            "passes": passes,
            "sampler": loader.info.sampler_class or "DistributedSampler",
            "loader": loader.info.name,
        },
        loader=loader.info.name,
        ranks=[loader.rank],
    )


def _epoch_never_set(facts: Facts, loader: LoaderFacts) -> Advice | None:
    """Find, before the run, a sampler whose epoch is never set by a script that iterates the loader."""
    report = (facts.reports or {}).get(loader.rank)
    if report is None or not loader.trains or loader.info.loader not in report.epoch_never_set:
        return None
    name = loader.info.name
    sampler = loader.info.sampler_class or "DistributedSampler"
    return Advice(
        check="set-epoch",
        severity="warning",
        rule="set-epoch-absent",
        params={"loader": name, "sampler": sampler},
        loader=name,
        ranks=[loader.rank],
    )


def _shards(facts: Facts, loader: LoaderFacts) -> Advice | None:
    shards, workers = loader.info.shards, max(1, loader.workers)
    readers = workers * max(1, facts.world_size)
    if not shards or not loader.info.iterable_dataset or readers == 1 or shards % readers == 0:
        return None
    few = shards < readers
    if not few and shards >= 4 * readers:
        return None  # each reader has several, so one more for some is a small imbalance
    ranks = facts.world_size
    fewer = max((n for n in range(1, workers) if shards % (n * max(1, ranks)) == 0), default=None)
    return Advice(
        check="shards",
        severity="warning" if few or ranks > 1 else "info",
        rule="shards-few" if few else "shards-uneven",
        params={
            "shards": shards,
            "workers": workers,
            "ranks": ranks if ranks > 1 else None,
            "readers": readers,
            "idle": max(0, readers - shards),
            "num_workers": fewer,
            "num_workers_now": loader.workers,
        },
        loader=loader.info.name,
        ranks=[loader.rank],
    )


def _copies(loader: LoaderFacts) -> Advice | None:
    """Find a stream that each worker delivers in full (PyTorch's docs of IterableDataset warn of it)."""
    times, name = copies(loader.info), loader.info.name
    if times < 2:
        return None
    return Advice(
        check="stream-split",
        severity="warning",
        rule="stream-split",
        params={"workers": times, "dataset": loader.info.dataset_class or None},
        loader=name,
        ranks=[loader.rank],
    )


def _uneven(facts: Facts, same: list[LoaderFacts]) -> Advice | None:
    batches = {loader.rank: loader.info.batches for loader in same if loader.info.batches is not None}
    if facts.world_size < 2 or len(set(batches.values())) < 2:
        return None
    fewest = min(batches, key=lambda rank: batches[rank] or 0)
    most = max(batches, key=lambda rank: batches[rank] or 0)
    trains = same[0].trains
    return Advice(
        check="uneven-batches",
        severity="critical" if trains else "info",
        rule="uneven-batches" if trains else "uneven-batches-of-evaluation",
        params={
            "loader": same[0].info.name,
            "fewest": batches[fewest],
            "fewest_rank": fewest,
            "most": batches[most],
            "most_rank": most,
            "switch": switch(facts),
        },
        loader=same[0].info.name,
        ranks=sorted(batches),
    )


def _buffers(facts: Facts) -> list[Advice]:
    buffers = {rank: process.synced_buffers or 0 for rank, process in facts.processes.items()}
    most = max(buffers.values(), default=0)
    evaluates = any(not loader.trains for loader in facts.loaders)
    if facts.world_size < 2 or not most or not evaluates:
        return []
    ranks = [rank for rank, number in buffers.items() if number]
    return [
        Advice(
            check="ddp-buffers",
            severity="info",
            rule="ddp-buffers",
            params={"buffers": most, "ranks": ranks, "switch": switch(facts)},
            ranks=sorted(ranks),
        )
    ]


def switch(facts: Facts) -> str:
    """Return the DDP argument of this torch version that stops the broadcast of buffers."""
    versions = [version for rank in facts.processes if (version := facts.torch_of(rank)) is not None]
    new = not versions or min(versions) >= NEW_BUFFER_SWITCH
    return "forward_sync_buffers" if new else "broadcast_buffers"
