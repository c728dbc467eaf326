"""Whether a later run followed a finding's advice, and what it gained."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from loaderwatch.advise.comparison.compare import SAMPLES, Observed, speed_of, unit_of
from loaderwatch.advise.comparison.settings import PROCESS
from loaderwatch.core.answers import Difference, Finding, Followed, Param, Setting, Text
from loaderwatch.core.facts import LoaderInfo, ProcessInfo
from loaderwatch.texts import say

_NAME: Final = r"(?<![\w.-])(?P<name>[A-Za-z_]\w*)"
_FORMS: Final = (
    re.compile(_NAME + r"=(?P<quote>[\"']?)(?P<value>\w+(?:\.\w+)*)(?P=quote)"),
    re.compile(_NAME + r" \d+(?:\.\d+)? → (?P<value>\d+(?:\.\d+)?)"),
)
"""How a sentence gives a setting with its value: "num_workers=8", "num_workers 2 → 8"."""
_DIRECTION: Final = re.compile(r"\b(?P<way>lower|raise) (?P<name>[A-Za-z_]\w*) \(now \d+\)", re.IGNORECASE)
"""How a sentence gives a setting without a value: "lower prefetch_factor (now 4)"."""
_CALLED: Final = {"multiprocessing_context": "start_method"}
"""DataLoader options with another name in a loader's description."""


@dataclass(frozen=True, slots=True)
class Advised:
    """A setting and its advised value as a text; "inf" and "-inf" only give a direction."""

    name: str
    value: str

    def followed_by(self, change: Setting) -> bool:
        """Whether a change is of this setting and reached the value or, for numbers, moved towards it."""
        if change.what != self.name or change.b is None:
            return False
        if change.b == self.value:
            return True
        target, before, after = map(_number, (self.value, change.a, change.b))
        if target is None or before is None or after is None:
            return False
        return (target - before) * (after - before) > 0


def advised_in(advice: str) -> list[Advised]:
    """Return the settings that an advice names in the forms above; other wordings are not recognized."""
    settings = [
        Advised(_called(match["name"]), match["value"]) for form in _FORMS for match in form.finditer(advice)
    ]
    settings += [
        Advised(_called(match["name"]), "-inf" if match["way"].lower() == "lower" else "inf")
        for match in _DIRECTION.finditer(advice)
    ]
    return list(dict.fromkeys(settings))


def _called(name: str) -> str:
    return _CALLED.get(name, name)


def _number(text: str | None) -> float | None:
    try:
        return None if text is None else float(text)
    except ValueError:
        return None


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
