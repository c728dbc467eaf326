"""How ranks and workers share the data: each its part, equal parts, and another order every epoch."""

from __future__ import annotations

from collections import defaultdict

from loaderwatch.advise.facts import Facts, LoaderFacts
from loaderwatch.core.answers import Advice
from loaderwatch.detect.streams import copies
from loaderwatch.detect.text import count, listing

NEW_BUFFER_SWITCH = (2, 13)
"""The torch version from which DDP has ``forward_sync_buffers``.

It deprecates ``broadcast_buffers`` (pytorch#178054).
"""


def check(facts: Facts) -> list[Advice]:
    """Find what goes wrong between ranks, streams that are not split, and shards that do not divide evenly."""
    found = [
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
    found += [advice for same in by_name.values() if (advice := _uneven(facts, same)) is not None]
    found += _buffers(facts)
    return found


def _same_order(loader: LoaderFacts) -> Advice | None:
    passes = loader.info.same_epoch_passes or 0
    if not loader.trains or passes < 2:
        return None
    return Advice(
        check="set-epoch",
        severity="warning",
        what=f"{passes if passes < 3 else '3 or more'} epochs in a row began with the same"
        f" {loader.info.sampler_class or 'DistributedSampler'}.epoch.",
        why="The sampler's order depends on its epoch alone, so every epoch goes through the data in the same order.",
        change=f"Call set_epoch(epoch) on the sampler of {loader.info.name} at the beginning of each epoch.",
        loader=loader.info.name,
        ranks=[loader.rank],
    )


def _epoch_never_set(facts: Facts, loader: LoaderFacts) -> Advice | None:
    """Find, before the run, a sampler whose epoch is never set.

    The script iterates the loader itself, and its source never says set_epoch.
    """
    report = (facts.reports or {}).get(loader.rank)
    if report is None or not loader.trains or loader.info.loader not in report.epoch_never_set:
        return None
    name = loader.info.name
    sampler = loader.info.sampler_class or "DistributedSampler"
    return Advice(
        check="set-epoch",
        severity="warning",
        what=f"Nothing in the script calls set_epoch, and {name}'s {sampler} shuffles by its epoch.",
        why="The sampler's order depends on its epoch alone, so every epoch goes through the data in the same order.",
        change=f"Call set_epoch(epoch) on the sampler of {name} at the beginning of each epoch; for a single one nothing"
        " changes.",
        loader=name,
        ranks=[loader.rank],
    )


def _shards(facts: Facts, loader: LoaderFacts) -> Advice | None:
    shards, workers = loader.info.shards, max(1, loader.workers)
    readers = workers * max(1, facts.world_size)
    if not shards or not loader.info.iterable_dataset or readers == 1 or shards % readers == 0:
        return None
    of = f"{count(workers, 'worker')}" + (
        f" × {count(facts.world_size, 'rank')}" if facts.world_size > 1 else ""
    )
    if shards < readers:
        what = (
            f"{count(shards, 'shard')} for {of}: {count(readers - shards, 'reader')} of {readers} get none."
        )
        fewer = max((n for n in range(1, workers) if shards % (n * max(1, facts.world_size)) == 0), default=0)
        change = f"At least {readers} shards of equal size" + (
            f", or num_workers={fewer} (now {loader.workers})." if fewer else "."
        )
    elif shards < 4 * readers:
        what = f"{count(shards, 'shard')} do not divide over {of}: some readers get one more than others."
        change = f"A multiple of {readers} shards of equal size."
    else:
        return None  # each reader has several, so that one more for some is a small imbalance
    return Advice(
        check="shards",
        severity="warning" if shards < readers or facts.world_size > 1 else "info",
        what=what,
        why="A worker that runs out of shards leaves the rest of the epoch to the others"
        + (
            "; ranks then see different numbers of batches, and the longer one hangs."
            if facts.world_size > 1
            else "."
        ),
        change=change,
        loader=loader.info.name,
        ranks=[loader.rank],
    )


def _copies(loader: LoaderFacts) -> Advice | None:
    """Find a stream whose workers each deliver all of it (pytorch/pytorch's documentation of IterableDataset warns of it)."""
    times, name = copies(loader.info), loader.info.name
    if times < 2:
        return None
    dataset = loader.info.dataset_class or "the dataset"
    return Advice(
        check="stream-split",
        severity="warning",
        what=f"{count(times, 'worker')} read {dataset}, and nothing in its code or in worker_init_fn asks which of them it is in.",
        why=f"Each worker iterates a copy of an IterableDataset, so every row is delivered {times} times: an epoch is {times} times as"
        f" long, and of the steps/s only every {'second' if times == 2 else f'{times}th'} is of new rows.",
        change=f"In {dataset}.__iter__ give each worker its part, as rows[info.id :: info.num_workers] with"
        " info = torch.utils.data.get_worker_info(); until then num_workers=1.",
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
        what=f"{same[0].info.name} has {batches[fewest]} batches on rank {fewest} and {batches[most]} on rank {most}.",
        why="Collectives pair up by count: when one rank's epoch ends, the others wait in backward until the"
        " collective times out."
        if trains
        else "That is fine as long as validation makes no collective. With different numbers of forward passes on each rank, a DDP model's buffers or a metric's collective no"
        " longer pair up, and the run hangs at the next training step.",
        change="Give every rank the same number: DistributedSampler, drop_last=True, or `with Join([model])`."
        if trains
        else f"Give every rank the same number, or call model.module in validation under torch.no_grad() ({switch(facts)}).",
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
            what=f"The DDP model sends {count(most, 'buffer')} around in each forward pass (ranks"
            f" {listing([str(rank) for rank in ranks])}), and there is an evaluation loader.",
            why="Validation through the DDP wrapper takes part in that: with different numbers of forward passes per"
            " rank the run hangs, usually at the first step of the next epoch (pytorch#54059).",
            change=f"Call model.module(x) in validation, under torch.no_grad(); {switch(facts)} also stops it.",
            ranks=sorted(ranks),
        )
    ]


def switch(facts: Facts) -> str:
    """Return the DDP argument of this torch version that stops the sending around of buffers."""
    versions = [version for rank in facts.processes if (version := facts.torch_of(rank)) is not None]
    new = not versions or min(versions) >= NEW_BUFFER_SWITCH
    return "forward_sync_buffers=False" if new else "broadcast_buffers=False"
