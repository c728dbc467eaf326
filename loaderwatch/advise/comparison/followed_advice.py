"""Whether a later run followed a finding's advice, and what it gained."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from loaderwatch.advise.comparison.advised_settings import advised_in
from loaderwatch.advise.comparison.compare import Observed, speed_of, unit_of
from loaderwatch.advise.comparison.measures import SAMPLES
from loaderwatch.advise.comparison.settings import PROCESS
from loaderwatch.core.answers import Difference, Finding, Followed, Param, Setting, Text
from loaderwatch.core.facts import LoaderInfo, ProcessInfo
from loaderwatch.texts import say

_TOLD: Final = ("better", "worse", "noise")
"""Judgements of a speed for which both runs have enough values."""


def names_settings(finding: Finding) -> bool:
    """Whether the finding cost time and its advice names settings. A speed does not show other costs."""
    return finding.lost_s is not None and bool(advised_in(finding.advice))


def is_followed(finding: Finding, processes: Sequence[ProcessInfo], changes: Sequence[Setting]) -> bool:
    """Whether a change to another run follows the advice, for the finding's loader or the process.

    ``processes`` are those of the finding's run. One of several advised settings is enough.
    """
    places = {PROCESS, *(loader.name for loader in _loaders(finding, processes))}
    changed = [change for change in changes if change.where in places]
    return any(setting.followed_by(change) for setting in advised_in(finding.advice) for change in changed)


def followed(finding: Finding, a: Observed, b: Observed) -> Followed | None:
    """Return the gain of run B, which followed a finding of run A; None if one of them has too few values."""
    speed = speed_of(a, b)
    if speed is None or speed.a is None or speed.b is None or speed.judgement not in _TOLD:
        return None
    promised = _promised(speed.a.mean, finding.gain_ceiling_ratio)
    sentence = _sentence(speed, speed.a.mean, speed.b.mean, promised)
    return Followed(
        run_id=b.run.run_id,
        name=b.run.name,
        measure="samples_per_s" if speed.measure == SAMPLES else "steps_per_s",
        before_per_s=speed.a.mean,
        after_per_s=speed.b.mean,
        promised_per_s=promised,
        judgement=speed.judgement,
        sentence=say(sentence),
        sentence_text=sentence,
    )


def _loaders(finding: Finding, processes: Sequence[ProcessInfo]) -> list[LoaderInfo]:
    """Return the loader that the finding is about; all loaders of its rank where it names none."""
    of_rank = [process for process in processes if finding.rank in (None, process.rank)]
    loaders = next((process.loaders for process in of_rank if process.loaders), [])
    return [loader for loader in loaders if loader.loader == finding.loader] or loaders


def _promised(before_per_s: float, ceiling_ratio: float | None) -> float | None:
    """Return the highest speed possible once that share of the time is gone.

    The ceiling may be a share of the finding's duration. Applied to the whole run it promises more, not less.
    """
    if ceiling_ratio is None or ceiling_ratio >= 1:
        return None
    return before_per_s / (1 - ceiling_ratio)


def _sentence(
    found: Difference, before_per_s: float, after_per_s: float, promised_per_s: float | None
) -> Text:
    params: dict[str, Param] = {
        "a_per_s": before_per_s,
        "b_per_s": after_per_s,
        "unit": unit_of(found),
        "promised_per_s": promised_per_s,
        "judgement": found.judgement,
    }
    return Text("advice-followed", params)
