"""What a stored run is compared by."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np
import pytest

from loaderwatch.advise.comparison.compare import comparison
from loaderwatch.server.recordings.run_measures import observed
from loaderwatch.server.store.duckdb import DuckDBStore
from loaderwatch.server.store.protocol import UnknownRun
from tests.fakes.runs import SECOND
from tests.fakes.two_runs import paced


@pytest.fixture
def store(tmp_path: Path) -> Iterator[DuckDBStore]:
    store = DuckDBStore(tmp_path / "runs")
    yield store
    store.close()


def test_speed_waits_and_boundaries(store: DuckDBStore) -> None:
    store.append([paced("run-a")])
    found = observed(store, "run-a")
    means = found.means
    assert means["steps_per_s"].mean == pytest.approx(10.0, rel=0.05)
    assert means["samples_per_s"].mean == pytest.approx(320.0, rel=0.05)
    assert means["data_wait_ratio"].mean == pytest.approx(0.5, abs=0.02)
    assert means["startup_s"].mean == pytest.approx(2.1)
    assert means["epoch_start_s"].mean == pytest.approx(2.1)
    assert means["epoch_start_s"].values == 3
    assert means["epoch_gap_s"].mean == pytest.approx(0.5)
    assert "worst_rank_data_wait_ratio" not in means
    assert found.run.seconds == pytest.approx(108, rel=0.05), "without its beginning"


def test_where_it_stands_still_the_speed_is_zero(store: DuckDBStore) -> None:
    """Half a minute of nothing between two halves."""
    first = paced("run-a", seconds=40)
    second = paced("run-a", seconds=40, began_ns=first.made_ns + 30 * SECOND)
    store.append([first, msgspec.structs.replace(second, seq=2, processes=first.processes)])
    speed = observed(store, "run-a").values["steps_per_s"]
    assert 0.2 < (speed == 0).mean() < 0.4
    assert np.isfinite(speed).all()


def test_the_worst_rank_of_several(store: DuckDBStore) -> None:
    store.append([paced("run-a", ranks=2)])
    means = observed(store, "run-a").means
    assert means["worst_rank_data_wait_ratio"].mean >= means["data_wait_ratio"].mean
    assert means["samples_per_s"].mean == pytest.approx(640.0, rel=0.05)


def test_two_runs_of_a_store_are_compared(store: DuckDBStore) -> None:
    store.append(
        [
            paced("run-a"),
            paced("run-b", iteration_s=0.06, wait_ratio=0.1, num_workers=8),
            paced("run-c", noise=0.12),
        ]
    )
    a, b, c = (observed(store, name) for name in ("run-a", "run-b", "run-c"))
    better = comparison(a, b)
    assert better.judgement == "better"
    assert [(each.what, each.b) for each in better.settings] == [("num_workers", "8")]
    assert comparison(a, c).judgement == "noise"


def test_a_run_that_is_not_there(store: DuckDBStore) -> None:
    with pytest.raises(UnknownRun):
        observed(store, "nope")
