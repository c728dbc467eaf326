"""What detectors ask of a window's columns."""

from __future__ import annotations

import numpy as np
import pytest

from loaderwatch.detect.window import distinct, first_at, one_of


@pytest.mark.parametrize("numbers", [[], [0], [1, 3], [7]])
def test_one_of_is_isin(numbers: list[int]) -> None:
    values = np.array([0, 1, 2, 3, 3, -1, -(2**63)])
    assert one_of(values, numbers).tolist() == np.isin(values, numbers).tolist()
    assert one_of(values[:0], numbers).tolist() == []


@pytest.mark.parametrize("rows", [0, 1, 7])
def test_first_at_and_distinct_are_searchsorted_and_unique(rows: int) -> None:
    values = np.array([[3, 3, 5, 8, 8, 8, 2**62], [-(2**63), 9, 9, 0, 4, 4, 1]])[:, :rows]
    values.flags.writeable = False
    for ns in (0, 3, 4, 8, 9, 2**62, 2**63):
        assert first_at(values[0], ns) == int(np.searchsorted(values[0].astype(float), float(ns)))
    assert distinct(values[1]) == np.unique(values[1]).tolist()
