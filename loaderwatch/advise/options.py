"""Single options: calls that ``DataLoader`` refuses, pinning, timeout, snapshots, the flight recorder."""

from __future__ import annotations

import math
from typing import Final

from loaderwatch.advise.facts import Facts, LoaderFacts
from loaderwatch.core.answers import Advice

TIMEOUT_ROOM: Final = 3.0
"""A timeout below this multiple of the slowest wait so far turns a hiccup into a crash."""

_REFUSALS: Final = {
    "persistent_workers option needs num_workers > 0": "persistent-workers",
    "prefetch_factor option could only be specified in multiprocessing": "prefetch-factor",
    "multiprocessing_context can only be used": "start-method",
}
"""A part of PyTorch's message, and the option that it is about."""


def refused(facts: Facts) -> list[Advice]:
    """Return the calls that ``DataLoader`` refuses, with what to do; usually all ranks have the same."""
    advices = []
    for rank, report in (facts.reports or {}).items():
        if report.refusal is None:
            continue
        option = next((option for part, option in _REFUSALS.items() if part in report.refusal), "other")
        advices.append(
            Advice(
                check="refused",
                severity="critical",
                rule="refused",
                params={"error": report.refusal, "option": option},
                where=report.refused_line,
                ranks=[rank],
            )
        )
    return advices


def check(facts: Facts) -> list[Advice]:
    """Find what to change in each loader's single options."""
    advices = []
    for loader in facts.loaders:
        advices += [_pinning(facts, loader), _timeout(loader), _nothing_ahead(loader), _snapshots(loader)]
    return [advice for advice in advices if advice is not None]


def _pinning(facts: Facts, loader: LoaderFacts) -> Advice | None:
    process = facts.processes.get(loader.rank)
    if process is None or not loader.trains:
        return None
    if process.cuda and loader.info.pin_memory is False:
        return Advice(
            check="pin-memory",
            severity="info",
            rule="pin-memory-off",
            loader=loader.info.name,
            ranks=[loader.rank],
        )
    host = facts.host_of(loader)
    if loader.info.pin_memory and not process.cuda and host is not None and not host.has_gpu:
        return Advice(
            check="pin-memory",
            severity="info",
            rule="pin-memory-without-gpu",
            loader=loader.info.name,
            ranks=[loader.rank],
        )
    return None


def _timeout(loader: LoaderFacts) -> Advice | None:
    timeout_s = loader.info.timeout_s
    if not timeout_s:
        return None
    if not loader.workers and loader.info.num_workers == 0:
        return Advice(
            check="timeout",
            severity="critical",
            rule="timeout-without-workers",
            params={"timeout_s": timeout_s},
            loader=loader.info.name,
            ranks=[loader.rank],
        )
    slowest = max(
        (s for s in (loader.first_wait_s, loader.fetch_tail_s, loader.fetch_s) if math.isfinite(s)),
        default=math.nan,
    )
    if not timeout_s < TIMEOUT_ROOM * slowest:
        return None
    return Advice(
        check="timeout",
        severity="critical" if loader.probe is not None and timeout_s < slowest else "warning",
        rule="timeout-short",
        params={
            "timeout_s": timeout_s,
            "probed": loader.probe is not None,
            "slowest_s": slowest,
            "enough_s": math.ceil(10 * slowest),
        },
        loader=loader.info.name,
        ranks=[loader.rank],
    )


def _nothing_ahead(loader: LoaderFacts) -> Advice | None:
    if loader.info.prefetch_factor != 0 or not loader.workers:
        return None
    return Advice(
        check="prefetch-none",
        severity="critical",
        rule="prefetch-none",
        params={"workers": loader.workers},
        loader=loader.info.name,
        ranks=[loader.rank],
    )


def _snapshots(loader: LoaderFacts) -> Advice | None:
    """Find snapshots after every batch: with large state, 10 ms became 2 s a step (torchdata#1317)."""
    if loader.info.snapshot_every_n_steps != 1 or not loader.workers:
        return None
    return Advice(
        check="snapshots",
        severity="warning" if loader.info.iterable_dataset else "info",
        rule="snapshots",
        params={"loader_class": loader.info.class_name},
        loader=loader.info.name,
        ranks=[loader.rank],
    )


def flight_recorder(facts: Facts) -> list[Advice]:
    """Find an NCCL run whose ranks write no dump when a collective times out."""
    blind = sorted(
        rank
        for rank, process in facts.processes.items()
        if "nccl" in (process.backend or "") and process.world_size > 1 and not process.flight_dump
    )
    if not blind:
        return []
    return [Advice(check="flight-recorder", severity="info", rule="flight-recorder", ranks=blind)]
