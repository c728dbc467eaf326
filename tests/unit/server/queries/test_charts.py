from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from loaderwatch.core.records import UNKNOWN
from loaderwatch.server.queries import charts
from loaderwatch.server.queries.heatmap import heatmap
from loaderwatch.server.store.duckdb import DuckDBStore
from loaderwatch.server.store.protocol import Store, UnknownRun
from tests.fakes.runs import SECOND, T0, envelope, process, span, steps, table

START = T0 / 1e9


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = DuckDBStore(tmp_path)
    times = T0 + np.arange(0, 600, 5) * SECOND // 10
    fetches = table(
        "fetches",
        rank=0,
        loader=0,
        worker=[0, 1, 0, 1],
        ordinal=[0, 0, 1, 1],
        request_ns=T0 + np.arange(4) * SECOND,
        fetch_ns=[SECOND, 9 * SECOND, SECOND, 2 * SECOND],
        slow_index=[7, 8, 7, UNKNOWN],
        slow_ns=[SECOND // 2, 8 * SECOND, SECOND // 4, UNKNOWN],
        samples=4,
    )
    begins = table(
        "epoch_begins",
        rank=0,
        loader=0,
        epoch=[0, 1],
        request_ns=[T0, T0 + 30 * SECOND],
        iter_ns=SECOND,
        iter_kind=[1, 99],
        workers=2,
        first_wait_ns=[UNKNOWN, 0],
    )
    ends = table(
        "epoch_ends",
        rank=[0],
        loader=0,
        epoch=0,
        request_ns=T0 + 29 * SECOND,
        teardown_ns=SECOND // 2,
        batches=290,
        ended_by=1,
    )
    opened.append(
        [
            envelope(
                60,
                processes=[process(0, 2), process(1, 2)],
                spans=[span(0, T0)],
                tables={
                    "steps": steps(0, times, SECOND // 10, SECOND // 10),
                    "fetches": fetches,
                    "epoch_begins": begins,
                    "epoch_ends": ends,
                },
            )
        ]
    )
    yield opened
    opened.close()


def test_series_has_every_bucket_and_null_where_nothing_is(store: Store) -> None:
    found = charts.series(store, "run-1", "wait_s", 0, START - 10, START + 100, 110)
    assert (found.metric, found.rank, found.bucket_s) == ("wait_s", 0, 1.0)
    assert len(found.t) == len(found.min) == len(found.mean) == len(found.max) == 110
    assert found.t[0] == START - 10
    assert found.mean[:10] == [None] * 10
    assert found.mean[10:70] == [0.1] * 60
    assert found.mean[70:] == [None] * 40
    json.dumps(msgspec.to_builtins(found), allow_nan=False)


def test_a_series_without_range_is_the_whole_run(store: Store) -> None:
    found = charts.series(store, "run-1", "data_wait_ratio")
    assert found.rank is None
    assert found.t[0] <= START
    assert found.t[-1] + found.bucket_s > START + 60
    assert found.mean[10] == pytest.approx(0.5)
    assert charts.series(store, "run-1", "wait_s", 1).mean.count(None) == len(
        charts.series(store, "run-1", "wait_s", 1).t
    )


def test_several_series_are_those_of_each_metric_in_order(store: Store) -> None:
    names = ["step_s", "data_wait_ratio", "fetch_s", "wait_s", "step_s", "host_cpu_ratio", "ready_batches"]
    for rank in (None, 0):
        several = charts.several_series(store, "run-1", names, rank, START - 10, START + 70, 100)
        assert several == [charts.series(store, "run-1", n, rank, START - 10, START + 70, 100) for n in names]
        assert any(value is not None for value in several[0].mean)
    with pytest.raises(ValueError, match="metric is 'speed'"):
        charts.several_series(store, "run-1", ["wait_s", "speed"])
    with pytest.raises(ValueError, match="metric is 17; use 1 to 16"):
        charts.several_series(store, "run-1", ["wait_s"] * 17)


def test_heatmap_has_a_row_per_rank(store: Store) -> None:
    found = heatmap(store, "run-1", "data_wait_ratio", START, START + 60, 6)
    assert found.ranks == [0, 1]
    assert found.values == [[0.5] * 6, [None] * 6] or found.bucket_s != 10
    assert [len(row) for row in found.values] == [len(found.t)] * 2
    assert found.values[1] == [None] * len(found.t)
    json.dumps(msgspec.to_builtins(found), allow_nan=False)


def test_epochs(store: Store) -> None:
    first, second = charts.epochs(store, "run-1")
    assert msgspec.to_builtins(first) == {
        "rank": 0, "loader": 0, "epoch": 0, "began_at": START, "iter_s": 1.0, "sampler_s": None,
        "first_wait_s": None,
        "iter_kind": "started", "workers": 2, "drained": None, "gap_s": None, "ended_at": START + 29,
        "teardown_s": 0.5, "batches": 290, "ended_by": "exhausted",
    }  # fmt: skip
    assert second.first_wait_s == 0.0
    assert (second.iter_kind, second.ended_at, second.ended_by) == (None, None, None)
    assert charts.epochs(store, "run-1", 1) == []


def test_epochs_of_a_restarted_rank_are_not_mixed_up(tmp_path: Path) -> None:
    store = DuckDBStore(tmp_path)
    times = T0 + np.array([0, 100, 200]) * SECOND
    begins = table("epoch_begins", rank=0, loader=0, epoch=0, request_ns=times)
    ends = table(
        "epoch_ends", rank=0, loader=0, epoch=0, request_ns=times[[0, 2]] + 50 * SECOND, batches=[1, 3]
    )
    store.append([envelope(300, tables={"epoch_begins": begins, "epoch_ends": ends})])
    assert [row.batches for row in charts.epochs(store, "run-1")] == [1, None, 3]
    store.close()


def test_fetches_are_the_newest_that_touch_the_range(store: Store) -> None:
    found = charts.fetches(store, "run-1", 0)
    assert found.began_at == [START, START + 1, START + 2, START + 3]
    assert found.slow_index == [7, 8, 7, None]
    assert found.bytes == [None] * 4
    assert charts.fetches(store, "run-1", 0, limit=2).worker == [0, 1]
    assert charts.fetches(store, "run-1", 0, START + 6, START + 8).slow_index == [8]  # still going on then
    assert charts.fetches(store, "run-1", 1).worker == []
    assert charts.fetches(store, "run-1", 0, worker=1).worker == [1, 1]
    assert charts.fetches(store, "run-1", 0, worker=7).worker == []


def test_slow_samples_name_each_index_once(store: Store) -> None:
    assert msgspec.to_builtins(charts.slow_samples(store, "run-1")) == [
        {"rank": 0, "loader": 0, "worker": 1, "index": 8, "slow_s": 8.0, "fetch_s": 9.0, "at": START + 1},
        {"rank": 0, "loader": 0, "worker": 0, "index": 7, "slow_s": 0.5, "fetch_s": 1.0, "at": START},
    ]
    assert len(charts.slow_samples(store, "run-1", limit=1)) == 1
    assert charts.slow_samples(store, "run-1", 1) == []


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda s: charts.series(s, "run-1", "speed"), r"metric is 'speed'; use one of .*wait_s"),
        (lambda s: heatmap(s, "run-1", "speed"), "metric is 'speed'"),
        (lambda s: charts.series(s, "run-1", "wait_s", points=1), "points is 1; use 2 to 2000"),
        (lambda s: charts.series(s, "run-1", "wait_s", start=5.0, end=4.0), "end is 4.0"),
        (lambda s: charts.series(s, "run-1", "wait_s", start=float("nan")), "start is nan"),
        (lambda s: charts.series(s, "run-1", "wait_s", end=1e300), "end is 1e\\+300"),
        (lambda s: charts.fetches(s, "run-1", 0, limit=0), "limit is 0"),
    ],
)
def test_bad_values_are_named(store: Store, call: Callable[[Store], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call(store)


def test_an_unknown_run(store: Store) -> None:
    for call in (
        lambda: charts.series(store, "nope", "wait_s"),
        lambda: charts.epochs(store, "nope"),
        lambda: charts.fetches(store, "nope", 0),
        lambda: charts.stored_summary(store, "nope"),
    ):
        with pytest.raises(UnknownRun):
            call()
