"""Data wait over time by the clock that counts: charts say what the detectors' rule says of the same rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import numpy as np
import pytest
from numpy.typing import NDArray

from loaderwatch.core.records import UNKNOWN
from loaderwatch.detect.device_clock import by_device
from loaderwatch.server.queries.charts import stored_summary
from loaderwatch.server.store.duckdb import DuckDBStore
from loaderwatch.server.store.metrics import LEVELS
from tests.fakes.runs import SECOND, T0, envelope, process, span, steps, table

MS = SECOND // 1000
Ints = NDArray[np.int64]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[DuckDBStore]:
    store = DuckDBStore(tmp_path)
    yield store
    store.close()


def waits(request_ns: Ints, starved_ns: Ints | int, step_ns: Ints | int) -> dict[str, bytes]:
    return table(
        "gpu_waits", rank=0, loader=0, epoch=0, batch=np.arange(request_ns.size), request_ns=request_ns,
        starved_ns=starved_ns, gpu_step_ns=step_ns,
    )  # fmt: skip


def roll(store: DuckDBStore) -> None:
    for _ in range(60):
        store.tidy()


class Mixed:
    """Iterations of 200 ms, waits and starvation at random, events of a share of them."""

    def __init__(self, store: DuckDBStore, known: float, seconds: int = 600) -> None:
        random = np.random.default_rng(7)
        self.end_ns = T0 + seconds * SECOND
        self.at = T0 + np.arange(5 * seconds, dtype=np.int64) * (SECOND // 5)
        self.wait = random.integers(0, 150 * MS, self.at.size)
        self.starved = random.integers(
            0, 150 * MS, self.at.size
        )  # the GPU may idle for longer than the loop waits
        self.told = random.random(self.at.size) < known
        self.told[0] = True
        store.append(
            [
                envelope(seconds, processes=[process(0)],
                         tables={"steps": steps(0, self.at, self.wait, 200 * MS - self.wait)}),
                envelope(seconds + 1, made_ns=self.end_ns,
                         tables={"gpu_waits": waits(self.at[self.told], self.starved[self.told], 100 * MS)}),
            ]
        )  # fmt: skip

    def by_rule(self, since_ns: int) -> tuple[float, float]:
        """Mean wait in seconds and share of the time lost, by the detectors' rule."""
        new = self.at >= since_ns
        rows = {
            "request_ns": self.at[new], "loader": np.zeros(new.sum(), np.int64), "wait_ns": self.wait[new],
            "step_ns": 200 * MS - self.wait[new], "wait_cpu_ns": np.full(new.sum(), UNKNOWN),
        }  # fmt: skip
        told = new & self.told
        events = {
            "request_ns": self.at[told], "loader": np.zeros(told.sum(), np.int64),
            "starved_ns": self.starved[told],
            "gpu_step_ns": self.starved[told], "slack_ns": np.full(told.sum(), UNKNOWN),
        }  # fmt: skip
        lost = by_device(rows, events)["wait_ns"]
        return float(lost.mean()) / 1e9, float(lost.sum()) / float(new.sum() * 200 * MS)


@pytest.mark.parametrize("rolled", [False, True])
@pytest.mark.parametrize("known", [0.9, 0.6, 0.3])
def test_chart_and_tile_agree_where_events_tell_of_some_batches(
    store: DuckDBStore, known: float, rolled: bool
) -> None:
    run = Mixed(store, known)
    if rolled:
        roll(store)
    summary = stored_summary(store, "run-1")
    assert summary.clock == ("loop" if known < 0.5 else "device")
    for since_ns in (T0, run.end_ns - 30 * SECOND):
        seconds, share = run.by_rule(since_ns)
        drawn = store.series("run-1", "data_wait_s", 0, since_ns, run.end_ns, 60)
        assert drawn.mean.mean() == pytest.approx(seconds, rel=0.02)
        assert (drawn.low <= drawn.mean).all()
        assert (drawn.mean <= drawn.high).all()
        ratio = store.series("run-1", "data_wait_ratio", 0, since_ns, run.end_ns, 60)
        assert ratio.mean.mean() == pytest.approx(share, abs=0.01)
        heat = store.grid("run-1", "data_wait_ratio", since_ns, run.end_ns, 60)
        assert np.nanmean(heat.values[0]) == pytest.approx(share, abs=0.01)
    assert summary.ranks[0].data_wait_ratio == pytest.approx(share, abs=0.02), "the tile of the rank"
    assert summary.ranks[0].wait_s == pytest.approx(seconds, rel=0.05)


