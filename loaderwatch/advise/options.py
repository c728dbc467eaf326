"""Single options: what ``DataLoader`` refuses, pinned memory, timeout, snapshots; and the flight recorder of the ranks' collectives."""

from __future__ import annotations

import math
from typing import Final

from loaderwatch.advise.facts import Facts, LoaderFacts
from loaderwatch.core.answers import Advice
from loaderwatch.detect.hang.flight_recorder import SWITCHES
from loaderwatch.detect.text import duration

TIMEOUT_ROOM: Final = 3.0
"""A timeout shorter than this many times the slowest wait so far turns a hiccup into a crash."""

_EXPLAINED: Final[tuple[tuple[str, str, str], ...]] = (
    (
        "persistent_workers option needs num_workers > 0",
        "With num_workers=0 there are no workers that could persist: batches are loaded on the training thread.",
        "num_workers of at least 1 to load beside training, or leave persistent_workers out.",
    ),
    (
        "prefetch_factor option could only be specified in multiprocessing",
        "Only workers read ahead; with num_workers=0 there are none.",
        "num_workers of at least 1 to load beside training, or leave prefetch_factor out.",
    ),
    (
        "multiprocessing_context can only be used",
        "The start method is for workers; with num_workers=0 there are none.",
        "num_workers of at least 1, or leave multiprocessing_context out.",
    ),
)
"""A part of PyTorch's message, why it refuses, and the change."""


def refused(facts: Facts) -> list[Advice]:
    """Return the calls that ``DataLoader`` itself refuses, in words that tell what to do; as a rule all ranks have the same one."""
    found = []
    for rank, report in (facts.reports or {}).items():
        if report.refusal is None:
            continue
        why, change = next(
            ((why, change) for part, why, change in _EXPLAINED if part in report.refusal),
            ("PyTorch does not accept these arguments.", "Change what the message names."),
        )
        found.append(
            Advice(
                check="refused",
                severity="critical",
                what=f"DataLoader raises: {report.refusal}",
                why=why,
                change=change,
                where=report.refused_line,
                ranks=[rank],
            )
        )
    return found


def check(facts: Facts) -> list[Advice]:
    """Find what to change in single options of each loader."""
    found = []
    for loader in facts.loaders:
        found += [_pinning(facts, loader), _timeout(loader), _nothing_ahead(loader), _snapshots(loader)]
    return [advice for advice in found if advice is not None]


def _pinning(facts: Facts, loader: LoaderFacts) -> Advice | None:
    process = facts.processes.get(loader.rank)
    if process is None or not loader.trains:
        return None
    if process.cuda and loader.info.pin_memory is False:
        return Advice(
            check="pin-memory",
            severity="info",
            what="pin_memory=False, and the training process uses CUDA.",
            why="Copies from pageable memory block the training thread until they are done.",
            change="pin_memory=True in the loader and .to(device, non_blocking=True) in the loop; not .pin_memory()"
            " inside the loop, which is slower than a plain copy.",
            loader=loader.info.name,
            ranks=[loader.rank],
        )
    host = facts.host_of(loader)
    if loader.info.pin_memory and not process.cuda and host is not None and not host.has_gpu:
        return Advice(
            check="pin-memory",
            severity="info",
            what="pin_memory=True, and there is no GPU here.",
            why="Without an accelerator PyTorch ignores it; it costs nothing and gives nothing.",
            change="Nothing, or pin_memory=torch.cuda.is_available() to be rid of the warning.",
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
            what=f"timeout={timeout_s:g} with num_workers=0.",
            why="PyTorch stops with a bare AssertionError at the first iteration: there is no worker to wait for.",
            change="timeout=0, or num_workers of at least 1.",
            loader=loader.info.name,
            ranks=[loader.rank],
        )
    slowest = max(
        (s for s in (loader.first_wait_s, loader.fetch_tail_s, loader.fetch_s) if math.isfinite(s)),
        default=math.nan,
    )
    if not timeout_s < TIMEOUT_ROOM * slowest:
        return None
    takes = (
        f"takes about {duration(slowest)} to load"
        if loader.probe
        else f"has already taken {duration(slowest)}"
    )
    return Advice(
        check="timeout",
        severity="critical" if loader.probe is not None and timeout_s < slowest else "warning",
        what=f"timeout={timeout_s:g} s, and a batch {takes}.",
        why="The timeout counts for every batch, the first of an epoch included; PyTorch then ends the run with an"
        " error that names no worker.",
        change=f"timeout={math.ceil(10 * slowest)}, or 0 and let loaderwatch tell a hang from a slow batch.",
        loader=loader.info.name,
        ranks=[loader.rank],
    )


def _nothing_ahead(loader: LoaderFacts) -> Advice | None:
    if loader.info.prefetch_factor != 0 or not loader.workers:
        return None
    return Advice(
        check="prefetch-none",
        severity="critical",
        what=f"prefetch_factor=0 with {loader.workers} workers.",
        why="PyTorch accepts it when the loader is made and stops with an AssertionError at the first iteration.",
        change="prefetch_factor of at least 1; leave it out for 2.",
        loader=loader.info.name,
        ranks=[loader.rank],
    )


def _snapshots(loader: LoaderFacts) -> Advice | None:
    """Find snapshots with every batch: 10 ms became 2 s per iteration with a large state (torchdata#1317)."""
    if loader.info.snapshot_every_n_steps != 1 or not loader.workers:
        return None
    return Advice(
        check="snapshots",
        severity="warning" if loader.info.iterable_dataset else "info",
        what=f"{loader.info.class_name} takes a snapshot with every batch (snapshot_every_n_steps=1).",
        why="The dataset's state_dict() is pickled and sent along each time; with shuffle buffers in it that costs more"
        " than the batch.",
        change="snapshot_every_n_steps = the steps between two checkpoints.",
        loader=loader.info.name,
        ranks=[loader.rank],
    )


def flight_recorder(facts: Facts) -> list[Advice]:
    """Find a run on NCCL whose ranks write no dump when a collective times out."""
    blind = sorted(
        rank
        for rank, process in facts.processes.items()
        if "nccl" in (process.backend or "") and process.world_size > 1 and not process.flight_dump
    )
    if not blind:
        return []
    return [
        Advice(
            check="flight-recorder",
            severity="info",
            what="NCCL is in use, and no flight recorder's dump is written when a collective times out.",
            why="After a hang it names the collective that one rank did not come to; loaderwatch reads the dumps of all ranks.",
            change=f"{SWITCHES}.",
            ranks=blind,
        )
    ]
