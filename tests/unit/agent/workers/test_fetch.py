"""What a fetch measures of a batch and of indices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from loaderwatch.agent.hot.samples import plain_index
from loaderwatch.agent.workers.fetch import MAX_PARTS, batch_bytes
from loaderwatch.core.records import UNKNOWN


@pytest.mark.parametrize(
    ("batch", "size"),
    [
        (torch.zeros(4, 2), 32),
        ({"image": torch.zeros(2), "label": [torch.zeros(1), "x"]}, 12),
        ((np.zeros(3), torch.zeros(1)), 28),
        ("text", UNKNOWN),
        ([], UNKNOWN),
        ([[[[[torch.zeros(1)]]]]], UNKNOWN),  # too deep
    ],
)
def test_batch_bytes(batch: Any, size: int) -> None:
    assert batch_bytes(batch) == size


def test_the_look_is_bounded() -> None:
    assert batch_bytes([torch.zeros(1)] * 10_000) < MAX_PARTS * 4


@pytest.mark.parametrize(
    ("index", "plain"),
    [(5, 5), (-1, -1), ("key", UNKNOWN), (True, UNKNOWN), (2**80, UNKNOWN), (None, UNKNOWN)],
)
def test_plain_index(index: Any, plain: int) -> None:
    assert plain_index(index) == plain
