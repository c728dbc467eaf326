"""A page of the ranks."""

from __future__ import annotations

from typing import Any

import pytest

from loaderwatch.server.live.groups import page_of
from tests.fakes.summaries import rank_row

ROWS = [rank_row(n, data_wait_ratio=None if n == 5 else n / 100) for n in range(40)]


def page(**more: Any) -> tuple[int, list[int]]:
    asked: dict[str, Any] = {"sort": "rank", "down": False, "offset": 0, "limit": 3}
    found = page_of(ROWS, **(asked | more))
    return found.total, [row.rank for row in found.rows]


def test_pages_follow_each_other() -> None:
    assert page() == (40, [0, 1, 2])
    assert page(offset=39) == (40, [39])
    assert page(offset=99) == (40, [])


def test_what_is_not_known_comes_last_either_way() -> None:
    assert page(sort="data_wait_ratio", down=True) == (40, [39, 38, 37])
    assert page(sort="data_wait_ratio", down=True, offset=38) == (40, [0, 5])
    assert page(sort="data_wait_ratio", offset=38) == (40, [39, 5])


@pytest.mark.parametrize(
    ("find", "ranks"),
    [
        ("7", [7]),
        ("rank 7", [7]),
        ("gpu04", [32, 33, 34]),
        ("GPU04 35", [35]),
        ("crashed", []),
        ("wait 3", [3]),
    ],
)
def test_a_rank_is_found_by_number_host_and_phase(find: str, ranks: list[int]) -> None:
    assert page(find=find)[1] == ranks


def test_no_such_column() -> None:
    with pytest.raises(ValueError, match="sort is 'speed'; use one of batch, "):
        page(sort="speed")
