"""What a rank waits for others, over time: charts say what the detectors' rule says of the same rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from loaderwatch.core.records import UNKNOWN
from loaderwatch.detect.evidence import RunEvidence
from loaderwatch.detect.shared_thresholds import Limits
from loaderwatch.server.recordings.stored_windows import StoredWindows
from loaderwatch.server.store.duckdb import DuckDBStore
from loaderwatch.server.store.sql import others_wait
from tests.fakes.runs import SECOND, T0, envelope, joined, process, steps, table

MS = 10**6
ITERATIONS = 200
LATE_MS, QUICK_MS, WORK_MS = 80, 5, 100
BUCKET = 20 * (LATE_MS + WORK_MS) * MS  # about twenty iterations
Values = NDArray[np.int64]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[DuckDBStore]:
    opened = DuckDBStore(tmp_path)
    yield opened
    opened.close()


def _send(
    store: DuckDBStore,
    data_ms: list[Values],
    work_ms: list[Values],
    collective_ms: list[Values] | None = None,
    begin_ns: int = T0,
    seq: int = 1,
    **more: int,
) -> int:
    """Store iterations of ranks: data waits, the rest of each step, and its time in collectives; the end."""
    parts = []
    ends = begin_ns
    for rank, (data, work) in enumerate(zip(data_ms, work_ms, strict=True)):
        took = (data + work) * MS
        began = begin_ns + np.concatenate([[0], np.cumsum(took)[:-1]])
        ends = max(ends, int(began[-1] + took[-1]))
        collective = UNKNOWN if collective_ms is None else collective_ms[rank] * MS
        parts.append(
            steps(
                rank, began, data * MS, work * MS, batch=np.arange(1, len(data) + 1), collective_ns=collective
            )
        )
    ranks = [process(rank, len(data_ms), **more) for rank in range(len(data_ms))]
    made = {"made_ns": ends, "processes": ranks}
    store.append([envelope(
        seq, stream=f"s{seq}", tables={"steps": joined(parts)}, **made,  # type: ignore[arg-type]
    )])  # fmt: skip
    return ends


def _wait_ms(
    store: DuckDBStore, rank: int | None, start: int = T0, end: int = T0 + 60 * SECOND
) -> list[float]:
    found = store.series("run-1", "others_wait_s", rank, start, end, 20)
    return [round(value * 1000, 3) for value in found.mean.tolist()]


def _wait_s_by_chart(store: DuckDBStore) -> dict[int, float]:
    """Mean seconds per iteration that each rank waits for others; empty where that is not known."""
    asked = others_wait.Asked(T0, T0 + 3600 * SECOND, 3600 * SECOND, None)
    with store._reading("run-1") as (snapshot, _):
        rows = others_wait.per_rank(snapshot, asked)
        means = f"SELECT key, sum(num) / sum(whole) / 1e9 FROM ({rows}) GROUP BY key"
        return dict(snapshot.execute(means).fetchall())


def _wait_s_by_rule(store: DuckDBStore) -> dict[int, float]:
    """The same by the detectors' rule."""
    found = RunEvidence(StoredWindows(store).of("run-1").window, replace(Limits(), recent_s=100.0)).coupling
    assert found is not None
    return {share.rank: share.others_s for share in found.shares} if found.in_step else {}


def _flat(ms: int) -> Values:
    return np.full(ITERATIONS, ms)


LATE = [_flat(LATE_MS), _flat(QUICK_MS), _flat(QUICK_MS)]
WORK = [_flat(WORK_MS), _flat(WORK_MS + LATE_MS - QUICK_MS), _flat(WORK_MS + LATE_MS - QUICK_MS)]


TURN = np.arange(ITERATIONS) % 2
BY_TURNS = [QUICK_MS + 60 * TURN, QUICK_MS + 60 * (1 - TURN)]
RANDOM = [np.random.default_rng(rank).integers(1, 80, ITERATIONS) for rank in range(3)]


@pytest.mark.parametrize(
    ("data_ms", "work_ms", "collective_ms"),
    [
        pytest.param(LATE, WORK, None, id="the data of one is late"),
        pytest.param(BY_TURNS, [165 - each for each in BY_TURNS], None, id="late by turns"),
        pytest.param(RANDOM, [200 - each for each in RANDOM], None, id="late at random"),
        pytest.param([_flat(5)] * 3, [_flat(100)] * 3, [30 + each for each in RANDOM], id="collectives tell"),
        pytest.param(
            RANDOM, [200 - each for each in RANDOM], [_flat(3)] * 3, id="durations tell more than collectives"
        ),
        pytest.param([_flat(50), _flat(5)], [_flat(100), _flat(40)], None, id="not in step"),
    ],
)
def test_chart_and_detectors_say_the_same_of_the_same_rows(
    store: DuckDBStore, data_ms: list[Values], work_ms: list[Values], collective_ms: list[Values] | None
) -> None:
    _send(store, data_ms, work_ms, collective_ms)
    assert _wait_s_by_chart(store) == pytest.approx(_wait_s_by_rule(store))


