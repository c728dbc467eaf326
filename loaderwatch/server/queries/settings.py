"""The gain of other settings of a run's loaders, for ``GET /runs/{run}/what-if``."""

from __future__ import annotations

import math

from loaderwatch.advise.option_gains import Estimate, estimates_of
from loaderwatch.advise.whatif import Option, WhatIf, what_if
from loaderwatch.core import answers
from loaderwatch.core.facts import LoaderInfo
from loaderwatch.core.from_records import from_records
from loaderwatch.detect.evidence import RunEvidence
from loaderwatch.detect.measures.statistics import last
from loaderwatch.detect.window import RunWindow


def what_if_of(run: RunEvidence, rank: int | None) -> list[answers.WhatIf]:
    """Return a rank's training loaders with other settings.

    Without a rank, the answer is about a rank that others wait for, else about the lowest rank that has an
    answer. A rank that waits for another one gains nothing from other settings.
    """
    window = run.window
    if rank is None:
        coupling = run.recent_coupling
        late = coupling.waited_for if coupling is not None and coupling.cause == "data" else ()
        ranks = [*late, *sorted(set(window.ranks) - set(late))]
    else:
        ranks = [rank] if rank in window.ranks else []
    for number in ranks:
        loaders = [loader for loader in window.ranks[number].process.loaders if loader.role == "train"]
        simulated = [(loader, what_if(run, number, loader.loader)) for loader in loaders]
        possible = [_answer(window, number, loader, r) for loader, r in simulated if r is not None]
        if possible:
            return possible
    return []


def _answer(window: RunWindow, rank: int, loader: LoaderInfo, found: WhatIf) -> answers.WhatIf:
    cpus = found.pipeline.cpus
    free_bytes, free_in = _free(window, rank)
    return from_records(
        answers.WhatIf,
        found,
        loader,
        rank=rank,
        measured_per_s=1 / found.measured_s,
        today=_setting(found.today),
        workers=[_setting(option) for option in found.workers],
        others=[_setting(option) for option in found.others],
        cpus=cpus if math.isfinite(cpus) else None,
        fetch_cpus=found.pipeline.fetch_cpus,
        options=[_option(estimate) for estimate in estimates_of(window, rank, loader.loader, found)],
        free_bytes=int(free_bytes) if math.isfinite(free_bytes) else None,
        free_in=free_in,
    )


def _free(window: RunWindow, rank: int) -> tuple[float, str]:
    """Return the bytes free for batches on a rank's host (NaN if unknown), and the place with the fewest."""
    host = window.hosts.get(window.ranks[rank].host)
    if host is None:
        return math.nan, "memory"
    free, total, used = (
        last(host.hosts[name]) for name in ("memory_available_bytes", "shm_total_bytes", "shm_used_bytes")
    )
    shm = total - used  # NaN without /dev/shm
    return (max(shm, 0.0), "/dev/shm") if shm < free or not math.isfinite(free) else (free, "memory")


def _option(estimate: Estimate) -> answers.LoaderOption:
    return from_records(answers.LoaderOption, estimate, rests_on_text=estimate.basis)


def _setting(option: Option) -> answers.LoaderSetting:
    return from_records(
        answers.LoaderSetting,
        option,
        option.setting,
        least_per_s=1 / option.most_s,
        most_per_s=1 / option.least_s,
    )
