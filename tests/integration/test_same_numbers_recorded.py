"""One truth: for recorded runs SQL over the run's file, the page's summary and its charts agree."""

from __future__ import annotations

import re
from pathlib import Path

import duckdb
import numpy as np
import pytest

from loaderwatch.core.answers import RankRow
from loaderwatch.server.queries.charts import stored_summary
from loaderwatch.server.recordings import recording
from loaderwatch.server.store.duckdb import DuckDBStore
from loaderwatch.server.window.builder import WindowBuilder
from loaderwatch.server.window.replay import rebuild

TESTS = Path(__file__).resolve().parents[1]
DAYS_NS = 10 * 86400 * 10**9
STATEMENTS = re.findall(
    r"^SELECT .*?;$", (TESTS.parent / "docs" / "quantities.md").read_text(), re.MULTILINE | re.DOTALL
)
WAIT_BY_LOOP, _, LOST = STATEMENTS
ALONE = (
    "s01_serial",
    "s02_few_workers",
    "s13_delivery",
    "s28_restart",
    "s31_teardown",
    "s36_slow_first",
    "n01_validation",
)
TOGETHER = ("healthy_ranks", "s43_straggler")


@pytest.mark.parametrize("name", ALONE + TOGETHER)
def test_sql_on_a_recorded_run_says_what_the_page_says(tmp_path: Path, name: str) -> None:
    recorded = recording.load(TESTS / "scenarios" / "recordings" / f"{name}{recording.SUFFIX}")
    run_id = recorded.run_id
    live, store = WindowBuilder(run_id), DuckDBStore(tmp_path)
    for envelope in recorded.decoded():
        live.add(envelope)
        store.append([envelope])
    summary, totals = stored_summary(store, run_id), rebuild(store, run_id).totals()
    first_ns, last_ns = store.bounds(run_id)
    # In one bucket: all of the run.
    charts = {
        row.rank: store.series(run_id, "data_wait_ratio", row.rank, first_ns - DAYS_NS, last_ns + DAYS_NS, 2)
        for row in summary.ranks
    }
    store.close()
    assert totals == live.totals(), "a restarted server goes on with the same sums"
    (file,) = tmp_path.rglob("*.duckdb")
    with duckdb.connect(str(file), read_only=True) as people:
        (lost_s,) = people.execute(LOST).fetchall()[0]
        waits = {
            rank: people.execute(WAIT_BY_LOOP.replace("rank = 0", f"rank = {rank}")).fetchall()[0][0]
            for rank in charts
        }
    assert summary.lost_clock == "loop"
    if totals.path is None:
        (rank,) = waits
        assert name in ALONE
        assert lost_s == pytest.approx(totals.wait_s[rank] + totals.boundary_s[rank])
    else:
        assert lost_s == pytest.approx(totals.path.wait_s + totals.path.boundary_s)
    open_s = {row.rank: _open_s(row) for row in summary.ranks}
    assert lost_s - 1e-6 <= (summary.lost_s or 0.0) <= lost_s + max(open_s.values()) + 1e-6
    for rank, wait in waits.items():
        assert wait == pytest.approx(totals.wait_s[rank] / (totals.wait_s[rank] + totals.step_s[rank]))
        told = charts[rank].mean[np.isfinite(charts[rank].mean)]
        if not open_s[rank]:  # it counts in a chart, too
            assert told == pytest.approx(wait, abs=0.02)


def _open_s(row: RankRow) -> float:
    return (row.phase_age_s or 0.0) if row.phase in ("wait", "iter", "teardown") else 0.0
