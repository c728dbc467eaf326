"""Conditions on a comparison, for ``loaderwatch compare --fail-if``."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from loaderwatch.advise.comparison.measures import MEASURES
from loaderwatch.core.answers import Comparison, Difference, Param, Text
from loaderwatch.core.errors import ConfigError

_FORM: Final = re.compile(
    r"\s*(?P<measure>\w+)(?P<change>\.change)?\s*(?P<sign>>=|<=|>|<)\s*"
    r"(?P<limit>[+-]?\d+(?:\.\d*)?(?:e-?\d+)?)\s*(?P<percent>%)?\s*"
)
_SIGNS: Final[dict[str, Callable[[float, float], bool]]] = {
    ">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Condition:
    """``measure > limit`` of run B, or ``measure.change > limit`` of B against A (``Difference.change``)."""

    text: str
    measure: str
    of_change: bool
    sign: str
    limit: float

    def broken_by(self, compared: Comparison) -> Text | None:
        """Return why the comparison fails; None if it does not. An unknown value fails.

        A change fails only if it is more than noise.
        """
        measured = next((m for m in compared.measures if m.measure == self.measure), None)
        value = None if measured is None else self._value(measured)
        if measured is None or value is None:
            return Text("condition-failed", {"condition": self.text, "measure": self.measure, "value": None})
        if not _SIGNS[self.sign](value, self.limit):
            return None
        if self.of_change and measured.judgement == "noise":
            return None
        name = f"{self.measure}.change" if self.of_change else self.measure
        params: dict[str, Param] = {"condition": self.text, "measure": name, "value": f"{value:.4g}"}
        return Text("condition-failed", params)

    def _value(self, found: Difference) -> float | None:
        if self.of_change:
            return found.change
        return None if found.b is None else found.b.mean


def parse(text: str) -> Condition:
    """Return the condition that a text gives.

    Raises:
        ConfigError: the text is not a condition, or names no measure.
    """
    parsed = _FORM.fullmatch(text)
    if parsed is None:
        raise ConfigError(
            f"--fail-if {text!r} is no condition;"
            " write e.g. 'data_wait_ratio > 0.1' or 'steps_per_s.change < -5%'"
        )
    if parsed["measure"] not in MEASURES:
        raise ConfigError(f"--fail-if {text!r} names no measure; use one of {', '.join(MEASURES)}")
    limit = float(parsed["limit"]) / (100 if parsed["percent"] else 1)
    return Condition(
        " ".join(text.split()), parsed["measure"], parsed["change"] is not None, parsed["sign"], limit
    )
