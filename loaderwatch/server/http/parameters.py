"""Checks of parameters in JSON bodies; an error names the parameter."""

from __future__ import annotations

import math
from typing import Any


class ParameterError(ValueError):
    """A parameter has a value that cannot be used."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}")
        self.field = field


def finite_number(body: Any, name: str, low: float, high: float) -> float:
    """Return a number of a JSON body.

    Raises:
        ParameterError: the value is missing, no number, or outside the limits.
    """
    value = body.get(name) if isinstance(body, dict) else None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise ParameterError(name, f'{value!r}; send a JSON object with a number, e.g. {{"{name}": 3600}}')
    if not low <= value <= high:
        raise ParameterError(name, f"{value:g}; use {low:g} to {high:g}")
    return float(value)
