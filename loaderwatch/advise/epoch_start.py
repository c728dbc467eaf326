"""How workers start: once or every epoch, with an inherited or a pickled dataset."""

from __future__ import annotations

import math
from typing import Final

from loaderwatch.advise.facts import Facts, LoaderFacts
from loaderwatch.core.answers import Advice
from loaderwatch.detect.measures.statistics import ratio

RESTART_RATIO: Final = 0.05
"""Share of an epoch from which restarting the workers is worth advice."""
RESTART_S: Final = 0.3
LARGE_PICKLE_BYTES: Final = 50e6
SLOW_PICKLE_S: Final = 0.5


def check(facts: Facts) -> list[Advice]:
    """Find workers restarted each epoch, datasets that must be pickled, and a missing main guard."""
    advices = []
    for loader in facts.loaders:
        advices += [_restarting(facts, loader), _pickled(loader), _unguarded(facts, loader)]
    return [advice for advice in advices if advice is not None]


def _inherits(loader: LoaderFacts) -> bool:
    return loader.info.start_method in (None, "fork")


def _restarting(facts: Facts, loader: LoaderFacts) -> Advice | None:
    info = loader.info
    if not loader.workers or info.persistent_workers is not False or not loader.trains:
        return None
    measured = loader.starts > 0 and math.isfinite(loader.start_s)
    share = ratio(loader.start_s, loader.epoch_s) if measured else math.nan
    if measured and (loader.start_s < RESTART_S or share < RESTART_RATIO):
        return None  # measured, and it does not matter
    start = "measured" if measured else "forked" if _inherits(loader) else "spawned"
    return Advice(
        check="persistent-workers",
        severity="info" if start == "forked" else "warning",
        rule="persistent-workers",
        params={
            "start": start,
            "workers": loader.workers,
            "start_s": loader.start_s if measured else None,
            "epoch_ratio": min(1.0, share) if math.isfinite(share) else None,
            "rebuilt": 2 * loader.rebuilt > loader.starts,
            "method": info.start_method,
            "stream": bool(info.iterable_dataset),
        },
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
            rule="pickle-fails",
            params={"method": method, "error": probe.pickle_error},
            loader=loader.info.name,
            ranks=[loader.rank],
        )
    size, took_s = probe.pickle_bytes or 0, probe.pickle_s or 0.0
    if size < LARGE_PICKLE_BYTES and took_s < SLOW_PICKLE_S:
        return None
    return Advice(
        check="pickle",
        severity="warning",
        rule="pickle-large",
        params={
            "method": method,
            "pickle_bytes": size,
            "pickle_s": took_s,
            "workers": loader.workers,
            "total_s": loader.workers * took_s,
        },
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
        rule="main-guard",
        params={"method": loader.info.start_method},
        loader=loader.info.name,
        ranks=[loader.rank],
    )
