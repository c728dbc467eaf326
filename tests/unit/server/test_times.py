"""Times of envelopes and of their rows: what is far off is refused, or left out and counted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from loaderwatch.core.errors import WireError
from loaderwatch.core.records import TABLES, TIME_COLUMN, UNKNOWN
from loaderwatch.core.wire import Envelope, decode, encode, row_count
from loaderwatch.server.times import AFTER_NS, BEFORE_NS, MOST_BUCKETS, MOST_OFF_NS, check_clock, in_time
from tests.fakes.runs import SECOND, T0, envelope, process, table

HOUR = 3600 * SECOND
DAY = 24 * HOUR
YEAR = 365 * DAY


def with_rows(name: str, times: Sequence[int] | NDArray[Any], **more: Any) -> Envelope:
    columns = {TIME_COLUMN[name]: np.asarray(times), **more}
    return envelope(1, made_ns=T0, processes=[], tables={name: table(name, **columns)})


@pytest.mark.parametrize("made_ns", [1, T0 - 10 * YEAR, T0 + 10 * YEAR, 2**62 - 1])
def test_an_envelope_of_other_years_is_refused(made_ns: int) -> None:
    with pytest.raises(WireError, match="years off this server's clock") as refused:
        in_time(envelope(1, made_ns=made_ns), T0)
    assert refused.value.field == "made_ns"


def test_a_process_of_other_years_is_refused() -> None:
    with pytest.raises(WireError, match="processes"):
        in_time(envelope(1, made_ns=T0, processes=[process(0, started_ns=1)]), T0)


@pytest.mark.parametrize("late_ns", [0, -HOUR, 3 * DAY, 60 * DAY, MOST_OFF_NS])
def test_what_lay_in_an_outbox_is_whole(late_ns: int) -> None:
    sent = with_rows("steps", [T0 - SECOND, T0])
    assert in_time(sent, T0 + late_ns) is sent


def test_a_server_without_the_time_takes_what_comes() -> None:
    sent = with_rows("steps", [T0])
    assert in_time(sent, 1) is sent  # a machine that was just switched on: 1970


@pytest.mark.parametrize("name", list(TABLES))
def test_rows_of_other_days_are_left_out_and_counted(name: str) -> None:
    near = [T0 - BEFORE_NS, T0, T0 + AFTER_NS]
    far = [UNKNOWN, -1, 1, T0 - BEFORE_NS - 1, T0 + AFTER_NS + 1, 2**62]
    taken = in_time(with_rows(name, [far[0], *near, *far[1:]]), T0)
    assert np.frombuffer(taken.tables[name][TIME_COLUMN[name]], "<i8").tolist() == near
    assert {len(column) // 8 for column in taken.tables[name].values()} == {len(near)}
    assert [(loss.what, loss.rank, loss.count) for loss in taken.losses] == [("time", -1, len(far))]
    again = in_time(decode(encode(taken)), T0)
    assert again.losses == taken.losses
    assert row_count(again.tables[name]) == len(near)


def test_forty_thousand_days_leave_a_week() -> None:
    taken = in_time(with_rows("steps", T0 - np.arange(40_000) * DAY), T0)
    assert row_count(taken.tables["steps"]) == 8
    assert taken.losses[0].count == 40_000 - 8


def test_rows_over_too_many_buckets_are_refused() -> None:
    few = in_time(with_rows("steps", T0 - np.arange(MOST_BUCKETS - 2) * 5 * SECOND), T0)
    assert row_count(few.tables["steps"]) == MOST_BUCKETS - 2
    with pytest.raises(WireError, match="stretches of 5 s"):
        in_time(with_rows("steps", T0 - np.arange(MOST_BUCKETS + 2) * 5 * SECOND), T0)


def test_long_waits_count_by_what_they_cover() -> None:
    """One row may cover 28 hours. Many that cover the same hours are no more than one of them."""
    one = with_rows("steps", [T0 - 28 * HOUR] * 1000, rank=0, wait_ns=28 * HOUR, step_ns=0)
    assert in_time(one, T0) is one
    several = with_rows("steps", [T0 - day * DAY for day in range(7)], rank=0, wait_ns=28 * HOUR)
    with pytest.raises(WireError, match="stretches of 5 s"):
        in_time(several, T0)


@pytest.mark.parametrize("t_ns", [0, 1, 2**61, 2**62])
def test_what_is_imported_is_no_older_than_runs_are(t_ns: int) -> None:
    with pytest.raises(WireError, match="years off"):
        check_clock("first_ns", (T0, t_ns))
    check_clock("first_ns", (T0, T0 - 5 * YEAR))
