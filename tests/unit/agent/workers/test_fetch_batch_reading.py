"""Which datasets read a batch in one call of their own."""

from __future__ import annotations

from typing import Any

import pytest
from torch.utils.data import Dataset, Subset

from loaderwatch.agent.workers.fetch import reads_at_once


class Plain(Dataset[int]):
    def __getitem__(self, index: int) -> int:
        return index


class AtOnce(Plain):
    def __getitems__(self, indices: list[int]) -> list[int]:
        return indices


class ByHand(Subset[int]):
    """PyTorch asks for both where one is overridden."""

    def __getitem__(self, index: Any) -> int:
        return 7

    def __getitems__(self, indices: list[int]) -> list[int]:
        return indices


PLAIN, AT_ONCE = Plain(), AtOnce()


@pytest.mark.parametrize(
    ("dataset", "expected"),
    [
        (PLAIN, False),
        ([1, 2], False),
        (AT_ONCE, True),
        (Subset(PLAIN, [0]), False),
        (Subset(Subset(PLAIN, [0]), [0]), False),
        (Subset(Subset(AT_ONCE, [0]), [0]), True),
        (ByHand(PLAIN, [0]), True),
    ],
)
def test_a_subset_only_passes_on(dataset: Any, expected: bool) -> None:
    assert reads_at_once(dataset) is expected
