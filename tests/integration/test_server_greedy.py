"""One sender, reader or neighbour who takes much, on purpose or not: the others do not notice."""

from __future__ import annotations

import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import httpx
import numpy as np
import pytest

from loaderwatch.core.errors import WireError
from loaderwatch.core.records import TABLES
from loaderwatch.core.wire import encode
from loaderwatch.server.access.request_gate import QUESTIONS_AT_ONCE
from loaderwatch.server.live.event_stream import MAX_CLIENTS_OF_ONE
from loaderwatch.server.recordings.outgoing_run import of_store
from loaderwatch.server.store import duckdb as duckdb_store
from loaderwatch.server.store.duckdb import DuckDBStore
from loaderwatch.server.store.metrics import LEVELS
from loaderwatch.server.store.protocol import Kept, Part, StoreError
from loaderwatch.server.store.sql import rollup
from loaderwatch.server.store.sql.transfer import event_of
from tests.fakes.endless import endless
from tests.fakes.feed import SECOND, Feed
from tests.fakes.runs import T0, envelope, process, steps, table
from tests.fakes.serving import Access, ServeProcess, serving
from tests.waiting import PATIENCE_S, wait_until

DAY = 86400 * SECOND
SLOW = "/api/v1/runs/bad/series?metric=data_wait_ratio"


def ask(access: Access, path: str) -> socket.socket:
    """Ask, and do not read the answer yet."""
    where = access.url.partition("://")[2]
    host, _, port = where.partition(":")
    connection = socket.create_connection((host, int(port)), timeout=PATIENCE_S)
    connection.sendall(
        f"GET {path} HTTP/1.1\r\nHost: {where}\r\nAuthorization: Bearer {access.viewer}\r\n\r\n".encode()
    )
    return connection


def status(connection: socket.socket) -> int:
    return int(connection.recv(4096).split(b" ", 2)[1])


# ---- senders


def dirty(store: DuckDBStore, run_id: str) -> int:
    with store._files.open(run_id) as file:
        return sum(map(len, file._dirty.values()))


def tidied(store: DuckDBStore, done: Callable[[], bool]) -> bool:
    store.tidy()
    return done()


def test_an_envelope_over_many_days_is_stored_for_its_own(tmp_path: Path) -> None:
    with serving(tmp_path) as access:
        feed, other = Feed("bad"), Feed("good")
        times = time.time_ns() - np.arange(40_000) * DAY
        access.send(feed.envelope(tables={"steps": steps(0, times, [1], [1])}))
        access.send(other.envelope())
        assert 40_000 > access.get("/runs/bad/summary")["lost_records"] >= 40_000 - 8
        for made_ns in (1, 2**62 - 1):
            with access.client(access.agent) as client:
                answer = client.post("/api/v1/ingest", content=encode(feed.envelope(made_ns=made_ns)))
            assert (answer.status_code, answer.json()["field"]) == (400, "made_ns")
        wide = time.time_ns() - np.arange(70_000) * 8 * SECOND
        with access.client(access.agent) as client:
            many = feed.envelope(tables={"collections": table("collections", rank=0, request_ns=wide)})
            assert client.post("/api/v1/ingest", content=encode(many)).status_code == 200, (
                "no rollup is made of these"
            )
            many = feed.envelope(tables={"fetches": table("fetches", rank=0, request_ns=wide)})
            answer = client.post("/api/v1/ingest", content=encode(many))
        assert (answer.status_code, answer.json()["field"]) == (400, "tables")


def test_a_pass_of_rollups_ends_in_time_and_all_runs_get_their_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(duckdb_store, "PASS_S", 0.0)  # time for one sum
    store = DuckDBStore(tmp_path)
    runs = [f"run-{number}" for number in range(3)]
    for run_id in runs:
        times = T0 + np.arange(60) * 60 * SECOND
        store.append(
            [envelope(1, run_id=run_id, made_ns=T0 + DAY, tables={"steps": steps(0, times, [1], [1])})]
        )
    before = [dirty(store, run_id) for run_id in runs]
    for _ in range(2 * len(runs)):
        store.tidy()
    after = [dirty(store, run_id) for run_id in runs]
    assert all(0 < now < then for now, then in zip(after, before, strict=True)), (
        "each had two turns, and is not done"
    )
    monkeypatch.undo()
    wait_until(
        "all is summed", lambda: tidied(store, lambda: not any(dirty(store, run_id) for run_id in runs))
    )
    store.close()


