"""Thresholds: the numbers that decide, each with its unit and its source.

``threshold`` defines every constant number of ``loaderwatch.detect`` once, under a name with one value in the
whole package. For all code, a threshold is a plain number. Its unit and source are read from the modules'
source text, as ``benchmarks.house`` does.
"""

from __future__ import annotations

from typing import TypeVar

Number = TypeVar("Number", int, float)


def threshold(value: Number, unit: str, source: str) -> Number:
    """Return the value.

    Args:
        value: the number.
        unit: "s", "ratio" (0 to 1), "factor", "bytes", or the plural noun that it counts: "steps".
        source: where the number comes from: a measurement, a published figure, or the reason for choosing it.
    """
    return value
