"""Numbers of things and ranks as people read them."""

from __future__ import annotations

import pytest

from loaderwatch.core.answers import Text
from loaderwatch.detect import text as phrases
from loaderwatch.texts import say


def test_count() -> None:
    assert phrases.count(1, "batch") == "1 batch"
    assert phrases.count(2, "batch") == "2 batches"


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
def test_ranks_are_said_alike_in_code_and_in_messages(ranks: list[int], world: int, said: str) -> None:
    assert phrases.ranks_phrase(ranks, world) == said
    assert say(Text("who", phrases.who(ranks, world))) == said
