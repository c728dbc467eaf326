from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from loaderwatch.core.records import UNKNOWN
from loaderwatch.server.window.recent_sums import SECONDS, RecentSums
from loaderwatch.server.window.row_buffer import block_of
from tests.fakes.runs import SECOND, T0, joined, steps, table

MS = SECOND // 1000


def take(sums: RecentSums, name: str, rows: dict[str, bytes], counted: Any = None) -> None:
    block = block_of(name, rows)
    firsts = np.flatnonzero(np.concatenate(([True], block[0, 1:] != block[0, :-1])))
    sums.take(name, block, np.ones(block.shape[1], bool) if counted is None else np.array(counted), firsts)


def test_rates_are_of_the_last_half_minute_of_each_rank() -> None:
    sums = RecentSums()
    early, late = T0 + np.arange(100) * SECOND // 10, T0 + np.arange(1000, 1300) * SECOND // 10
    for times, wait, step in ((early, 90, 10), (late, 20, 80)):
        rows = joined(
            [
                steps(
                    rank, times, wait * MS, step * MS, forward_ns=step * MS // 4, backward_ns=step * MS // 2
                )
                for rank in (3, 7)
            ]
        )
        take(sums, "steps", rows)
    now = int(late[-1]) + SECOND // 10
    found = sums.rates([7, 3, 5], [now, now, now])
    assert found.steps_per_s[:2] == pytest.approx(10.0, rel=0.04)
    assert found.waited_s[0] / (found.waited_s[0] + found.worked_s[0]) == pytest.approx(0.2)
    assert found.forward_s[1] / found.worked_s[1] == pytest.approx(0.25)
    assert found.backward_s[1] / found.worked_s[1] == pytest.approx(0.5)
    assert found.batches[:2].tolist() == [300.0, 300.0]  # the early ones are out
    assert np.isnan(found.steps_per_s[2])  # of this rank nothing came
    assert (found.batches[2], found.waited_s[2]) == (0.0, 0.0)


def test_rows_in_pieces_and_in_any_order_give_the_same_sums() -> None:
    times = T0 + np.arange(200) * SECOND // 10
    waits = np.arange(200) * MS
    rows, whole, pieces = steps(0, times, waits, MS), RecentSums(), RecentSums()
    take(whole, "steps", rows)
    order = np.random.default_rng(0).permutation(200)
    for some in np.array_split(order, 9):
        take(pieces, "steps", steps(0, times[some], waits[some], MS))
    now = int(times[-1])
    for mine, other in zip(whole.rates([0], [now]), pieces.rates([0], [now]), strict=True):
        assert mine == pytest.approx(other, nan_ok=True)


def test_the_devices_clock_counts_where_it_tells_of_most_batches() -> None:
    sums = RecentSums()
    times = T0 + np.arange(100) * SECOND // 10
    take(sums, "steps", steps(0, times, 60 * MS, 40 * MS))
    known = np.where(np.arange(100) % 5, 30 * MS, UNKNOWN)
    take(
        sums,
        "gpu_waits",
        table("gpu_waits", rank=0, loader=0, epoch=0, batch=0, request_ns=times, starved_ns=known),
    )
    found = sums.rates([0], [int(times[-1]) + SECOND // 10])
    assert found.by_device.tolist() == [True]
    assert found.waited_s[0] == pytest.approx(3.0)  # of 80 it is 2.4, and the others are as these
    assert found.waited_s[0] + found.worked_s[0] == pytest.approx(10.0)


def test_what_is_no_training_does_not_count() -> None:
    sums = RecentSums()
    times = T0 + np.arange(4) * SECOND // 10
    rows = steps(
        0, times, [1, UNKNOWN, 3, 4], [1, 1, 1, 1], off_main_thread=[0, 0, 1, 0], optimizer_steps=[2, 0, 1, 1]
    )
    take(sums, "steps", rows, counted=[True, True, True, False])
    gpus = table("gpus", rank=0, gpu=0, t_ns=times, utilization_ratio=[0.5, np.nan, 0.7, np.nan])
    take(sums, "gpus", gpus)
    found = sums.rates([0], [T0 + SECOND])
    assert (found.batches[0], found.steps_per_s[0]) == (2.0, 2.0)
    assert found.waited_s[0] == pytest.approx(1e-9)
    assert found.utilization_ratio[0] == pytest.approx(0.6)


def test_a_late_row_of_a_forgotten_second_changes_nothing() -> None:
    sums = RecentSums()
    take(sums, "steps", steps(0, [T0 + 100 * SECOND], [1 * MS], [1 * MS]))
    take(sums, "steps", steps(0, [T0 + 52 * SECOND], [9 * MS], [9 * MS]))  # the same slot, 48 s before
    found = sums.rates([0], [T0 + 101 * SECOND])
    assert (found.batches[0], found.waited_s[0]) == (1.0, pytest.approx(0.001))
    assert SECONDS == 30


def test_many_ranks_take_a_few_kilobytes_each() -> None:
    sums = RecentSums()
    take(sums, "steps", joined([steps(rank, [T0], [MS], [MS]) for rank in range(300)]))
    found = sums.rates(range(300), [T0 + SECOND] * 300)
    assert found.batches.tolist() == [1.0] * 300
