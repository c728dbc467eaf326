from __future__ import annotations

import numpy as np

from loaderwatch.detect.rows_of_ranks import VALUES_AT_ONCE, columns_from, grouped, stacked
from loaderwatch.server.window.row_buffer import RowBuffer, block_of_arrays
from tests.unit.detect.build import table


def test_columns_come_alike_from_a_buffer_and_from_arrays() -> None:
    rows = table("steps", [{"request_ns": 10 * at, "wait_ns": at, "batch": at} for at in range(5)])
    for order in ([0, 1, 2, 3, 4], [0, 3, 1, 2, 4]):  # as they came
        buffer = RowBuffer("steps", 100)
        buffer.extend(block_of_arrays("steps", {name: column[order] for name, column in rows.items()}))
        for first in (0, 3):
            names = ("wait_ns", "request_ns")
            found = columns_from(buffer.rows(10), names, first)
            plain = {name: column[1:] for name, column in rows.items()}
            assert [column.tolist() for column in found] == [
                column.tolist() for column in columns_from(plain, names, first)
            ]


def test_ranks_with_as_many_rows_share_arrays_of_a_bounded_size() -> None:
    keys = {rank: (1000 if rank % 2 else 3000, None) for rank in range(30)}
    groups = list(grouped(keys))
    assert sorted(rank for group in groups for rank in group) == list(range(30))
    for group in groups:
        assert len({keys[rank] for rank in group}) == 1
        assert len(group) * keys[group[0]][0] <= VALUES_AT_ONCE
    assert list(grouped({0: (10 * VALUES_AT_ONCE, None)})) == [[0]]


def test_a_column_of_several_ranks_has_a_row_for_each() -> None:
    parts = [[np.array([1, 2]), np.array([5, 6])], [np.array([3, 4]), np.array([7, 8])]]
    assert [column.tolist() for column in stacked(parts)] == [[[1, 2], [3, 4]], [[5, 6], [7, 8]]]
