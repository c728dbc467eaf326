"""Charts against truth computed with numpy, from rows and from rollups alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from loaderwatch.core.records import TABLES, TIME_COLUMN, UNKNOWN
from loaderwatch.core.wire import Envelope
from loaderwatch.server.store.duckdb import DuckDBStore
from loaderwatch.server.store.metrics import METRICS, SOURCES, bucket_width_ns
from loaderwatch.server.store.sql import charts
from tests.fakes.runs import SECOND, T0, envelope, joined, process, span, steps, table

RANKS = 3
DURATION_S = 1500


@pytest.fixture
def store(tmp_path: Path) -> Iterator[DuckDBStore]:
    opened = DuckDBStore(tmp_path / "runs")
    yield opened
    opened.close()


class Truth:
    """Random steps of three ranks with a wait of 47 s, and what their charts must show."""

    def __init__(self, seed: int) -> None:
        random = np.random.default_rng(seed)
        self.rank, self.begin, self.wait, self.step = [], [], [], []
        for rank in range(RANKS):
            at = 0
            number = 0
            while at < DURATION_S * SECOND:
                wait = int(random.exponential(0.1) * SECOND)
                step = int(random.uniform(0.1, 1.5) * SECOND)
                if rank == 1 and number == 100:
                    wait = 47 * SECOND
                if rank == 2 and number == 150:
                    step = 12 * SECOND
                self.rank.append(rank)
                self.begin.append(T0 + at)
                self.wait.append(wait)
                self.step.append(step)
                at += wait + step
                number += 1
        self.ranks, self.begins = np.array(self.rank), np.array(self.begin)
        self.waits, self.steps = np.array(self.wait), np.array(self.step)

    def envelopes(self, every_s: int = 50) -> list[Envelope]:
        """The rows, each in the first envelope made after its end."""
        ends = self.begins + self.waits + self.steps
        made: list[Envelope] = []
        for seq, at in enumerate(range(every_s, DURATION_S + 100, every_s), start=1):
            low, high = T0 + (at - every_s) * SECOND, T0 + at * SECOND
            parts = []
            for rank in range(RANKS):
                mine = (ends > low) & (ends <= high) & (self.ranks == rank)
                parts.append(steps(rank, self.begins[mine], self.waits[mine], self.steps[mine]))
            made.append(
                envelope(
                    seq,
                    made_ns=high,
                    processes=[process(r, RANKS) for r in range(RANKS)],
                    tables={"steps": joined(parts)},
                )
            )
        return made

    def inside(self, rank: int | None, low: int, high: int) -> tuple[float, float]:
        """Data wait and step time within [low, high)."""
        mine = np.ones(len(self.ranks), dtype=bool) if rank is None else self.ranks == rank
        begin, delivered = self.begins[mine], self.begins[mine] + self.waits[mine]
        end = delivered + self.steps[mine]

        def overlap(starts: NDArray[Any], ends: NDArray[Any]) -> float:
            return float(np.maximum(0, np.minimum(ends, high) - np.maximum(starts, low)).sum())

        return overlap(begin, delivered), overlap(delivered, end)

    def wait_ratio(self, rank: int | None, low: int, width: int) -> float:
        wait, step = self.inside(rank, low, low + width)
        return wait / (wait + step) if wait + step else np.nan

    def within(self, low: int, width: int, rank: int | None = None) -> NDArray[np.bool_]:
        chosen = (self.begins >= low) & (self.begins < low + width)
        return chosen if rank is None else chosen & (self.ranks == rank)


@pytest.fixture(scope="module")
def truth() -> Truth:
    return Truth(7)


def _roll_everything(store: DuckDBStore) -> None:
    """As after a quiet minute: every bucket closed and summed."""
    with store._files.open("run-1") as file:
        file.newest_ns += 2000 * SECOND
        while file.roll():
            pass
        file.newest_ns -= 2000 * SECOND
        assert not any(file._dirty.values())


def _fill(store: DuckDBStore, truth: Truth, order: str, rolled: bool) -> None:
    for number, each in enumerate(ORDERS[order](truth.envelopes())):
        store.append([each])
        if number % 3 == 0:
            store.tidy()
    if rolled:
        _roll_everything(store)


ORDERS: dict[str, Callable[[list[Envelope]], list[Envelope]]] = {
    "in order": lambda es: es,
    "a late outbox": lambda es: es[:5] + es[15:] + es[5:15],
    "backwards": lambda es: es[::-1],
    "shuffled": lambda es: [es[i] for i in np.random.default_rng(3).permutation(len(es))],
}


Filled = Callable[[str, bool], DuckDBStore]


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory, truth: Truth) -> Iterator[Filled]:
    """Stores that hold the truth, each made once per order of envelopes and of whether all is summed."""
    made: dict[tuple[str, bool], DuckDBStore] = {}

    def get(order: str, rolled: bool) -> DuckDBStore:
        if (order, rolled) not in made:
            store = made[order, rolled] = DuckDBStore(tmp_path_factory.mktemp("runs"))
            _fill(store, truth, order, rolled)
        return made[order, rolled]

    yield get
    for store in made.values():
        store.close()


LEVEL_LIMITS = {"rows": 10**9, "5 s": 2000, "60 s": 200, "600 s": 0}
"""Limits of rows for which the truth, all of it, is read from this level."""


@pytest.fixture(params=LEVEL_LIMITS)
def level(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(charts, "ROWS_LIMIT", LEVEL_LIMITS[request.param])
    monkeypatch.setattr(charts, "ONE_KEY_FACTOR", 1)
    return str(request.param)


@pytest.mark.parametrize("rolled", [False, True])
@pytest.mark.parametrize("order", ORDERS)
def test_data_wait_matches_the_truth(
    filled: Filled, truth: Truth, level: str, order: str, rolled: bool
) -> None:
    store = filled(order, rolled)
    end = T0 + DURATION_S * SECOND
    for rank in (None, 1, 2):
        found = store.series("run-1", "data_wait_ratio", rank, T0, end, 400)
        assert 0 < len(found.t_ns) <= 400
        width = found.bucket_ns
        if rolled and level != "rows":
            assert width == int(level.split()[0]) * SECOND
        expected = [truth.wait_ratio(rank, int(t), width) for t in found.t_ns]
        np.testing.assert_allclose(found.mean, expected, atol=1e-9)
        assert found.high.max() <= 1.0
        ranks = range(RANKS) if rank is None else [rank]
        each = np.array([[truth.wait_ratio(r, int(t), width) for r in ranks] for t in found.t_ns])
        np.testing.assert_allclose(found.low, np.nanmin(each, axis=1), atol=1e-9)
        np.testing.assert_allclose(found.high, np.nanmax(each, axis=1), atol=1e-9)
    duty = store.series("run-1", "compute_duty_ratio", 1, T0, end, 40)
    wait = store.series("run-1", "data_wait_ratio", 1, T0, end, 40)
    np.testing.assert_allclose(duty.mean, 1 - wait.mean, atol=1e-9)


@pytest.mark.parametrize("rolled", [False, True])
@pytest.mark.parametrize("order", ["in order", "shuffled"])
def test_step_metrics_match_the_truth(
    filled: Filled, truth: Truth, level: str, order: str, rolled: bool
) -> None:
    store = filled(order, rolled)
    end = T0 + DURATION_S * SECOND
    for rank in (None, 0):
        found = store.series("run-1", "wait_s", rank, T0, end, 1400)
        for i, t in enumerate(found.t_ns.tolist()):
            waits = truth.waits[truth.within(t, found.bucket_ns, rank)] / 1e9
            np.testing.assert_allclose(
                [found.low[i], found.mean[i], found.high[i]], [waits.min(), waits.mean(), waits.max()]
            )
        covered = sum(int(truth.within(t, found.bucket_ns, rank).sum()) for t in found.t_ns.tolist())
        assert covered == int(truth.within(T0, 10**15, rank).sum())  # no row is left out
    rate = store.series("run-1", "steps_per_s", 2, T0, end, 1400)
    for t, value in zip(rate.t_ns[1:-1].tolist(), rate.mean[1:-1].tolist(), strict=True):
        assert value == pytest.approx(truth.within(t, rate.bucket_ns, 2).sum() / (rate.bucket_ns / 1e9))


@pytest.mark.parametrize("rolled", [False, True])
def test_the_heat_map_matches_the_truth(filled: Filled, truth: Truth, level: str, rolled: bool) -> None:
    store = filled("in order", rolled)
    grid = store.grid("run-1", "data_wait_ratio", T0, T0 + DURATION_S * SECOND, 200)
    assert grid.ranks.tolist() == list(range(RANKS))
    assert grid.values.shape == (RANKS, len(grid.t_ns))
    expected = [[truth.wait_ratio(r, int(t), grid.bucket_ns) for t in grid.t_ns] for r in range(RANKS)]
    np.testing.assert_allclose(grid.values, expected, atol=1e-9)
    if level in ("rows", "5 s"):
        assert (
            np.nanmax(grid.values[1]) == 1.0
        )  # the 47 s wait fills its buckets, and is no more than all of them
        assert np.nansum(grid.values[1] == 1.0) >= 47 * SECOND // grid.bucket_ns - 1


@pytest.mark.parametrize("rolled", [False, True])
def test_totals_match_the_truth(filled: Filled, truth: Truth, rolled: bool) -> None:
    totals = filled("a late outbox", rolled).totals("run-1")
    for rank in range(RANKS):
        mine = truth.ranks == rank
        assert totals[rank].batches == mine.sum() == totals[rank].steps
        assert totals[rank].wait_s == pytest.approx(truth.waits[mine].sum() / 1e9)
        assert totals[rank].step_s == pytest.approx(truth.steps[mine].sum() / 1e9)


def test_late_rows_reach_a_bucket_that_was_summed(
    store: DuckDBStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(charts, "ROWS_LIMIT", 0)

    def mean(rank: int | None = None) -> list[float]:
        values: list[float] = store.series("run-1", "wait_s", rank, T0, T0 + 1200 * SECOND, 30).mean.tolist()
        return values

    store.append([envelope(1, tables={"steps": steps(0, [T0 + 10 * SECOND], [2 * SECOND], [1])})])
    store.append([envelope(2, made_ns=T0 + 1200 * SECOND)])
    _roll_everything(store)
    assert mean() == [2.0]
    late = steps(1, [T0 + 11 * SECOND], [4 * SECOND], [1])
    store.append([envelope(1, stream="b", host="b", processes=[process(1, 2)], tables={"steps": late})])
    assert mean() == [3.0]  # at once, from the rows
    _roll_everything(store)
    assert mean() == [3.0]  # and summed again
    assert mean(1) == [4.0]


def test_zero_is_drawn_and_unknown_is_a_gap(store: DuckDBStore) -> None:
    times = T0 + np.arange(0, 40, 2) * SECOND
    values = np.where(np.arange(20) % 2, np.nan, 0.0)
    gpus = table("gpus", rank=0, gpu=0, t_ns=times, utilization_ratio=values)
    hosts = table("hosts", t_ns=times, cpu_ratio=0.25, shm_used_bytes=5, shm_total_bytes=20)
    store.append(
        [envelope(40, tables={"gpus": gpus, "hosts": hosts, "steps": steps(0, times, 0, [UNKNOWN] * 20)})]
    )
    for _ in range(2):
        found = store.series("run-1", "gpu_utilization_ratio", 0, T0, T0 + 40 * SECOND, 20)
        assert found.mean.tolist() == [0.0] * 10
        assert ((found.t_ns - T0) // SECOND).tolist() == list(range(0, 40, 4))
        assert len(store.series("run-1", "gpu_power_w", None, T0, T0 + 40 * SECOND, 20).t_ns) == 0
        assert store.series("run-1", "wait_s", None, T0, T0 + 40 * SECOND, 20).mean.tolist() == [0.0] * 20
        assert len(store.series("run-1", "step_s", None, T0, T0 + 40 * SECOND, 20).t_ns) == 0
        assert len(store.series("run-1", "other_s", None, T0, T0 + 40 * SECOND, 20).t_ns) == 0
        assert len(store.series("run-1", "data_wait_ratio", 0, T0, T0 + 40 * SECOND, 20).t_ns) == 0
        shm = store.series("run-1", "host_shm_used_ratio", 0, T0, T0 + 40 * SECOND, 20)
        assert shm.mean.tolist() == [0.25] * 20
        assert len(store.series("run-1", "host_cpu_ratio", 5, T0, T0 + 40 * SECOND, 20).t_ns) == 0
        grid = store.grid("run-1", "host_cpu_ratio", T0, T0 + 40 * SECOND, 20)
        assert grid.values.tolist() == [[0.25] * 20]
        _roll_everything(store)


def test_only_training_is_drawn(store: DuckDBStore) -> None:
    rows = joined(
        [
            steps(0, [T0], [1 * SECOND], [SECOND]),
            steps(0, [T0], [3 * SECOND], [SECOND], loader=1),
            steps(0, [T0], [5 * SECOND], [SECOND], off_main_thread=1),
        ]
    )
    fetches = table(
        "fetches", rank=[0, 0], loader=[0, 1], worker=0, request_ns=T0, fetch_ns=[SECOND, 9 * SECOND]
    )
    store.append([envelope(60, tables={"steps": rows, "fetches": fetches})])
    assert store.series("run-1", "wait_s", None, T0, T0 + 60 * SECOND, 10).high.tolist() == [1.0]
    assert store.series("run-1", "fetch_s", None, T0, T0 + 60 * SECOND, 10).high.tolist() == [1.0]


def test_a_speed_is_zero_while_the_process_lives_and_unknown_after_it_died(
    store: DuckDBStore, level: str
) -> None:
    """Sixty steps, one a second; then the process lives on and does nothing; then nobody tells of it."""
    alive_s, width_s = 1200, 60
    times = T0 + np.arange(alive_s // 2) * SECOND
    fetches = table("fetches", rank=0, loader=0, worker=0, request_ns=times, fetch_ns=SECOND, samples=32)
    seen = table("processes", rank=0, worker=-1, t_ns=T0 + np.arange(alive_s) * SECOND, cpu_ratio=0.0)
    stood = {"steps": steps(0, times, 0, SECOND // 2), "fetches": fetches, "processes": seen}
    store.append([envelope(alive_s, tables=stood), envelope(2 * alive_s, tables={})])
    later = steps(0, [T0 + 2 * alive_s * SECOND], [0], [SECOND])
    store.append([envelope(2 * alive_s + 60, tables={"steps": later})])
    for rolled in (False, True):
        if rolled:
            _roll_everything(store)
        for metric, each in (("steps_per_s", 1.0), ("samples_per_s", 32.0)):
            found = store.series("run-1", metric, 0, T0, T0 + 2 * alive_s * SECOND, 2 * alive_s // width_s)
            at = (found.t_ns - T0) // SECOND
            went = at + found.bucket_ns // SECOND <= alive_s // 2
            stood_still = (at >= alive_s // 2) & (at + found.bucket_ns // SECOND <= alive_s)
            assert set(found.mean[went].tolist()) == {each}
            assert stood_still.sum() >= alive_s // 2 * SECOND // found.bucket_ns - 1
            assert set(found.mean[stood_still].tolist()) <= {0.0}
            silent = (at >= alive_s) & (at + found.bucket_ns // SECOND <= 2 * alive_s)
            assert not silent.any()  # unknown is a gap
        grid = store.grid("run-1", "steps_per_s", T0, T0 + 2 * alive_s * SECOND, 2 * alive_s // width_s)
        assert (
            grid.values == 0
        ).any() or level == "600 s"  # a bucket of ten minutes also has what went before


def test_workers_and_trainers_are_two_metrics(store: DuckDBStore) -> None:
    rows = table(
        "processes", rank=0, worker=[-1, 0, 1], t_ns=T0, cpu_ratio=[0.9, 0.1, 0.3], rss_bytes=[9, 1, 3]
    )
    store.append([envelope(60, tables={"processes": rows})])
    trainer = store.series("run-1", "process_cpu_ratio", 0, T0, T0 + 60 * SECOND, 10)
    workers = store.series("run-1", "worker_rss_bytes", 0, T0, T0 + 60 * SECOND, 10)
    assert trainer.mean.tolist() == [0.9]
    assert (workers.low[0], workers.mean[0], workers.high[0]) == (1, 2, 3)


def _everything() -> dict[str, dict[str, bytes]]:
    """1300 random rows, one a second, of every table a metric comes from."""
    random = np.random.default_rng(1)
    tables: dict[str, dict[str, bytes]] = {}
    for name in dict.fromkeys(source.table for source in SOURCES.values()):
        numbers: dict[str, Any] = {}
        for column in TABLES[name]:
            if column.name == TIME_COLUMN[name]:
                numbers[column.name] = T0 + np.arange(1300) * SECOND
            elif column.name == "worker":
                numbers[column.name] = np.arange(1300) % 2 - 1
            elif column.name in ("rank", "loader", "gpu", "off_main_thread"):
                numbers[column.name] = 0
            else:
                high = 10**9 if column.name.endswith("_ns") else 100
                drawn = random.integers(1, high, 1300)
                numbers[column.name] = drawn / (1 if column.dtype == "i8" else 100)
        tables[name] = table(name, **numbers)
    return tables


@pytest.fixture(scope="module")
def two_stores(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[DuckDBStore, DuckDBStore]]:
    """The same rows, in the second store also as rollups."""
    stores = DuckDBStore(tmp_path_factory.mktemp("rows")), DuckDBStore(tmp_path_factory.mktemp("rolled"))
    for store in stores:
        store.append([envelope(1300, tables=_everything())])
    _roll_everything(stores[1])
    yield stores
    for store in stores:
        store.close()


@pytest.mark.parametrize("metric", [name for name, metric in METRICS.items() if metric.kind != "others"])
def test_every_metric_is_the_same_from_rows_and_rollups(
    two_stores: tuple[DuckDBStore, DuckDBStore], metric: str, level: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask = ("run-1", metric, 0, T0, T0 + 1300 * SECOND, 300)
    if level != "rows":
        monkeypatch.setattr(charts, "_from_rows", None)  # rows are not read any more
    rolled = two_stores[1].series(*ask)
    monkeypatch.undo()
    monkeypatch.setattr(charts, "bucket_width_ns", lambda *_: rolled.bucket_ns)
    rows = two_stores[0].series(*ask)
    assert 0 < len(rows.t_ns) <= 300
    for one, other in (
        (rows.t_ns, rolled.t_ns),
        (rows.low, rolled.low),
        (rows.mean, rolled.mean),
        (rows.high, rolled.high),
    ):
        np.testing.assert_allclose(one, other)
    assert (rows.low <= rows.mean + 1e-9).all()
    assert (rows.mean <= rows.high + 1e-9).all()
    grid = two_stores[1].grid("run-1", metric, T0, T0 + 1300 * SECOND, 300)
    assert np.isfinite(grid.values).any()


def test_an_open_ended_number_of_points_is_never_exceeded() -> None:
    random = np.random.default_rng(5)
    for _ in range(2000):
        start = T0 + int(random.integers(0, 10**13))
        end = start + int(10 ** random.uniform(6, 18))
        points = int(random.integers(2, 2000))
        width = bucket_width_ns(start, end, points)
        assert -(-end // width) - start // width <= points


@pytest.mark.parametrize("rolled", [False, True])
def test_a_wait_in_progress_is_drawn(tmp_path: Path, store: DuckDBStore, level: str, rolled: bool) -> None:
    times = T0 + np.arange(1200) * SECOND
    rows = joined([steps(rank, times, 0, SECOND) for rank in (0, 1)])
    since = T0 + 1200 * SECOND
    ranks = [process(0, 2), process(1, 2)]

    def waiting(seq: int, **more: Any) -> Envelope:
        spans = [span(0, since, phase="wait", loader=0, **more), span(1, since, phase="wait", loader=1)]
        return envelope(seq, processes=ranks, spans=spans)

    store.append([envelope(1200, processes=ranks, tables={"steps": rows}), waiting(2500)])
    if rolled:
        _roll_everything(store)
    grid = store.grid("run-1", "data_wait_ratio", T0, T0 + 2500 * SECOND, 400)
    inside = (grid.t_ns >= since) & (grid.t_ns + grid.bucket_ns <= since + 1300 * SECOND)
    assert inside.any()
    assert grid.values[0, inside].tolist() == [1.0] * int(inside.sum())
    before = (grid.t_ns >= T0) & (grid.t_ns + grid.bucket_ns <= since)
    assert not grid.values[0, before].any()
    assert np.isnan(grid.values[1, inside]).all()  # that one waits for validation
    store.append([waiting(2501, alive=False)])
    after = store.grid("run-1", "data_wait_ratio", T0, T0 + 2500 * SECOND, 400)
    assert np.isnan(after.values[0, inside]).all()
    store.append([waiting(2502)])
    store.append([envelope(2600, processes=[process(0, 2, state="crashed"), process(1, 2)])])
    died = store.grid("run-1", "data_wait_ratio", T0, T0 + 2600 * SECOND, 400)
    lasted = (died.t_ns >= since) & (died.t_ns + died.bucket_ns <= T0 + 2500 * SECOND)
    assert died.values[0, lasted].tolist() == [1.0] * int(lasted.sum())  # it waited until it died
    dead = died.t_ns >= T0 + 2510 * SECOND
    assert np.isnan(died.values[0, dead]).all()
    store.close()
    again = DuckDBStore(tmp_path / "runs")
    try:
        grid = again.grid("run-1", "data_wait_ratio", T0, T0 + 2600 * SECOND, 400)
        assert grid.values[0, lasted].tolist() == [1.0] * int(lasted.sum())  # also after a restart
    finally:
        again.close()
