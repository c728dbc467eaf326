"""The ClickHouse store if inserts fail, answers get lost or the engine dies: each envelope counts once."""

from __future__ import annotations

import signal
import socket
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from loaderwatch.core.errors import ConfigError
from loaderwatch.server.store.clickhouse import ClickHouseStore, database
from loaderwatch.server.store.clickhouse.address import parse_address
from loaderwatch.server.store.clickhouse.claims import Fenced
from loaderwatch.server.store.clickhouse.database import Unreachable
from loaderwatch.server.store.clickhouse.schema import DIGEST_TABLES, STORED
from loaderwatch.server.store.protocol import StoredAlert, StoreError
from tests.fakes import clickhouse, minutes_apart
from tests.fakes.relay import Relay
from tests.fakes.runs import SECOND, T0, envelope, span, steps, table

pytestmark = pytest.mark.skipif(clickhouse.missing() is not None, reason=str(clickhouse.missing()))


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[clickhouse.Server]:
    server = clickhouse.Server(tmp_path_factory.mktemp("engine"))
    yield server
    server.kill()


@pytest.fixture
def url(engine: clickhouse.Server) -> str:
    engine.control()
    return engine.url(f"test_{uuid.uuid4().hex}")


def _open(url: str) -> ClickHouseStore:
    return ClickHouseStore(parse_address(url))


def _both(seq: int) -> dict[str, dict[str, bytes]]:
    """A step and a GPU's sample, which go to two tables."""
    at = T0 + 10 * seq * SECOND  # each in a bucket of its own
    return {"steps": steps(0, [at], [seq], [1]), "gpus": table("gpus", rank=[0], gpu=0, t_ns=[at])}


def _books(store: ClickHouseStore) -> tuple[list[int], int, int]:
    """Steps by their number, GPU samples, and steps as the sums have them."""
    found = store.scan("run-1", "steps", 0, 2**62)["wait_ns"].tolist()
    gpus = len(store.scan("run-1", "gpus", 0, 2**62)["t_ns"])
    return found, gpus, store.totals("run-1")[0].batches


def test_an_insert_whose_answer_is_lost_counts_once(engine: clickhouse.Server, url: str) -> None:
    store = _open(url)
    store.append([envelope(1, tables=_both(1))])
    engine.control(lose=1)
    assert store.append([envelope(2, tables=_both(2))])  # sent again at once
    assert _books(store) == ([1, 2], 2, 2)
    store.close()


@pytest.mark.parametrize("table_name", ["dirty", "steps", "gpus", "events", "acked"])
def test_a_commit_that_fails_midway_is_not_seen_and_comes_again(
    engine: clickhouse.Server, url: str, table_name: str
) -> None:
    store = _open(url)
    store.append([envelope(1, tables=_both(1))])
    engine.control(refuse=table_name)
    for _ in range(2):
        with pytest.raises(StoreError, match="Memory limit"):
            store.append([envelope(2, tables=_both(2), spans=[span(0, T0)]), envelope(3, tables=_both(3))])
        assert _books(store) == ([1], 1, 1)
    engine.control()
    # What is sent again comes in another grouping, so that no token of a block can help.
    assert [each.seq for each in store.append([envelope(2, tables=_both(2))])] == [2]
    assert _books(store) == ([1, 2], 2, 2)
    store.close()
    store = _open(url)
    fresh = store.append([envelope(n, tables=_both(n)) for n in (1, 2, 3, 4)])
    assert [each.seq for each in fresh] == [3, 4]
    assert _books(store) == ([1, 2, 3, 4], 4, 4)
    store.close()


