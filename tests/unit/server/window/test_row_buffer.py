from __future__ import annotations

import numpy as np
import pytest

from loaderwatch.server.window.row_buffer import RowBuffer, block_of
from tests.fakes.runs import table


def _block(times: list[int], ratios: list[float] | None = None) -> np.ndarray:
    ratios = ratios or [t / 10 for t in times]
    return block_of("hosts", table("hosts", t_ns=times, cpu_ratio=ratios))


def test_rows_come_back_as_they_were() -> None:
    buffer = RowBuffer("hosts", 100)
    buffer.extend(_block([10, 20]))
    buffer.extend(_block([30]))
    rows = buffer.rows()
    assert rows["t_ns"].tolist() == [10, 20, 30]
    assert rows["cpu_ratio"].tolist() == [1.0, 2.0, 3.0]
    assert np.isnan(rows["load1"]).all()


@pytest.mark.parametrize(
    "blocks", [[[10, 30], [20, 40]], [[40, 10, 20, 30]], [[20], [10], [30, 40]], [[10, 20, 40], [30]]]
)
def test_rows_that_came_late_are_in_order_of_time(blocks: list[list[int]]) -> None:
    buffer = RowBuffer("hosts", 100)
    for times in blocks:
        buffer.extend(_block(times))
    assert buffer.rows()["t_ns"].tolist() == [10, 20, 30, 40]
    assert buffer.rows()["cpu_ratio"].tolist() == [1.0, 2.0, 3.0, 4.0]
    assert buffer.rows(after_ns=25)["t_ns"].tolist() == [30, 40]


def test_rows_handed_out_do_not_change() -> None:
    buffer = RowBuffer("hosts", 50)
    buffer.extend(_block(list(range(30))))
    before = buffer.rows()
    for start in range(30, 500, 10):
        buffer.extend(_block(list(range(start, start + 10))))
    assert before["t_ns"].tolist() == list(range(30))


def test_keeps_the_newest_rows_and_not_more() -> None:
    buffer = RowBuffer("hosts", 50)
    for t in range(1000):
        buffer.extend(_block([t]))
        assert buffer.rows()["t_ns"].tolist() == list(range(max(0, t - 49), t + 1))
    assert buffer.dropped
    assert len(buffer) <= 50 * 1.5 + 1
    buffer.extend(_block(list(range(1000, 1200))))
    assert buffer.rows()["t_ns"].tolist() == list(range(1150, 1200))


def test_order_holds_after_late_rows_fell_out() -> None:
    buffer = RowBuffer("hosts", 4)
    buffer.extend(_block([10, 5]))
    for t in range(20, 40):
        buffer.extend(_block([t]))
        times = buffer.rows()["t_ns"].tolist()
        assert times == sorted(times)
    assert times == [36, 37, 38, 39]


def test_old_rows_leave_when_room_is_needed() -> None:
    buffer = RowBuffer("hosts", 1000, keep_ns=20)
    for t in range(2000):
        buffer.extend(_block([t]))
        newest = buffer.rows(after_ns=t - 20)["t_ns"].tolist()
        assert newest == list(range(max(0, t - 20), t + 1))
    assert len(buffer) <= 100
    assert not buffer.dropped  # none that was asked to be kept


def test_old_rows_leave_also_where_each_envelope_holds_a_late_one() -> None:
    """Fetches of several workers: they are written when they end, and ordered by when they began."""
    buffer = RowBuffer("hosts", 10_000, keep_ns=20)
    for t in range(0, 4000, 2):
        buffer.extend(_block([t + 1, t]))
        newest = buffer.rows(after_ns=t - 18)["t_ns"].tolist()
        assert newest == list(range(max(0, t - 18), t + 2))
    assert len(buffer) <= 100
    assert not buffer.dropped
