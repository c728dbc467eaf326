"""Reads end at a deadline, or when nobody waits for them, whatever they are doing."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path

import duckdb
import pytest

from loaderwatch.server.recordings.stored_windows import StoredWindows
from loaderwatch.server.store import deadline
from loaderwatch.server.store.deadline import Deadline, Stopped, result_of
from loaderwatch.server.store.duckdb import DuckDBStore
from tests.fakes.runs import SECOND, T0, envelope, steps
from tests.waiting import PATIENCE_S, wait_until

ENDLESS = "SELECT count(*) FROM range(1000000000) a, range(1000000000) b"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[DuckDBStore]:
    store = DuckDBStore(tmp_path)
    store.append([envelope(1, tables={"steps": steps(0, [T0, T0 + SECOND], [1, 2], [3, 4])})])
    yield store
    store.close()


def read(store: DuckDBStore, query: str) -> None:
    with store._reading("run-1") as (snapshot, _):
        snapshot.execute(query).fetchall()


def test_a_query_is_interrupted_when_its_time_is_over(store: DuckDBStore) -> None:
    with Deadline(0.2, "too long").holds(), pytest.raises(Stopped, match="too long"):
        read(store, ENDLESS)
    read(store, "SELECT * FROM steps")  # the next one is not


def test_a_query_is_interrupted_when_nobody_waits(store: DuckDBStore) -> None:
    mine = Deadline(PATIENCE_S, "too long")
    threading.Timer(0.2, mine.stop, ["hung up"]).start()
    with mine.holds(), pytest.raises(Stopped, match="hung up"):
        read(store, ENDLESS)
    with (
        mine.holds(),
        pytest.raises(Stopped, match="hung up"),
    ):  # the next read of that question does not begin
        store.scan("run-1", "steps", 0, 2**62)


def test_others_go_on(store: DuckDBStore) -> None:
    """A deadline belongs to one query: an earlier one wakes the thread, and a later one still holds."""
    ended: list[str] = []

    def ask(within_s: float, name: str) -> None:
        with Deadline(within_s, name).holds(), pytest.raises(Stopped, match=name):
            read(store, ENDLESS)
        ended.append(name)

    threads = [threading.Thread(target=ask, args=each) for each in ((1.5, "late"), (0.2, "early"))]
    for thread in threads:
        thread.start()
    wait_until("the first one ends", lambda: ended)
    assert ended[0] == "early"
    for thread in threads:
        thread.join(PATIENCE_S)
    assert ended == ["early", "late"]


def test_without_a_deadline_nothing_ends(store: DuckDBStore) -> None:
    deadline.check()
    assert len(store.scan("run-1", "steps", 0, 2**62)["rank"]) == 2


def test_nothing_is_interrupted_after_a_read() -> None:
    connection = duckdb.connect()
    calls: list[int] = []
    short = Deadline(0.0, "over")
    with pytest.raises(Stopped), short.interrupting(lambda: calls.append(1)):
        raise AssertionError("it was over before")
    mine = Deadline(PATIENCE_S, "over")
    with mine.interrupting(connection.interrupt):
        pass
    mine.stop("late")
    assert connection.execute("SELECT 1").fetchall() == [(1,)]
    assert calls == []


def test_who_waits_for_another_thread_stops_waiting() -> None:
    made: Future[int] = Future()
    with Deadline(0.2, "too long").holds(), pytest.raises(Stopped, match="too long"):
        result_of(made)
    made.set_exception(TimeoutError("its own"))
    with pytest.raises(TimeoutError, match="its own"):
        result_of(made)


def test_who_waits_for_a_window_makes_it_when_its_maker_hangs_up(store: DuckDBStore) -> None:
    """Two ask for one window; the one that makes it hangs up, and the other one gets it all the same."""
    windows = StoredWindows(store)
    first = Deadline(PATIENCE_S, "too long")
    began, hung_up = threading.Event(), threading.Event()
    recall = store.recall

    def slow(*args: object, **more: object) -> object:
        if not hung_up.is_set():
            began.set()
            hung_up.wait(PATIENCE_S)
        return recall(*args, **more)  # type: ignore[arg-type]

    store.recall = slow  # type: ignore[method-assign, assignment]
    refused: list[BaseException] = []

    def make() -> None:
        with first.holds():
            try:
                windows.of("run-1")
            except Stopped as error:
                refused.append(error)

    maker = threading.Thread(target=make)
    maker.start()
    assert began.wait(PATIENCE_S)
    found: list[object] = []
    waiter = threading.Thread(target=lambda: found.append(windows.of("run-1")))
    waiter.start()
    first.stop("hung up")
    hung_up.set()
    for thread in (maker, waiter):
        thread.join(PATIENCE_S)
    assert refused
    assert found