def test_when_the_answer_to_the_last_block_is_lost_the_store_looks(
    engine: clickhouse.Server, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = _open(url)
    store.append([envelope(1, tables=_both(1))])
    insert = store._database.insert

    def lost(table: str, *args: object) -> None:
        insert(table, *args)  # type: ignore[arg-type]
        if table == "acked":
            raise Unreachable("the answer was lost, and again")

    monkeypatch.setattr(store._database, "insert", lost)
    with pytest.raises(Unreachable):
        store.append([envelope(2, tables=_both(2))])
    monkeypatch.undo()
    assert store.append([envelope(2, tables=_both(2)), envelope(3, tables=_both(3))])[0].seq == 3
    assert _books(store) == ([1, 2, 3], 3, 3)
    store.close()


def test_a_marker_that_comes_late_counts_for_nothing(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was on its way while its sender heard that the store is away, and its envelopes came again."""
    store = _open(url)
    store.append([envelope(1, tables=_both(1))])
    insert = store._database.insert
    late: list[tuple[object, ...]] = []

    def held(table: str, *args: object) -> None:
        if table == "acked" and not late:
            late.append((table, *args))
            raise Unreachable("nobody answered")
        insert(table, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(store._database, "insert", held)
    with pytest.raises(Unreachable):
        store.append([envelope(2, tables=_both(2))])
    store.append([envelope(2, tables=_both(2))])
    insert(*late[0])  # type: ignore[arg-type]
    assert _books(store) == ([1, 2], 2, 2)
    store.close()
    store = _open(url)
    assert _books(store) == ([1, 2], 2, 2)
    assert store.append([envelope(2), envelope(3, tables=_both(3))])[0].seq == 3
    assert _books(store) == ([1, 2, 3], 3, 3)
    store.close()


def test_an_engine_that_is_killed_and_comes_back_has_whatever_it_acknowledged(tmp_path: Path) -> None:
    engine = clickhouse.Server(tmp_path / "engine")
    store = _open(engine.url("killed"))
    store.append([envelope(n, tables=_both(n)) for n in (1, 2)])
    engine.kill()
    for _ in range(3):
        with pytest.raises(Unreachable, match=r"store not reachable since \d\d:\d\d:\d\d UTC"):
            store.append([envelope(3, tables=_both(3))])
    with pytest.raises(StoreError):
        store.series("run-1", "wait_s", None, T0, T0 + SECOND, 10)
    with pytest.raises(StoreError):
        store.check()
    engine = clickhouse.Server(tmp_path / "engine", port=engine.port)
    try:
        store.check()
        assert store.append([envelope(n, tables=_both(n)) for n in (1, 2, 3)])[0].seq == 3
        assert _books(store) == ([1, 2, 3], 3, 3)
    finally:
        store.close()
        engine.kill()


def test_what_a_stopped_engine_takes_in_late_counts_for_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has the insert, and works on when it is woken: after its sender was refused, and sent again."""
    monkeypatch.setattr(database, "ANSWER_S", 4)
    engine = clickhouse.Server(tmp_path / "engine")
    try:
        store = _open(engine.url("stopped"))
        store.append([envelope(1, tables=_both(1))])
        for seq in (2, 4):
            engine.process.send_signal(signal.SIGSTOP)
            with pytest.raises(Unreachable):
                store.append([envelope(seq, tables=_both(seq))])
            engine.process.send_signal(signal.SIGCONT)
            store.append([envelope(n, tables=_both(n)) for n in range(1, seq + 2)])
            assert _books(store) == (list(range(1, seq + 2)), seq + 1, seq + 1)
        store.close()
        store = _open(engine.url("stopped"))
        assert _books(store) == ([1, 2, 3, 4, 5], 5, 5)
        store.close()
    finally:
        engine.kill()


def _alert(name: str, state: str = "firing") -> StoredAlert:
    return StoredAlert(
        id=f"run-1.{name}", finding="{}", state=state, opened_ns=T0, updated_ns=T0, closed_ns=None,
        silenced_until_ns=None,
    )  # fmt: skip


def test_who_claims_a_run_last_is_the_one_that_writes_to_it(url: str) -> None:
    first, second = _open(url), _open(url)
    first.append([envelope(1, tables=_both(1))])
    second.append([envelope(2, tables=_both(2))])
    for _ in range(2):
        with pytest.raises(Fenced, match="run-1 was taken over by another server"):
            first.append([envelope(3, tables=_both(3))])
    assert first.lost() == {"run-1"}
    assert _books(second) == ([1, 2], 2, 2)
    assert second.append([envelope(n, tables=_both(n)) for n in (1, 3)])[0].seq == 3
    first.let_go(["run-1"])  # what it knew is forgotten, so that it may take the run over in its turn
    assert first.take_over("run-1").run_id == "run-1"
    assert first.append([envelope(n, tables=_both(n)) for n in (3, 4)])[0].seq == 4
    with pytest.raises(Fenced):
        second.append([envelope(5)])
    for store in (first, second):
        store.close()
    assert _books(_open(url)) == ([1, 2, 3, 4], 4, 4)


@pytest.mark.parametrize("late", ["after the next commit", "before the next commit", "before the claim"])
def test_a_commit_of_who_was_given_up_counts_once_or_never(
    url: str, monkeypatch: pytest.MonkeyPatch, late: str
) -> None:
    """A server is stopped during a commit. Another takes over, and the sender sends again, to that one."""
    first, second = _open(url), _open(url)
    first.append([envelope(1, tables=_both(1))])
    insert = first._database.insert

    def stopped(table: str, *args: object) -> None:
        if table != "acked":
            insert(table, *args)  # type: ignore[arg-type]
            return
        if late == "before the claim":
            insert(table, *args)  # type: ignore[arg-type]
        second.others_came_or_went()
        second.take_over("run-1")
        if late == "before the next commit":
            insert(table, *args)  # type: ignore[arg-type]
        again = second.append([envelope(n, tables=_both(n)) for n in (1, 2, 3)])
        assert [each.seq for each in again] == ([3] if late == "before the claim" else [2, 3])
        if late == "after the next commit":
            insert(table, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(first._database, "insert", stopped)
    with pytest.raises(Fenced):  # its sender gets no receipt for the envelope
        first.append([envelope(2, tables=_both(2))])
    monkeypatch.undo()
    third = _open(url)
    for store in (second, third):
        assert _books(store) == ([1, 2, 3], 3, 3)
    third.append([envelope(4, tables=_both(4))])
    assert _books(third) == ([1, 2, 3, 4], 4, 4)
    for store in (first, second, third):
        store.close()


def test_a_late_commit_of_one_claim_does_not_hide_what_followed_that_of_another(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three servers: the second is stopped in a commit, the first's commit arrives, and the third goes on."""
    first, second, third = _open(url), _open(url), _open(url)
    first.append([envelope(1, tables=_both(1))])
    for store in (second, third):
        store.others_came_or_went()
    second.take_over("run-1")
    with pytest.raises(Fenced):
        first.append([envelope(2, tables=_both(2))])  # stored, and not told
    insert = second._database.insert

    def stopped(table: str, *args: object) -> None:
        if table == "acked":
            assert [each.seq for each in third.append([envelope(n, tables=_both(n)) for n in (2, 3)])] == [3]
        insert(table, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(second._database, "insert", stopped)
    with pytest.raises(Fenced):
        second.append([envelope(4, tables=_both(4))])
    assert third.append([envelope(4, tables=_both(4))])
    fourth = _open(url)
    for store in (third, fourth):
        assert _books(store) == ([1, 2, 3, 4], 4, 4)
    for store in (first, second, third, fourth):
        store.close()


def test_alerts_of_who_was_given_up_are_not_seen(url: str) -> None:
    first, second = _open(url), _open(url)
    first.append([envelope(1)])
    first.save_alerts("run-1", [_alert("a"), _alert("b")])
    second.others_came_or_went()
    second.take_over("run-1")
    with pytest.raises(Fenced):
        first.save_alerts("run-1", [_alert("a", "resolved"), _alert("c")])
    second.save_alerts("run-1", [_alert("b", "acknowledged")])
    for store in (second, _open(url)):
        found = {alert.id: alert.state for alert in store.alerts("run-1")}
        assert found == {"run-1.a": "firing", "run-1.b": "acknowledged"}
    for store in (first, second):
        store.close()


def test_servers_that_claim_a_run_at_the_same_moment_do_not_both_have_it(url: str) -> None:
    stores = [_open(url) for _ in range(4)]
    stores[0].append([envelope(1, tables=_both(1))])

    def write(number: int) -> list[int]:
        seqs = [seq for seq in range(2, 60) if seq % 4 == number]
        taken = []
        for seq in seqs:
            store = stores[number]
            try:
                store.append([envelope(seq, tables=_both(seq))])
                taken.append(seq)
            except Fenced:
                store.let_go(["run-1"])
        return taken

    with ThreadPoolExecutor(4) as threads:
        taken = sorted([1, *(seq for found in threads.map(write, range(4)) for seq in found)])
    found, gpus, _ = _books(_open(url))
    assert set(taken) <= set(found)  # what a sender has a receipt for
    assert len(found) == len(set(found)) == gpus
    for store in stores:
        store.close()


def _refusal(url: str) -> str:
    with pytest.raises((ConfigError, StoreError)) as refused:
        _open(url)
    said = str(refused.value)
    assert clickhouse.PASSWORD not in said
    assert "wrong-password" not in said
    assert "\n" not in said
    return said


def test_of_several_hosts_one_that_answers_is_asked(
    engine: clickhouse.Server, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = Relay(engine.port), Relay(engine.port)
    try:
        store = _open(url.replace(f":{engine.port}/", f":{first.port},127.0.0.1:{second.port}/"))
        store.append([envelope(1, tables=_both(1))])
        first.close()
        store.append([envelope(2, tables=_both(2))])
        store.append([envelope(3, tables=_both(3))])
        assert _books(store) == ([1, 2, 3], 3, 3)
        assert f"127.0.0.1:{second.port} does" in caplog.text
        store.close()
        again = _open(url.replace(f":{engine.port}/", f":{first.port},127.0.0.1:{second.port}/"))
        assert _books(again) == ([1, 2, 3], 3, 3)
        second.close()
        with pytest.raises(Unreachable, match=f"127.0.0.1:{first.port},127.0.0.1:{second.port}/"):
            again.check()
        again.close()
    finally:
        first.close()
        second.close()
    assert clickhouse.PASSWORD not in caplog.text


def test_a_host_with_other_tables_is_no_replica(
    engine: clickhouse.Server, url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    other = clickhouse.Server(tmp_path / "other")
    first = Relay(engine.port)
    try:
        _open(url.replace(f":{engine.port}/", f":{other.port}/")).close()  # it has the same names
        store = _open(url.replace(f":{engine.port}/", f":{first.port},127.0.0.1:{other.port}/"))
        store.append([envelope(1, tables=_both(1))])
        first.close()
        with pytest.raises(Unreachable):
            store.append([envelope(2, tables=_both(2))])
        assert f"127.0.0.1:{other.port} has other tables: it is no replica" in caplog.text
        store.close()
    finally:
        first.close()
        other.kill()


def test_in_a_replicated_database_all_tables_are_replicated(engine: clickhouse.Server, url: str) -> None:
    """The engine of the tests has no Keeper and cannot create the tables; the test reads the statements."""
    store = _open(url)
    asked = store._database
    assert not asked.replicated
    asked.replicated = True
    for each in STORED.values():
        quoted = each.create(asked).replace("'", "\\'")
        ((said,),) = asked.rows(f"SELECT formatQuerySingleLine('{quoted}') AS said")
        wanted = "ReplicatedReplacingMergeTree(commit)" if each.replacing else "ReplicatedMergeTree"
        assert f"ENGINE = {wanted} PARTITION BY run".encode() in said
    asked.replicated = False
    store.close()


def test_runs_of_before_there_were_digests_are_read_from_their_rows(url: str) -> None:
    store = _open(url)
    envelopes = minutes_apart.envelopes(6)
    store.append(envelopes[:200])
    with store._open(minutes_apart.RUN) as run:
        while run.roll():
            pass
    for name in DIGEST_TABLES:
        assert store._database.rows(f"SELECT count() AS kept FROM {store._database.name}.{name}") > [(0,)]
        store._database.command(f"DROP TABLE {store._database.name}.{name}")
    store._database.command(
        f"ALTER TABLE {store._database.name}.dirty UPDATE clean = 1 WHERE clean = 2"
        " SETTINGS mutations_sync = 2"
    )
    store.close()
    for more in (False, True):  # as it lies there, and as it is summed up again and goes on
        store = _open(url)
        if more:
            with store._open(minutes_apart.RUN) as run:
                while run.roll():
                    pass
            store.close()
            store = _open(url)
            with store._open(minutes_apart.RUN) as run:
                assert len(run._dirty[1, "steps"]) < 3
            store.append(envelopes[200:])
        slow = [
            (row["slow_index"], row["slow_ns"]) for row in store.slow_samples(minutes_apart.RUN, None, 20)
        ]
        assert slow == minutes_apart.slowest(store, None, 20)
        path = store.recall(minutes_apart.RUN, 1, attempt=1).path
        assert path is not None
        expected = minutes_apart.path(store, "steps", 0, minutes_apart.BEGAN_AGAIN)
        assert path.by_table["steps"] == pytest.approx(expected)
        store.close()


def test_what_is_wrong_is_said_in_one_line(engine: clickhouse.Server, url: str, tmp_path: Path) -> None:
    assert "does not let the user 'watcher' in" in _refusal(engine.url("x", password="wrong-password"))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and nobody listens
        assert "does not answer" in _refusal(
            f"clickhouse://a:wrong-password@127.0.0.1:{taken.getsockname()[1]}/x"
        )
    store = _open(url)
    store._database.command(f"INSERT INTO {store._database.name}.about VALUES ('loaderwatch', 999)")
    store.close()
    assert "made by a newer loaderwatch (schema 999" in _refusal(url)


@pytest.mark.parametrize(
    ("environ", "said"),
    [
        ({"FAKE_VERSION": "24.8.1.1"}, "is 24.8.1.1; loaderwatch needs"),
        ({"FAKE_DENIED": "INSERT"}, "GRANT SELECT, INSERT, CREATE TABLE, ALTER TABLE ON some.* TO watcher"),
        ({"FAKE_DENIED": "ALTER TABLE"}, "may not ALTER TABLE on some.*"),
        ({"FAKE_DENIED": "SELECT ON system.parts"}, "GRANT SELECT ON system.parts TO watcher"),
        ({"FAKE_DENIED": "CREATE DATABASE"}, "GRANT CREATE DATABASE ON some.* TO watcher"),
    ],
)
def test_a_server_or_user_that_will_not_do_is_told_so(
    tmp_path: Path, environ: dict[str, str], said: str
) -> None:
    engine = clickhouse.Server(tmp_path / "engine", environ=environ)
    try:
        assert said in _refusal(engine.url("some"))
    finally:
        engine.kill()
