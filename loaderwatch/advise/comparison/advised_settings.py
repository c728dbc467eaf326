"""The settings in a finding's advice, parsed from its sentences: findings contain them nowhere else."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from loaderwatch.core.answers import Setting

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
