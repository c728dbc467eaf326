"""How workers come to life: once or every epoch, inheriting the dataset or having it pickled to them."""

from __future__ import annotations

import math
from typing import Final

from loaderwatch.advise.facts import Facts, LoaderFacts
from loaderwatch.core.answers import Advice, Severity
from loaderwatch.detect.measures.statistics import ratio
from loaderwatch.detect.text import count, duration, percent

RESTART_RATIO: Final = 0.05
"""Share of an epoch from which starting workers anew is worth a word."""
RESTART_S: Final = 0.3
LARGE_PICKLE_BYTES: Final = 50e6
SLOW_PICKLE_S: Final = 0.5


def check(facts: Facts) -> list[Advice]:
    """Find workers started anew each epoch, datasets that have to be pickled, and a missing main guard."""
    found = []
    for loader in facts.loaders:
        found += [_restarting(facts, loader), _pickled(loader), _unguarded(facts, loader)]
    return [advice for advice in found if advice is not None]


def _inherits(loader: LoaderFacts) -> bool:
    return loader.info.start_method in (None, "fork")


def _restarting(facts: Facts, loader: LoaderFacts) -> Advice | None:
    info = loader.info
    if not loader.workers or info.persistent_workers is not False or not loader.trains:
        return None
    measured = loader.starts > 0 and math.isfinite(loader.start_s)
    share = ratio(loader.start_s, loader.epoch_s) if measured else math.nan
    if measured and (loader.start_s < RESTART_S or share < RESTART_RATIO):
        return None  # it was measured, and it does not matter
    anew = 2 * loader.rebuilt > loader.starts
    made = ", and a new DataLoader for each epoch" if anew else ""
    if measured:
        severity: Severity = "warning"
        what = (
            f"persistent_workers=False{made}: {count(loader.workers, 'worker')}, started anew in each epoch, which takes"
            f" {duration(loader.start_s)} until the first batch"
            + (f", {percent(min(1.0, share))} of an epoch." if math.isfinite(share) else ".")
        )
    elif not _inherits(loader):
        severity = "warning"
        what = (
            f"persistent_workers=False with start method {info.start_method!r}: each epoch"
            f" starts {count(loader.workers, 'process', 'processes')} anew, which import everything and unpickle the dataset."
        )
    else:
        severity = "info"
        what = (
            f"persistent_workers=False: {count(loader.workers, 'worker')}, started and ended in each epoch."
        )
    stream = " Caution: a dataset that changes between epochs (set_epoch on an IterableDataset) no longer reaches them."
    return Advice(
        check="persistent-workers",
        severity=severity,
        what=what,
        why="Each epoch begins with an empty queue: the workers start, then read the first batches while the model waits.",
        change="Make the DataLoader once, outside the epoch loop: with persistent_workers=True it keeps them."
        if anew
        else "persistent_workers=True keeps them." + (stream if info.iterable_dataset else ""),
        loader=info.name,
        ranks=[loader.rank],
    )


def _pickled(loader: LoaderFacts) -> Advice | None:
    probe, method = loader.probe, loader.info.start_method
    if probe is None or not loader.workers or _inherits(loader):
        return None
    if probe.pickle_error is not None:
        return Advice(
            check="pickle",
            severity="critical",
            what=f"Start method {method!r} has to pickle the dataset, collate_fn and worker_init_fn, and that fails:"
            f" {probe.pickle_error}",
            why="The workers cannot start; the first iteration raises.",
            change="Use functions of a module instead of lambdas and local functions, and open files, databases and"
            " locks in the worker on first use (leave them out in __getstate__).",
            loader=loader.info.name,
            ranks=[loader.rank],
        )
    size, took_s = probe.pickle_bytes or 0, probe.pickle_s or 0.0
    if size < LARGE_PICKLE_BYTES and took_s < SLOW_PICKLE_S:
        return None
    return Advice(
        check="pickle",
        severity="warning",
        what=f"Start method {method!r} pickles {size / 1e6:.0f} MB in {duration(took_s)} for each of"
        f" {count(loader.workers, 'worker')}, one after the other.",
        why=f"That is about {duration(loader.workers * took_s)} in the training process before the first batch,"
        " and each worker holds its own copy.",
        change="Keep file lists and labels in NumPy arrays or Arrow tables instead of Python objects, or load them in"
        " the worker; persistent_workers=True pays it once.",
        loader=loader.info.name,
        ranks=[loader.rank],
    )


def _unguarded(facts: Facts, loader: LoaderFacts) -> Advice | None:
    report = (facts.reports or {}).get(loader.rank)
    if report is None or report.main_guard is not False or not loader.workers or _inherits(loader):
        return None
    return Advice(
        check="main-guard",
        severity="critical",
        what=f'The script has no `if __name__ == "__main__":`, and its workers start by {loader.info.start_method!r}.',
        why="Each worker imports the script again, and so begins to train by itself; Python stops that with an error"
        " about its bootstrapping phase.",
        change='Put what the script does under `if __name__ == "__main__":`.',
        loader=loader.info.name,
        ranks=[loader.rank],
    )
