"""Ranks as messages take them."""

from __future__ import annotations

import pytest

from loaderwatch.core.answers import Text
from loaderwatch.detect.finding import who
from loaderwatch.texts import say


@pytest.mark.parametrize(
    ("ranks", "world", "said"),
    [
        ([3], 8, "Rank 3"),
        ([0, 2], 8, "Ranks 0 and 2"),
        (list(range(8)), 8, "All 8 ranks"),
        ([0, 1], 2, "Both ranks"),
        ([0], 1, "Training"),
    ],
)
def test_ranks_are_the_subject_of_a_sentence(ranks: list[int], world: int, said: str) -> None:
    assert say(Text("who", who(ranks, world))) == said
