"""Numbers as people read them."""

from __future__ import annotations

import pytest

from loaderwatch.detect import text as phrases


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.000012, "12 µs"),
        (0.000096, "0.1 ms"),
        (0.0004, "0.4 ms"),
        (0.118, "118 ms"),
        (2.44, "2.4 s"),
        (47.2, "47 s"),
        (200, "3 min 20 s"),
        (7500, "2 h 5 min"),
    ],
)
def test_duration(seconds: float, text: str) -> None:
    assert phrases.duration(seconds) == text


def test_phrases() -> None:
    assert phrases.percent(0.62) == "62 %"
    assert phrases.percent(0.013) == "1.3 %"
    assert [phrases.measured(seconds) for seconds in (5.6, 14.4, 61)] == [
        f"(measured over {over})" for over in ("6 s", "15 s", "60 s")
    ]
    assert phrases.count(1, "batch") == "1 batch"
    assert phrases.count(2, "batch") == "2 batches"
    assert phrases.listing(["a", "b", "c"]) == "a, b and c"
    assert phrases.listing([str(n) for n in range(9)]) == "0, 1, 2 and 6 more"
    assert phrases.ranks_phrase([3], 8) == "Rank 3"
    assert phrases.ranks_phrase([0, 2], 8) == "Ranks 0 and 2"
    assert phrases.ranks_phrase(list(range(8)), 8) == "All 8 ranks"
    assert phrases.ranks_phrase([0], 1) == "Training"
