"""A rank's use of its GPU, from the store: charts of new files and of files without these columns."""

from __future__ import annotations

import re
from pathlib import Path

import duckdb
import numpy as np
import pytest

from loaderwatch.core.wire import decode, encode
from loaderwatch.server.queries.charts import stored_summary
from loaderwatch.server.store.duckdb import DuckDBStore
from loaderwatch.server.store.metrics import LEVELS
from tests.fakes.runs import SECOND, T0, envelope, process, steps, table

SEEN_S = 3600
METRICS = {"gpu_process_memory_bytes": 9e9, "gpu_process_sm_ratio": 0.5}
COLUMNS = ("process_memory_bytes", "process_sm_ratio")


def rows(begin_s: int, end_s: int) -> dict[str, bytes]:
    """A GPU that two ranks share; nobody knows what the second one's process uses."""
    times = T0 + np.repeat(np.arange(begin_s, end_s, 2), 2) * SECOND
    first = np.arange(len(times)) % 2 == 0
    return table(
        "gpus",
        rank=np.where(first, 0, 1),
        gpu=0,
        t_ns=times,
        utilization_ratio=0.8,
        process_memory_bytes=np.where(first, 9e9, np.nan),
        process_sm_ratio=np.where(first, 0.5, np.nan),
    )


def roll(store: DuckDBStore) -> None:
    for _ in range(200):
        store.tidy()


@pytest.mark.parametrize("rolled", [False, True])
def test_charts_of_what_the_process_uses(tmp_path: Path, rolled: bool) -> None:
    store = DuckDBStore(tmp_path)
    both = [process(0, 2), process(1, 2)]
    store.append([envelope(SEEN_S, processes=both, tables={"gpus": rows(0, SEEN_S)})])
    if rolled:
        roll(store)
    for name, value in METRICS.items():
        for rank in (0, None):
            found = store.series("run-1", name, rank, T0, T0 + SEEN_S * SECOND, 50)
            assert found.mean == pytest.approx(value), "unknown is no zero"
            assert len(found.mean) > 20
        assert not len(store.series("run-1", name, 1, T0, T0 + SEEN_S * SECOND, 50).mean)
    used = store.series("run-1", "gpu_utilization_ratio", 1, T0, T0 + SEEN_S * SECOND, 50)
    assert used.mean == pytest.approx(0.8), "each rank that shares the GPU sees it"
    store.close()


def test_a_streamer_of_before_does_not_send_them() -> None:
    sent = rows(0, 4)
    for column in COLUMNS:
        del sent[column]
    taken = decode(encode(envelope(1, tables={"gpus": sent}))).tables["gpus"]
    assert all(np.isnan(np.frombuffer(taken[column])).tolist() == [True] * 4 for column in COLUMNS)


def test_a_file_of_before_opens_and_goes_on(tmp_path: Path) -> None:
    store = DuckDBStore(tmp_path)
    half = SEEN_S // 2
    store.append([envelope(1, made_ns=T0 + half * SECOND, tables={"gpus": rows(0, half)})])
    roll(store)
    store.close()
    with duckdb.connect(str(tmp_path / "run-1.duckdb")) as outside:
        for column in COLUMNS:
            outside.execute(f"ALTER TABLE gpus DROP COLUMN {column}")
            for level in LEVELS:
                for part in ("n", "sum", "min", "max"):
                    outside.execute(f"ALTER TABLE {level.table('gpus')} DROP COLUMN {column}_{part}")
    looking = DuckDBStore(tmp_path, read_only=True)
    scanned = looking.scan("run-1", "gpus", 0, 2**62)
    assert scanned["utilization_ratio"][0] == 0.8
    assert all(np.isnan(scanned[column]).all() for column in COLUMNS)
    looking.close()
    store = DuckDBStore(tmp_path)
    store.append([envelope(2, made_ns=T0 + SEEN_S * SECOND, tables={"gpus": rows(half, SEEN_S)})])
    for _ in range(2):
        for name, value in METRICS.items():
            found = store.series("run-1", name, 0, T0, T0 + SEEN_S * SECOND, 50)
            assert found.mean == pytest.approx(value)
            assert found.t_ns.min() >= T0 + (half - 120) * SECOND, "before there was nothing"
        used = store.series("run-1", "gpu_utilization_ratio", 0, T0, T0 + SEEN_S * SECOND, 50)
        assert used.t_ns.min() == T0 // used.bucket_ns * used.bucket_ns
        roll(store)
    store.close()


