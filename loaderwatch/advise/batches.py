"""What a batch is made of, and whether a sample can be read at all.

Both are known from the few samples that ``doctor`` reads.
"""

from __future__ import annotations

from typing import Final

from loaderwatch.advise.facts import Facts, LoaderFacts
from loaderwatch.core.answers import Advice
from loaderwatch.detect.text import duration

MANY_TENSORS: Final = 200
"""Tensors in a batch above which it is dear to hand over.

Each costs the training thread a file descriptor and a map; measured 500 tensors ≈ 80 ms (pytorch#24984).
"""
MANY_OBJECTS: Final = 20_000
LARGE_ARRAYS_BYTES: Final = 8e6


def check(facts: Facts) -> list[Advice]:
    """Find samples that cannot be read, and batches that are dear to hand over."""
    found = []
    for loader in facts.loaders:
        found += [_unreadable(loader), _delivery(loader)]
    return [advice for advice in found if advice is not None]


def _unreadable(loader: LoaderFacts) -> Advice | None:
    probe = loader.probe
    if probe is not None and probe.unfinished_s is not None:
        return Advice(
            check="sample",
            severity="warning",
            what=f"Reading the first samples as a worker does had not ended after {duration(probe.unfinished_s)}.",
            why="The first batch takes at least as long, in each epoch whose workers are new, or never comes.",
            change=f"Time one sample alone, in a Python prompt: {_alone(loader)}. Look at what it opens, downloads or"
            " waits for.",
            loader=loader.info.name,
            ranks=[loader.rank],
        )
    if probe is not None and probe.died is not None:
        return Advice(
            check="sample",
            severity="critical",
            what=f"Reading the first samples as a worker does ends the process with {probe.died}.",
            why="A worker dies in the same way, and the training with it. SIGSEGV and SIGABRT come from a native library"
            " (often one that was used before the fork), SIGKILL from the memory limit, SIGBUS from a full /dev/shm.",
            change=f"Read one sample alone with `python -X faulthandler`: {_alone(loader)}. If that works, open the"
            " library's files and clients in the worker, on first use.",
            loader=loader.info.name,
            ranks=[loader.rank],
        )
    error = probe.error if probe is not None else None
    if error is None:
        return None
    change = f"Read one sample alone, in a Python prompt: {_alone(loader)}."
    if "CUDA" in error and "fork" in error:  # pytorch#77159
        change = (
            "Return CPU tensors from the dataset and move the batch to the GPU in the loop; num_workers=0 would hide"
            " the error and leave the GPU waiting."
        )
    return Advice(
        check="sample",
        severity="critical",
        what=f"Reading the first samples as a worker does fails: {error}",
        why="The first batch raises the same error.",
        change=change,
        loader=loader.info.name,
        ranks=[loader.rank],
    )


def _alone(loader: LoaderFacts) -> str:
    return "`next(iter(dataset))`" if loader.info.iterable_dataset else "`dataset[0]`"


def _delivery(loader: LoaderFacts) -> Advice | None:
    probe = loader.probe
    if probe is None or not loader.workers:
        return None
    share = max(1, probe.batch) / max(1, probe.samples)
    tensors, arrays, objects = probe.tensors or 0, probe.arrays or 0, probe.objects or 0
    many = [
        f"{number:,} {noun}"
        for number, noun, limit in (
            (tensors, "tensors", MANY_TENSORS),
            (int(objects * share), "Python objects", MANY_OBJECTS),
        )
        if number > limit
    ]
    if arrays and loader.batch_bytes > LARGE_ARRAYS_BYTES:
        many.append(f"NumPy arrays of {loader.batch_bytes / 1e6:.0f} MB")
    if not many:
        return None
    return Advice(
        check="delivery",
        severity="warning",
        what=f"A batch holds {' and '.join(many)}.",
        why="The training thread unpacks every batch itself: each tensor costs a file descriptor and a memory map,"
        " NumPy arrays and Python objects travel through a pipe. More workers or more prefetch do not help there.",
        change="Stack into few large torch tensors in collate_fn (torch.from_numpy for arrays), encode strings as one"
        " uint8 tensor, and leave out what the loop does not use.",
        loader=loader.info.name,
        ranks=[loader.rank],
    )
