"""Thresholds: the numbers that decide, each with its unit and its source.

Every constant number of ``loaderwatch.detect`` is defined by ``threshold``, once, under a name that has one value in the whole package.
A threshold is a plain number to all code. Its unit and source are read in the modules' source text, as ``benchmarks.house`` does.
"""

from __future__ import annotations

from typing import TypeVar

Number = TypeVar("Number", int, float)


def threshold(value: Number, unit: str, source: str) -> Number:
    """Return the value.

    Args:
        value: the number.
        unit: "s", "ratio" (0 to 1), "factor", "bytes", or the plural noun that it counts: "steps".
        source: where the number comes from: what was measured, a published figure, or why it was chosen.
    """
    return value
