"""What people have said of a run and its alerts, in its file and beside it."""

from __future__ import annotations

import shutil
from pathlib import Path

from loaderwatch.core.answers import Labels
from loaderwatch.server.retention import delete_old_runs
from loaderwatch.server.store.duckdb import DuckDBStore
from loaderwatch.server.store.protocol import StoredAlert
from tests.fakes.runs import SECOND, T0, envelope

SAID = Labels(name="baseline", tags=["resnet", "lr-3"], note='two lines\n"quoted"', pinned=True)


def test_it_is_read_from_the_open_file_its_card_and_a_copy_of_it(tmp_path: Path) -> None:
    store = DuckDBStore(tmp_path / "runs")
    store.append([envelope(1)])
    assert store.run("run-1").labels == Labels()
    store.label("run-1", SAID)
    assert store.run("run-1").labels == SAID
    assert (store.run("run-1").name, store.run("run-1").shown_name) == ("train.py", "baseline")
    store.append([envelope(2)])  # draws the card anew
    assert store.run("run-1").labels == SAID
    store.close()

    again = DuckDBStore(tmp_path / "runs")
    assert again.run("run-1").labels == SAID, "of the card"
    again.label("run-1", Labels(name="other"))
    again.close()

    (tmp_path / "elsewhere").mkdir()
    shutil.copy(tmp_path / "runs" / "run-1.duckdb", tmp_path / "elsewhere")
    there = DuckDBStore(tmp_path / "elsewhere", read_only=True)
    assert there.run("run-1").labels == Labels(name="other"), "it goes where the file goes"
    there.close()


def test_a_file_of_before_says_nothing(tmp_path: Path) -> None:
    store = DuckDBStore(tmp_path / "runs")
    store.append([envelope(1)])
    with store._files.open("run-1") as file:
        file._connection.execute("DROP TABLE labels")
    store.close()
    (tmp_path / "runs" / "run-1.json").unlink()
    there = DuckDBStore(tmp_path / "runs", read_only=True)
    assert there.run("run-1").labels == Labels()
    there.close()


def test_what_is_pinned_outlives_retention(tmp_path: Path) -> None:
    store = DuckDBStore(tmp_path / "runs")
    store.append([envelope(1), envelope(1, run_id="run-2", stream="two")])
    store.label("run-1", SAID)
    later = store.run("run-1").received_ns + 100 * 86400 * SECOND
    assert delete_old_runs(store, 30.0, later) == ["run-2"]
    store.label("run-1", Labels())
    assert delete_old_runs(store, 30.0, later) == ["run-1"]
    assert later > T0
    store.close()


def test_of_alerts_with_one_id_the_last_one_counts(tmp_path: Path) -> None:
    firing = StoredAlert(id="run-1.a", finding="{}", state="firing", opened_ns=T0, updated_ns=T0)
    silenced = StoredAlert(
        id="run-1.a", finding='{"key": "ä"}', state="silenced", opened_ns=T0, updated_ns=T0, closed_ns=T0
    )
    store = DuckDBStore(tmp_path / "runs")
    store.append([envelope(1)])
    for alerts in ([firing, silenced], [silenced, firing], []):
        store.save_alerts("run-1", alerts)
        assert store.alerts("run-1") == [alerts[-1] if alerts else firing]
    store.close()