def test_all_wait_for_the_rank_whose_data_is_late(store: DuckDBStore) -> None:
    _send(store, LATE, WORK)
    assert set(_wait_ms(store, 0)) == {0.0}
    assert set(_wait_ms(store, 1)) == {LATE_MS - QUICK_MS}
    both = _wait_ms(store, None)
    assert both == pytest.approx([2 * (LATE_MS - QUICK_MS) / 3] * len(both))
    grid = store.grid("run-1", "others_wait_s", T0, T0 + 30 * SECOND, 20)
    assert np.nanmax(grid.values, axis=1).round(6).tolist() == [0.0, 0.075, 0.075]


def test_ranks_that_are_late_by_turns_are_told_iteration_by_iteration(store: DuckDBStore) -> None:
    """Their means are alike: only within an iteration one waits for the other."""
    turn = np.arange(ITERATIONS) % 2
    data = [QUICK_MS + 60 * turn, QUICK_MS + 60 * (1 - turn)]
    _send(store, data, [165 - each for each in data])
    assert _wait_ms(store, 0) == pytest.approx([30] * len(_wait_ms(store, 0)), rel=0.1)


def test_collectives_tell_more_than_durations(store: DuckDBStore) -> None:
    """Rank 1 computes longer: nobody waits for data, and rank 0 waits in the exchange, itself only 3 ms."""
    _send(store, [_flat(5), _flat(5)], [_flat(100), _flat(100)], [_flat(43), _flat(3)])
    assert set(_wait_ms(store, 0)) == {40.0}
    assert set(_wait_ms(store, 1)) == {0.0}


def test_where_ranks_do_not_go_in_step_nothing_is_known(store: DuckDBStore) -> None:
    _send(store, [_flat(50), _flat(5)], [_flat(100), _flat(40)])
    assert _wait_ms(store, 0) == _wait_ms(store, 1) == []


def test_ranks_that_are_as_quick_by_chance_do_not_wait_for_each_other(store: DuckDBStore) -> None:
    """Each reads and works by itself, in iterations of its own length."""
    random = np.random.default_rng(3)
    data = [random.integers(1, 80, ITERATIONS) for _ in range(2)]
    _send(store, data, [_flat(100), _flat(100)])
    assert _wait_ms(store, 0) == []


def test_a_wait_in_which_the_gpu_worked_holds_nobody_up(store: DuckDBStore) -> None:
    ends = _send(store, LATE, WORK)
    times = T0 + np.arange(ITERATIONS) * (LATE_MS + WORK_MS) * MS
    waits = table("gpu_waits", rank=0, loader=0, epoch=0, request_ns=times, starved_ns=QUICK_MS * MS)
    more = {"made_ns": ends, "processes": [process(rank, 3) for rank in range(3)]}
    store.append([envelope(2, stream="gpu", tables={"gpu_waits": waits}, **more)])  # type: ignore[arg-type]
    assert set(_wait_ms(store, 1)) <= {0.0}
    assert _wait_s_by_chart(store) == pytest.approx(_wait_s_by_rule(store))


def test_a_single_rank_waits_for_nobody(store: DuckDBStore) -> None:
    _send(store, LATE[:1], WORK[:1])
    assert _wait_ms(store, 0) == []


def test_an_attempt_that_counts_anew_is_compared_with_itself(store: DuckDBStore) -> None:
    ends = _send(store, LATE, WORK)
    again = ends + 10 * SECOND
    swapped = [LATE[1], LATE[0], LATE[2]], [WORK[1], WORK[0], WORK[2]]
    last = _send(store, *swapped, begin_ns=again, seq=2, pid=2000, started_ns=ends + 5 * SECOND)
    waits = _wait_ms(store, 0, T0, last)
    assert set(waits) == {0.0, LATE_MS - QUICK_MS}


def test_of_many_rows_some_iterations_are_looked_at(
    store: DuckDBStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(others_wait, "MOST_ROWS", 3 * ITERATIONS // 4)
    _send(store, LATE, WORK)
    assert set(_wait_ms(store, 1)) == {LATE_MS - QUICK_MS}