def test_too_few_events_leave_the_whole_chart_by_the_loop(store: DuckDBStore) -> None:
    """Never bucket by bucket: events of the first third do not make that third look better than the rest."""
    times = T0 + np.arange(600, dtype=np.int64) * (SECOND // 5)
    events = waits(times[:200], 0, 100 * MS)
    store.append(
        [
            envelope(
                120,
                processes=[process(0)],
                tables={"steps": steps(0, times, 100 * MS, 100 * MS), "gpu_waits": events},
            )
        ]
    )
    whole = store.series("run-1", "data_wait_s", 0, T0, T0 + 120 * SECOND, 60)
    assert whole.mean == pytest.approx(0.1)
    first = store.series("run-1", "data_wait_s", 0, T0, T0 + 40 * SECOND, 60)
    assert first.mean == pytest.approx(0.0), "of that third alone they tell"


@pytest.mark.parametrize("width_s", [1, 5])
def test_a_wait_over_the_border_of_a_bucket_is_hidden_in_both(store: DuckDBStore, width_s: int) -> None:
    """Steps of 1.3 s in which the loop waits for 1 s and the GPU never: no bucket has a loss."""
    times = T0 + np.arange(100, dtype=np.int64) * 1300 * MS
    tables = {"steps": steps(0, times, SECOND, 300 * MS), "gpu_waits": waits(times, 0, 1300 * MS)}
    store.append([envelope(130, processes=[process(0)], tables=tables)])
    drawn = store.series("run-1", "data_wait_ratio", 0, T0, T0 + 120 * SECOND, 120 // width_s + 1)
    assert drawn.bucket_ns == width_s * SECOND
    assert drawn.mean == pytest.approx(0.0)


@pytest.mark.parametrize("rolled", [False, True])
def test_a_long_starvation_fills_the_buckets_that_it_covers(store: DuckDBStore, rolled: bool) -> None:
    """Its event comes when its buckets are summed already."""
    times = T0 + np.arange(60, dtype=np.int64) * SECOND
    later = T0 + np.arange(100, 160, dtype=np.int64) * SECOND
    at = np.concatenate([times, later])
    wait = np.where(at == times[-1], 39 * SECOND, 500 * MS)
    lost = np.where(at == times[-1], 38 * SECOND, 50 * MS)
    store.append(
        [
            envelope(
                110,
                processes=[process(0)],
                tables={
                    "steps": steps(0, at, wait, 500 * MS),
                    "gpu_waits": waits(times[:-1], 50 * MS, 900 * MS),
                },
            )
        ]
    )
    if rolled:
        roll(store)
    rest = at >= times[-1]
    store.append([envelope(160, tables={"gpu_waits": waits(at[rest], lost[rest], 900 * MS)})])
    if rolled:
        roll(store)
    drawn = store.series("run-1", "data_wait_ratio", 0, T0, T0 + 160 * SECOND, 160)
    inside = (drawn.t_ns >= T0 + 61 * SECOND) & (drawn.t_ns < T0 + 98 * SECOND)
    assert drawn.mean[inside] == pytest.approx(1.0)
    assert drawn.mean[drawn.t_ns < T0 + 58 * SECOND] == pytest.approx(0.05)


def test_an_open_wait_counts_less_what_the_device_usually_has_left(store: DuckDBStore) -> None:
    times = T0 + np.arange(100, dtype=np.int64) * SECOND
    since = T0 + 100 * SECOND
    store.append(
        [
            envelope(
                100,
                processes=[process(0)],
                tables={
                    "steps": steps(0, times, 800 * MS, 200 * MS),
                    "gpu_waits": waits(times, 0, SECOND),
                },
            ),
            envelope(120, processes=[process(0)], spans=[span(0, since, phase="wait", loader=0)]),
        ]
    )
    drawn = store.series("run-1", "data_wait_ratio", 0, T0, T0 + 120 * SECOND, 121)
    inside = drawn.t_ns > since
    assert inside.sum() > 10
    assert drawn.mean[inside] == pytest.approx(1.0)
    assert drawn.mean[drawn.t_ns == since] == pytest.approx(0.2)
    assert drawn.mean[drawn.t_ns < since] == pytest.approx(0.0)


def test_the_newest_buckets_wait_for_their_events(store: DuckDBStore) -> None:
    times = T0 + np.arange(500, dtype=np.int64) * (SECOND // 5)
    tables = {
        "steps": steps(0, times, 100 * MS, 100 * MS),
        "gpu_waits": waits(times[:-40], 20 * MS, 180 * MS),
    }
    store.append([envelope(100, processes=[process(0)], tables=tables)])
    end_ns = T0 + 100 * SECOND
    for metric, value in (("data_wait_s", 0.02), ("data_wait_ratio", 0.1)):
        drawn = store.series("run-1", metric, 0, end_ns - 20 * SECOND, end_ns, 20)
        assert drawn.t_ns.max() + drawn.bucket_ns <= end_ns - 5 * SECOND
        assert drawn.mean == pytest.approx(value), "also of those that have none and will have none"


def test_the_cushion_lasts_as_long_as_the_devices_steps(store: DuckDBStore) -> None:
    """The loop queues a step in 3 ms and waits 87 ms. Each ready batch lasts 90 ms, as in the detectors."""
    times = T0 + np.arange(600, dtype=np.int64) * 90 * MS
    rows = steps(0, times, 87 * MS, 3 * MS, ready=2)
    tables = {"steps": rows, "gpu_waits": waits(times, 0, 90 * MS)}
    store.append([envelope(60, processes=[process(0)], tables=tables)])
    found = store.series("run-1", "cushion_s", 0, T0, T0 + 40 * SECOND, 20)
    assert found.mean == pytest.approx(0.18)
    assert found.high == pytest.approx(0.18)


def test_a_file_of_before_is_by_the_devices_clock_from_its_beginning(tmp_path: Path) -> None:
    """Its rollups do not hold what was hidden: they are summed again."""
    store = DuckDBStore(tmp_path)
    Mixed(store, 0.9)
    roll(store)
    ask = ("run-1", "data_wait_s", 0, T0, T0 + 600 * SECOND, 20)
    right = store.series(*ask)
    store.close()
    with duckdb.connect(str(tmp_path / "run-1.duckdb")) as outside:
        for level in LEVELS:
            for measure in ("lost_ns", "hidden_ns"):
                for part in ("n", "sum", "min", "max"):
                    outside.execute(f"ALTER TABLE {level.table('steps')} DROP COLUMN {measure}_{part}")
            outside.execute(f"ALTER TABLE {level.table('steps')} DROP COLUMN hidden_in")
    store = DuckDBStore(tmp_path)
    for _ in range(2):
        assert store.series(*ask).mean == pytest.approx(right.mean)
        roll(store)
    store.close()