@pytest.mark.parametrize("rolled", [False, True])
def test_the_data_wait_of_a_rank_is_by_its_devices_clock_where_it_is_known(
    tmp_path: Path, rolled: bool
) -> None:
    """Two ranks wait half of the time; of rank 0 it is known that the GPU lacked a batch for a tenth."""
    store = DuckDBStore(tmp_path)
    times = T0 + np.arange(5 * SEEN_S) * SECOND // 5
    ms = SECOND // 1000
    waits = table(
        "gpu_waits",
        rank=0, loader=0, epoch=0, batch=np.arange(times.size - 40), request_ns=times[:-40],
        starved_ns=20 * ms, gpu_step_ns=180 * ms,
    )  # fmt: skip
    for rank in (0, 1):
        tables = {"steps": steps(rank, times, 100 * ms, 100 * ms)} | (
            {"gpu_waits": waits} if rank == 0 else {}
        )
        one = process(rank, 2)
        store.append([envelope(SEEN_S + rank, stream=f"s{rank}", processes=[one], tables=tables)])
    if rolled:
        roll(store)
    end_ns = T0 + SEEN_S * SECOND
    for name, own, other, both in (("data_wait_ratio", 0.1, 0.5, 0.3), ("compute_duty_ratio", 0.9, 0.5, 0.7)):
        charts = [store.series("run-1", name, rank, T0, end_ns, 50).mean[:-1] for rank in (0, 1, None)]
        assert [
            each == pytest.approx(value) for each, value in zip(charts, (own, other, both), strict=True)
        ] == [True] * 3
        grid = store.grid("run-1", name, T0, end_ns, 50)
        assert grid.values[0, 1:-1] == pytest.approx(own)
        assert grid.values[1, 1:-1] == pytest.approx(other)
    starved = [
        store.series("run-1", "gpu_starved_ratio", rank, T0, end_ns, 50).mean[:-1] for rank in (0, 1, None)
    ]
    assert starved[0] == pytest.approx(0.1)
    assert starved[2] == pytest.approx(0.1), "only the rank whose device's clock is known"
    assert not np.isfinite(starved[1]).any()
    newest = store.series("run-1", "data_wait_ratio", 0, end_ns - 20 * SECOND, end_ns, 20)
    late = newest.mean[newest.t_ns >= end_ns - 8 * SECOND]
    assert late == pytest.approx(np.full(late.size, 0.1)), (
        "a rank has one clock in the whole range: of batches without an event it loses as much as of the"
        " others"
    )
    assert newest.t_ns.max() <= end_ns - 5 * SECOND, "its newest events may still come"
    totals = store.totals("run-1")
    assert totals[0].device_batches == times.size - 40
    assert totals[0].starved_s == pytest.approx(0.02 * (times.size - 40))
    assert (totals[1].device_batches, totals[1].starved_s) == (0, 0.0)
    summary = stored_summary(store, "run-1")
    assert summary.clock == "mixed"
    assert [row.clock for row in summary.ranks] == ["device", "loop"]
    assert [row.data_wait_ratio for row in summary.ranks] == pytest.approx([0.1, 0.5], abs=0.01)
    assert summary.lost_s == pytest.approx(SEEN_S * 0.5, rel=0.01), "they go in step: what rank 1 lost"
    store.close()


def test_the_documents_sql_says_what_the_summary_says(tmp_path: Path) -> None:
    store = DuckDBStore(tmp_path)
    times = T0 + np.arange(100) * SECOND // 5
    ms = SECOND // 1000
    waits = table(
        "gpu_waits", rank=0, loader=0, epoch=0, batch=np.arange(100), request_ns=times, starved_ns=20 * ms,
        gpu_step_ns=180 * ms
    )  # fmt: skip
    tables = {"steps": steps(0, times, 100 * ms, 100 * ms), "gpu_waits": waits}
    store.append([envelope(20, processes=[process(0)], tables=tables)])
    said = stored_summary(store, "run-1")
    store.close()
    text = (Path(__file__).resolve().parents[2] / "docs" / "quantities.md").read_text()
    statements = re.findall(r"^SELECT .*;$", text, re.MULTILINE)
    with duckdb.connect(str(tmp_path / "run-1.duckdb"), read_only=True) as file:
        by_loop, by_device = (file.execute(sql).fetchall()[0][0] for sql in statements)
    assert by_loop == pytest.approx(0.5)
    assert by_device == pytest.approx(0.1)
    assert said.data_wait_ratio == pytest.approx(by_device, abs=0.005)


def test_batches_that_lie_ready_last_as_long_as_their_steps(tmp_path: Path) -> None:
    """However long the loop waits for one that is not among them: here the second of each five."""
    store = DuckDBStore(tmp_path)
    times = T0 + np.arange(SEEN_S) * SECOND
    waits = np.where(np.arange(SEEN_S) % 5 == 1, SECOND // 2, 0)
    rows = steps(0, times, waits, SECOND // 4, ready=3)
    store.append([envelope(SEEN_S, processes=[process(0)], tables={"steps": rows})])
    found = store.series("run-1", "cushion_s", 0, T0, T0 + SEEN_S * SECOND, 20)
    assert found.mean[:-1] == pytest.approx(0.75)
