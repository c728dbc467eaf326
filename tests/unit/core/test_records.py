"""Rows are written by the names of their columns."""

from __future__ import annotations

import pytest

from loaderwatch.core.records import TABLES, Values, pack_row


@pytest.mark.parametrize("table", TABLES)
def test_a_row_has_the_order_of_the_catalogue(table: str) -> None:
    names = [column.name for column in TABLES[table]]
    values: Values = {name: place for place, name in reversed(list(enumerate(names)))}
    assert pack_row(table, values) == tuple(range(len(names)))
    assert pack_row(table, {names[-1]: 0.5}) == (*(None,) * (len(names) - 1), 0.5)


def test_a_name_that_is_no_column_is_an_error() -> None:
    with pytest.raises(KeyError, match="hosts has no cpu_ration, rank; see TABLES"):
        pack_row("hosts", {"t_ns": 1, "cpu_ration": 0.5, "rank": 0})
