"""Windows of stored runs are made once for all who ask, and again when there is news."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from loaderwatch.server.queries.charts import stored_summary
from loaderwatch.server.recordings import stored_windows
from loaderwatch.server.recordings.stored_windows import StoredWindows
from loaderwatch.server.store.duckdb import DuckDBStore
from loaderwatch.server.store.facts import UnknownAttempt
from loaderwatch.server.store.protocol import Recall, StoredRun, StoreError, UnknownRun
from tests.fakes.feed import Feed
from tests.waiting import PATIENCE_S, wait_until


class Counting(DuckDBStore):
    """A store that counts how often a run was recalled, and can be held there."""

    recalls = 0
    asked = 0
    fails = False

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.goes_on = threading.Event()
        self.goes_on.set()

    def run(self, run_id: str) -> StoredRun:
        self.asked += 1
        return super().run(run_id)

    def recall(self, run_id: str, reach_ns: int, attempt: int | None = None, **more: Any) -> Recall:
        self.recalls += 1
        assert self.goes_on.wait(PATIENCE_S)
        if self.fails:
            raise StoreError("the disk is away")
        return super().recall(run_id, reach_ns, attempt, **more)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Counting]:
    store = Counting(tmp_path / "runs")
    yield store
    store.close()


def test_all_who_ask_at_once_share_one(store: Counting) -> None:
    store.append([Feed().envelope()])
    windows = StoredWindows(store)
    store.goes_on.clear()
    with ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(windows.of, "run-1") for _ in range(8)]
        wait_until("all have asked, and the first reads the run", lambda: store.asked == 8 and store.recalls)
        store.goes_on.set()
        found = [one.result(PATIENCE_S) for one in asked]
    assert {id(one) for one in found} == {id(found[0])}
    assert store.recalls == 1
    assert found[0].totals.steps[0] == 5
    assert found[0].evidence.use is windows.of("run-1").evidence.use, "it is measured once for all answers"


def test_news_make_it_anew_and_an_attempt_has_its_own(store: Counting) -> None:
    feed = Feed()
    store.append([feed.envelope()])
    windows = StoredWindows(store)
    before = windows.of("run-1")
    assert windows.of("run-1") is before
    store.append([feed.envelope()])
    assert windows.of("run-1").totals.steps[0] == 10
    assert before.totals.steps[0] == 5, "what was given out does not change"
    assert windows.of("run-1", 1) is not windows.of("run-1")
    assert store.recalls == 3
    assert stored_summary(store, "run-1", windows=windows).steps == stored_summary(store, "run-1").steps == 10


def test_an_error_is_told_and_not_kept(store: Counting) -> None:
    windows = StoredWindows(store)
    with pytest.raises(UnknownRun):
        windows.of("nowhere")
    store.append([Feed().envelope()])
    with pytest.raises(UnknownAttempt):
        windows.of("run-1", 7)
    store.fails = True
    with pytest.raises(StoreError, match="the disk is away"):
        windows.of("run-1")
    store.fails = False
    assert windows.of("run-1").window.run_id == "run-1"
    store.delete("run-1")
    with pytest.raises(UnknownRun):
        windows.of("run-1")


def test_few_are_kept_and_not_for_long(store: Counting, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3):
        store.append([Feed(f"run-{number}").envelope()])
    windows = StoredWindows(store)
    monkeypatch.setattr(stored_windows, "MOST_BYTES", windows.of("run-0").bytes * 2)
    for number in (1, 0, 2):
        windows.of(f"run-{number}")
    assert store.recalls == 3
    windows.of("run-0")
    assert store.recalls == 3, "it was asked for after the one that had to go"
    windows.of("run-1")
    assert store.recalls == 4
    monkeypatch.setattr(stored_windows, "KEPT_S", 0.0)
    windows.forget()
    assert not windows._kept
