"""The content of a batch, and whether samples can be read at all, from the few that ``doctor`` reads."""

from __future__ import annotations

from functools import reduce
from typing import Final

from loaderwatch.advise.facts import Facts, LoaderFacts
from loaderwatch.core.answers import Advice, Text

MANY_TENSORS: Final = 200
"""Tensors in a batch above which its handover is expensive. Each costs the training thread a file descriptor
and a map; measured: 500 tensors ≈ 80 ms (pytorch#24984)."""
MANY_OBJECTS: Final = 20_000
LARGE_ARRAYS_BYTES: Final = 8e6


def check(facts: Facts) -> list[Advice]:
    """Find unreadable samples, and batches with an expensive handover."""
    advices = []
    for loader in facts.loaders:
        advices += [_unreadable(loader), _delivery(loader)]
    return [advice for advice in advices if advice is not None]


def _unreadable(loader: LoaderFacts) -> Advice | None:
    probe = loader.probe
    stream = bool(loader.info.iterable_dataset)
    if probe is not None and probe.unfinished_s is not None:
        return Advice(
            check="sample",
            severity="warning",
            rule="sample-unfinished",
            params={"waited_s": probe.unfinished_s, "stream": stream},
            loader=loader.info.name,
            ranks=[loader.rank],
        )
    if probe is not None and probe.died is not None:
        return Advice(
            check="sample",
            severity="critical",
            rule="sample-died",
            params={"died": probe.died, "stream": stream},
            loader=loader.info.name,
            ranks=[loader.rank],
        )
    error = probe.error if probe is not None else None
    if error is None:
        return None
    return Advice(
        check="sample",
        severity="critical",
        rule="sample-needs-cuda" if "CUDA" in error and "fork" in error else "sample-fails",  # pytorch#77159
        params={"error": error, "stream": stream},
        loader=loader.info.name,
        ranks=[loader.rank],
    )


def _delivery(loader: LoaderFacts) -> Advice | None:
    probe = loader.probe
    if probe is None or not loader.workers:
        return None
    share = max(1, probe.batch) / max(1, probe.samples)
    tensors, arrays, objects = probe.tensors or 0, probe.arrays or 0, probe.objects or 0
    many = [
        Text(message, {"number": number})
        for message, number, limit in (
            ("batch-tensors", tensors, MANY_TENSORS),
            ("batch-objects", int(objects * share), MANY_OBJECTS),
        )
        if number > limit
    ]
    if arrays and loader.batch_bytes > LARGE_ARRAYS_BYTES:
        many.append(Text("batch-arrays", {"batch_bytes": loader.batch_bytes}))
    if not many:
        return None
    return Advice(
        check="delivery",
        severity="warning",
        rule="delivery",
        params={"parts": reduce(lambda first, more: Text("and-also", {"first": first, "more": more}), many)},
        loader=loader.info.name,
        ranks=[loader.rank],
    )
