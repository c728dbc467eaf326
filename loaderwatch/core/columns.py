"""Rows as arrays: the type of a table in memory, and durations that can be summed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from loaderwatch.core.records import UNKNOWN

Ints: TypeAlias = NDArray[np.int64]

Columns: TypeAlias = Mapping[str, NDArray[Any]]
"""A table as arrays of equal length, ordered by time: int64 with ``UNKNOWN``, or float64 with NaN."""


def known_ns(durations: Ints) -> Ints:
    """Return durations with 0 for unknown ones, for sums."""
    return np.where(durations == UNKNOWN, 0, durations)
