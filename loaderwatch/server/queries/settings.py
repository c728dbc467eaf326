"""What other settings of a run's loaders would give, for ``GET /runs/{run}/what-if``."""

from __future__ import annotations

import math

from loaderwatch.advise.whatif import Option, WhatIf, what_if
from loaderwatch.core import answers
from loaderwatch.detect.window import RunWindow


def what_if_of(window: RunWindow, rank: int | None) -> list[answers.WhatIf]:
    """Return the training loaders of a rank, the lowest that has any where none is given, with other settings."""
    ranks = sorted(window.ranks) if rank is None else [rank] if rank in window.ranks else []
    for number in ranks:
        loaders = [loader for loader in window.ranks[number].process.loaders if loader.role == "train"]
        played = [(loader, what_if(window, number, loader.loader)) for loader in loaders]
        found = [
            _answer(number, loader.loader, loader.name, one) for loader, one in played if one is not None
        ]
        if found:
            return found
    return []


def _answer(rank: int, loader: int, name: str, found: WhatIf) -> answers.WhatIf:
    return answers.WhatIf(
        rank=rank,
        loader=loader,
        name=name,
        measured_per_s=1 / found.measured_s,
        today=_setting(found.today),
        workers=[_setting(option) for option in found.workers],
        knee=found.knee,
        others=[_setting(option) for option in found.others],
        fetches=found.fetches,
        fetch_s=found.fetch_s,
        step_s=found.step_s,
        cpus=found.cpus if math.isfinite(found.cpus) else None,
        fetch_cpus=found.fetch_cpus,
    )


def _setting(option: Option) -> answers.LoaderSetting:
    return answers.LoaderSetting(
        num_workers=option.setting.num_workers,
        prefetch_factor=option.setting.prefetch_factor,
        in_order=option.setting.in_order,
        steps_per_s=option.steps_per_s,
        least_per_s=1 / option.most_s,
        most_per_s=1 / option.least_s,
        gain_ratio=option.gain_ratio,
        memory_bytes=option.memory_bytes,
    )