def test_a_sum_that_takes_too_long_is_given_up_and_its_rows_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(duckdb_store, "LONGEST_S", 1.0)
    monkeypatch.setattr(duckdb_store, "REST", 0.0)
    store = DuckDBStore(tmp_path)
    feed = Feed("bad")
    for each in (*endless(feed), feed.envelope(made_ns=time.time_ns() + 60 * SECOND)):
        store.append([each])
        store.append([Feed("good").envelope(seq=each.seq)])

    def is_given_up() -> bool:
        store.tidy()
        with store._files.open("bad") as file:
            return len(file._pace.given_up) >= 4

    wait_until("the buckets of 20 s are given up", is_given_up)
    with store._files.open("bad") as file:
        assert {(index, source) for index, source, _ in file._pace.given_up} == {(0, "steps")}
        wait_until("other sums are made", lambda: tidied(store, lambda: not file._dirty[0, "gpu_waits"]))
    assert store.append([Feed("good").envelope(seq=9)])
    store.close()


def test_a_run_whose_buckets_wait_takes_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rollup, "MOST_DIRTY", 100)
    store = DuckDBStore(tmp_path)
    times = T0 + np.arange(200) * 60 * SECOND
    first = envelope(1, made_ns=T0 + DAY, tables={"steps": steps(0, times, [1], [1])})
    later = envelope(2, made_ns=T0 + DAY, tables={"steps": steps(0, [T0 + DAY], [1], [1])})
    store.append([first])
    with pytest.raises(StoreError, match="wait to be summed up"):
        store.append([later])
    store.append([envelope(1, run_id="other")])
    wait_until("some are summed", lambda: tidied(store, lambda: dirty(store, "run-1") <= 100))
    assert store.append([later]) == [later]
    assert len(store.scan("run-1", "steps", 0, 2**62)["rank"]) == 201
    store.close()


def test_a_query_is_planned_quickly_over_many_dirty_buckets() -> None:
    """Every second bucket of a month: looking for each among all others took minutes."""
    width = LEVELS[0].ns
    begins = {at * width for at in range(0, 500_000, 2)}
    waiting: rollup.Dirty = {
        (index, "steps"): {t // level.ns * level.ns for t in begins} for index, level in enumerate(LEVELS)
    }
    end = 500_000 * width // LEVELS[2].ns * LEVELS[2].ns
    pieces = rollup.pieces(0, end, 2, "steps", waiting)
    assert len(pieces) <= rollup.MAX_PIECES
    covered = sorted((piece.start_ns, piece.end_ns) for piece in pieces if piece.level is None)
    assert all(any(a <= t < b for a, b in covered) for t in begins if t < end)


# ---- readers


@pytest.fixture(scope="module")
def slow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Access]:
    """A server with a run of which a chart takes minutes."""
    with serving(tmp_path_factory.mktemp("slow-run")) as access:
        feed = Feed("bad")
        for each in endless(feed):
            access.send(each)
        yield access


def test_who_hangs_up_gives_its_turn_back(slow: Access) -> None:
    for _ in range(3):
        held = [ask(slow, SLOW) for _ in range(QUESTIONS_AT_ONCE)]
        time.sleep(0.3)  # they begin to read
        for connection in held:
            connection.close()
    assert {run["run_id"] for run in slow.get("/runs")} == {"bad"}


def test_times_of_other_ages_are_skipped(tmp_path: Path) -> None:
    """A run that an older version stored, from 1970 to 2043: the fingerprint went through each hour."""
    ended = [process(0, state="finished")]
    store = DuckDBStore(tmp_path / "runs")
    store.append([envelope(1, made_ns=1, tables={"steps": steps(0, [1], [1], [1])})])
    store.append([envelope(2, made_ns=2**61, processes=ended, tables={"steps": steps(0, [2**61], [1], [1])})])
    rows = sum(
        len(data) // 8
        for part in of_store(store, "run-1").parts()
        for name, each in part.tables.items()
        for data in [each[TABLES[name][0].name]]
    )
    assert rows == 2
    store.close()
    with serving(tmp_path) as access:
        held = [ask(access, "/api/v1/runs/run-1/fingerprint") for _ in range(QUESTIONS_AT_ONCE)]
        for connection in held:
            connection.close()
        assert access.get("/runs/run-1/fingerprint")["fingerprint"]
        for route in ("series", "heatmap"):
            access.get(f"/runs/run-1/{route}", metric="data_wait_ratio")


