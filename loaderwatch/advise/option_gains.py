"""Gains of loader options without a simulation of batches: each a range of the run's time and its basis."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from loaderwatch.advise.facts import LoaderFacts, facts_of
from loaderwatch.advise.whatif import WhatIf
from loaderwatch.core.answers import Text
from loaderwatch.detect.measures.statistics import mean, ratio
from loaderwatch.detect.window import RankWindow, RunWindow, seconds
from loaderwatch.pipeline.simulation import iteration_s
from loaderwatch.texts import say

LATELY: Final = 200
"""Steps whose copies to the GPU are considered."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """An option and the least and most of the run's time that it saves (shares, 0 to 1); below 0 it costs.

    ``per_epoch_s``: the most it saves per epoch; None if it acts on each batch.
    """

    change: str
    least_ratio: float
    most_ratio: float
    basis: Text  # the measurement behind the range
    per_epoch_s: float | None = None

    @property
    def rests_on(self) -> str:
        """The basis of the range, in English."""
        return say(self.basis)


@dataclass(frozen=True, slots=True)
class _Known:
    rank: RankWindow
    facts: LoaderFacts
    played: WhatIf


def estimates_of(window: RunWindow, rank: int, loader: int, played: WhatIf) -> list[Estimate]:
    """Return the gains of other options for a simulated loader, without options that are already set.

    The effect on the model is not considered: ``batch_size`` is only about the loader.
    """
    facts = next((f for f in facts_of(window).loaders if (f.rank, f.info.loader) == (rank, loader)), None)
    if facts is None:
        return []
    known = _Known(window.ranks[rank], facts, played)
    estimates = (option(known) for option in OPTIONS)
    return [estimate for estimate in estimates if estimate is not None]


def _persistent_workers(k: _Known) -> Estimate | None:
    facts = k.facts
    if not facts.workers or facts.info.persistent_workers is not False or not _starts_cost(facts):
        return None
    least_s = max(0.0, facts.start_s - k.played.fetch_s)
    return Estimate(
        "persistent_workers=True",
        ratio(least_s, facts.epoch_s),
        ratio(facts.start_s, facts.epoch_s),
        Text(
            "option-persistent-workers",
            {
                "epochs": facts.starts,
                "start_s": facts.start_s,
                "epoch_s": facts.epoch_s,
                "rebuilt": 2 * facts.rebuilt > facts.starts,
            },
        ),
        per_epoch_s=facts.start_s,
    )


def _start_method(k: _Known) -> Estimate | None:
    facts = k.facts
    spawned = facts.info.start_method not in (None, "fork")
    if not facts.workers or not spawned or facts.info.persistent_workers or not _starts_cost(facts):
        return None
    return Estimate(
        "multiprocessing_context='fork'",
        0.0,
        ratio(facts.start_s, facts.epoch_s),
        Text("option-fork", {"method": facts.info.start_method, "start_s": facts.start_s}),
        per_epoch_s=facts.start_s,
    )


def _starts_cost(facts: LoaderFacts) -> bool:
    return facts.starts > 0 and math.isfinite(facts.start_s) and facts.start_s < facts.epoch_s


def _batch_size(k: _Known) -> Estimate | None:
    samples, today = k.facts.info.batch_size, k.played.today.setting
    if samples is None:
        return None
    pipeline = replace(k.played.pipeline, fetch_s=2 * k.played.pipeline.fetch_s)
    now_s = iteration_s(k.played.pipeline, today)
    times = [iteration_s(replace(pipeline, step_s=factor * pipeline.step_s), today) for factor in (2, 1)]
    least, most = (1 - ratio(each_s / 2, now_s) for each_s in times)
    return Estimate(f"batch_size={2 * samples}", least, most, Text("option-batch-size"))


def _pin_memory(k: _Known) -> Estimate | None:
    if k.facts.info.pin_memory is not False or not k.rank.process.cuda:
        return None
    steps = k.rank.steps
    copied_s = mean(seconds(steps["h2d_ns"][steps["loader"] == k.facts.info.loader][-LATELY:]))
    if not copied_s > 0:
        return None
    return Estimate(
        "pin_memory=True",
        0.0,
        min(1.0, ratio(copied_s, k.played.measured_s)),
        Text("option-pin-memory", {"copied_s": copied_s}),
    )


OPTIONS: Final[tuple[Callable[[_Known], Estimate | None], ...]] = (
    _persistent_workers,
    _start_method,
    _batch_size,
    _pin_memory,
)
