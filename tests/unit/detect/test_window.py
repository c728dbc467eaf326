"""What detectors ask of a window's columns."""

from __future__ import annotations

import numpy as np
import pytest

from loaderwatch.detect.window import one_of


@pytest.mark.parametrize("numbers", [[], [0], [1, 3], [7]])
def test_one_of_is_isin(numbers: list[int]) -> None:
    values = np.array([0, 1, 2, 3, 3, -1, -(2**63)])
    assert one_of(values, numbers).tolist() == np.isin(values, numbers).tolist()
    assert one_of(values[:0], numbers).tolist() == []