def test_what_is_imported_has_times_of_ours(tmp_path: Path) -> None:
    store = DuckDBStore(tmp_path)
    for t_ns in (1, 2**61):
        arrival = store.arrive("run-1")
        with pytest.raises(WireError, match="years off"):
            arrival.add(Part(tables={"steps": steps(0, [t_ns], [1], [1])}))
        arrival.give_up()
        arrival = store.arrive("run-1")
        with pytest.raises(WireError, match="years off"):
            arrival.add(Part(events=[_event(t_ns)]))
        arrival.give_up()
    store.close()


def _event(made_ns: int) -> Kept:
    return event_of(envelope(1, made_ns=made_ns), facts=True)


def test_streams_that_come_at_once_are_counted(tmp_path: Path) -> None:
    store = DuckDBStore(tmp_path / "runs")  # of a run that is over, whose state has to be read first
    store.append([envelope(1, processes=[process(0, state="finished")])])
    store.close()
    with serving(tmp_path) as access:
        held = [ask(access, "/api/v1/runs/run-1/events") for _ in range(MAX_CLIENTS_OF_ONE + 30)]
        try:
            answers = [status(connection) for connection in held]
            assert answers.count(200) == MAX_CLIENTS_OF_ONE
            assert answers.count(429) == 30
        finally:
            for connection in held:
                connection.close()

        def again() -> bool:
            with closing(ask(access, "/api/v1/runs/run-1/events")) as connection:
                return status(connection) == 200

        wait_until("the places are given back", again)


# ---- connections, and the end


def test_connections_beyond_the_descriptors_are_hung_up_on(tmp_path: Path) -> None:
    with ServeProcess(tmp_path, descriptors=700) as server:
        access = server.start()
        host, _, port = access.url.partition("://")[2].partition(":")
        held = []
        try:
            for _ in range(900):
                connection = socket.socket()
                connection.setblocking(False)
                connection.connect_ex((host, int(port)))
                held.append(connection)
        finally:
            wait_until("some are hung up on", lambda: any(_hung_up(each) for each in held))
            for connection in held:
                connection.close()
        wait_until("the places are given back", lambda: _is_alive(access))
        _, said, _ = server.stop()
    assert "Traceback" not in said
    assert said.count("hung up on one more") <= 20


def _is_alive(access: Access) -> bool:
    try:
        return bool(access.send(Feed().envelope()))
    except httpx.TransportError:
        return False


def _hung_up(connection: socket.socket) -> bool:
    try:
        return connection.recv(1) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


def test_requests_under_way_are_told_to_come_again_when_the_server_ends(tmp_path: Path) -> None:
    with ServeProcess(tmp_path) as server:
        access = server.start()
        for each in endless(Feed("bad")):
            access.send(each)
        reading = ask(access, SLOW)
        where = access.url.partition("://")[2]
        sending = socket.create_connection((where.partition(":")[0], int(where.partition(":")[2])))
        sending.settimeout(PATIENCE_S)
        sending.sendall(
            f"POST /api/v1/ingest HTTP/1.1\r\nHost: {where}\r\nAuthorization: Bearer {access.agent}\r\n"
            "Content-Length: 1000\r\n\r\n".encode()
        )
        time.sleep(0.5)  # both begin
        found: list[int] = []
        waiting = [
            threading.Thread(target=lambda c=each: found.append(status(c))) for each in (reading, sending)
        ]
        for thread in waiting:
            thread.start()
        _, said, _ = server.stop(signal.SIGTERM)
        for thread in waiting:
            thread.join(PATIENCE_S)
        reading.close()
        sending.close()
    assert found == [503, 503]
    assert "Traceback" not in said
