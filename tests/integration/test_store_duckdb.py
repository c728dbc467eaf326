"""The DuckDB store on real files: what is acknowledged is there, once, whatever happens to the process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import duckdb
import numpy as np
import pytest

from loaderwatch.core.clock import wall_ns
from loaderwatch.core.facts import Loss, StackDump
from loaderwatch.core.records import UNKNOWN
from loaderwatch.server.store.duckdb import DuckDBStore
from loaderwatch.server.store.duckdb.runfile import RunFile
from loaderwatch.server.store.metrics import DIGESTS
from loaderwatch.server.store.protocol import StoredAlert, StoreError, UnknownRun
from tests.fakes import minutes_apart
from tests.fakes.runs import SECOND, T0, envelope, process, span, steps, table
from tests.waiting import PATIENCE_S


@pytest.fixture
def store(tmp_path: Path) -> Iterator[DuckDBStore]:
    opened = DuckDBStore(tmp_path / "runs")
    yield opened
    opened.close()


def _one_step(seq: int) -> dict[str, dict[str, bytes]]:
    return {"steps": steps(0, [T0 + seq * SECOND], [seq], [1])}


def _waits(store: DuckDBStore, run_id: str = "run-1") -> list[int]:
    waits: list[int] = store.scan(run_id, "steps", 0, 2**62)["wait_ns"].tolist()
    return waits


def test_an_envelope_is_stored_once(store: DuckDBStore) -> None:
    first = envelope(1, tables=_one_step(1))
    assert store.append([first, first]) == [first]
    assert store.append([first]) == []
    assert _waits(store) == [1]
    assert store.stored_seq("run-1", "host-a") == 1
    assert store.stored_seq("run-1", "host-b") == 0
    assert store.stored_seq("run-2", "host-a") == 0


def test_envelopes_may_come_in_any_order_and_again_after_a_restart(tmp_path: Path) -> None:
    order = [5, 1, 2, 9, 2, 3, 8, 5, 9, 4]
    for seq in order:
        store = DuckDBStore(tmp_path)
        store.append([envelope(seq, tables=_one_step(seq))])
        store.close()
    store = DuckDBStore(tmp_path)
    assert _waits(store) == sorted(set(order))
    assert store.stored_seq("run-1", "host-a") == 9
    assert store.append([envelope(n, tables=_one_step(n)) for n in range(1, 11)]) != []
    assert _waits(store) == list(range(1, 11))
    store.close()


def test_runs_and_hosts_are_kept_apart(store: DuckDBStore) -> None:
    before = wall_ns()
    store.append(
        [
            envelope(1, tables=_one_step(1)),
            envelope(1, run_id="run-2", tables=_one_step(2)),
            envelope(1, stream="host-b", host="host-b", processes=[process(1, 2)], tables=_one_step(3)),
        ]
    )
    assert sorted(_waits(store)) == [1, 3]
    assert _waits(store, "run-2") == [2]
    assert {run.run_id for run in store.runs()} == {"run-1", "run-2"}
    run = store.run("run-1")
    assert run.rank_hosts == {0: "host-a", 1: "host-b"}
    assert (run.world_size, run.state, run.name) == (2, "live", "train.py")
    assert run.last_seen_ns == T0 + SECOND
    assert before <= run.received_ns <= wall_ns()


@pytest.mark.parametrize("run_id", ["nope", "../../etc/passwd", "A", "", "x" * 65, "a.b"])
def test_an_unknown_run_is_told_so(store: DuckDBStore, run_id: str) -> None:
    with pytest.raises(UnknownRun, match="not known"):
        store.run(run_id)
    with pytest.raises(UnknownRun):
        store.series(run_id, "wait_s", None, 0, 1, 10)
    with pytest.raises(UnknownRun):
        store.delete(run_id)


def test_unknown_is_null_and_zero_is_zero(store: DuckDBStore, tmp_path: Path) -> None:
    times = [T0, T0 + 1]
    rows = table("gpus", rank=[0, UNKNOWN], gpu=[0, 1], t_ns=times, utilization_ratio=[0.0, float("nan")])
    store.append([envelope(1, tables={"gpus": rows, "steps": steps(0, times, [0, UNKNOWN], [7, 8])})])
    scanned = store.scan("run-1", "gpus", 0, 2**62)
    assert scanned["rank"].tolist() == [0, UNKNOWN]
    assert scanned["utilization_ratio"][0] == 0.0
    assert np.isnan(scanned["utilization_ratio"][1])
    store.close()
    with duckdb.connect(str(tmp_path / "runs" / "run-1.duckdb"), read_only=True) as outside:
        got = outside.execute("SELECT wait_ns, ready, step_ns FROM steps ORDER BY request_ns").fetchall()
    assert got == [(0, None, 7), (None, None, 8)]


def test_impossible_numbers_do_no_harm(store: DuckDBStore) -> None:
    mad = steps(0, [T0, -5, 2**63 - 1, UNKNOWN], [2**63 - 1, 1, 1, 1], [2**62, -1, 2**63 - 1, 1])
    store.append([envelope(1, tables={"steps": mad})])
    store.tidy()
    found = store.series("run-1", "data_wait_ratio", None, T0 - SECOND, T0 + 30 * SECOND, 10)
    assert len(found.t_ns) == 0
    assert store.totals("run-1")[0].batches == 1


def test_facts_survive_a_restart(tmp_path: Path) -> None:
    store = DuckDBStore(tmp_path)
    store.append([envelope(1, processes=[process(0, 2)], spans=[span(0, T0)])])
    store.append(
        [envelope(2, processes=[process(1, 2)], losses=[Loss(what="ring", rank=0, count=3, t_ns=T0)])]
    )
    store.append([envelope(3, processes=[process(0, 2, state="finished")])])
    before = store.run("run-1")
    store.close()
    store = DuckDBStore(tmp_path)
    assert store.run("run-1").processes == before.processes  # from the card
    list(store.events("run-1", 0, 2**62))
    opened = store.run("run-1")  # from the file
    assert opened.processes == before.processes
    assert (opened.lost_records, opened.state, opened.started_ns) == (3, "live", before.started_ns)
    assert [loss.count for loss in store.losses("run-1")] == [3]
    store.append([envelope(4, processes=[process(1, 2, state="crashed", exit="SIGKILL")])])
    assert store.run("run-1").state == "crashed"
    store.close()


_WRITER = """
import sys, time
from pathlib import Path
from loaderwatch.server.store.duckdb import DuckDBStore
from tests.fakes.runs import SECOND, T0, envelope, span, steps
store = DuckDBStore(Path(sys.argv[1]))
for seq in range(1, 100000):
    rows = steps(0, [T0 + seq * SECOND + i for i in range(50)], seq, 1)
    store.append([envelope(seq, tables={"steps": rows}, spans=[span(0, T0)])])
    print(seq, flush=True)
    if seq % 7 == 0:
        store.tidy()
"""


@pytest.mark.parametrize("run", range(3))
def test_what_was_acknowledged_survives_kill_9(tmp_path: Path, repo_root: Path, run: int) -> None:
    writer = subprocess.Popen(
        [sys.executable, "-c", _WRITER, str(tmp_path)],
        cwd=repo_root,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": str(repo_root)},
    )
    assert writer.stdout is not None
    try:
        acknowledged = 0
        deadline = time.monotonic() + PATIENCE_S
        for line in writer.stdout:
            acknowledged = int(line)
            if acknowledged >= 20 + 9 * run or time.monotonic() > deadline:
                break
        os.killpg(writer.pid, signal.SIGKILL)
        rest = writer.stdout.read().split()
        acknowledged = int(rest[-1]) if rest else acknowledged
    finally:
        if writer.poll() is None:
            os.killpg(writer.pid, signal.SIGKILL)
        writer.wait(PATIENCE_S)
        writer.stdout.close()
    assert acknowledged >= 20
    store = DuckDBStore(tmp_path)
    stored = store.stored_seq("run-1", "host-a")
    assert stored in (acknowledged, acknowledged + 1)  # one may have been stored and not yet said so
    waits = _waits(store)
    assert waits == [seq for seq in range(1, stored + 1) for _ in range(50)]
    assert [r.run_id for r in store.runs()] == ["run-1"]
    assert store.append([envelope(stored, tables=_one_step(stored))]) == []
    assert store.totals("run-1")[0].batches == 50 * stored
    store.close()


@pytest.mark.parametrize("damage", ["garbage", "empty", "cut", "foreign"])
def test_a_damaged_file_is_set_aside_not_deleted(
    tmp_path: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    store = DuckDBStore(tmp_path)
    store.append([envelope(1, tables=_one_step(1))])
    store.close()
    path = tmp_path / "run-1.duckdb"
    whole = path.read_bytes()
    if damage == "foreign":
        path.unlink()
        with duckdb.connect(str(path)) as other:
            other.execute("CREATE TABLE mine (x INTEGER)")
    else:
        path.write_bytes(
            {"garbage": b"no database" * 1000, "empty": b"", "cut": whole[: len(whole) // 3]}[damage]
        )
    left = path.read_bytes()
    store = DuckDBStore(tmp_path)
    assert len(store.append([envelope(2, tables=_one_step(2))])) == 1
    assert _waits(store) == [2]
    store.close()
    (aside,) = tmp_path.glob("run-1.duckdb.corrupt-*")
    assert aside.read_bytes() == left
    assert "set aside" in caplog.text
    assert "run-1.duckdb" in caplog.text


def test_a_read_only_store_changes_nothing(tmp_path: Path) -> None:
    store = DuckDBStore(tmp_path)
    store.append([envelope(1, tables=_one_step(1))])
    store.close()
    (tmp_path / "bad.duckdb").write_bytes(b"garbage")
    before = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    looking = DuckDBStore(tmp_path, read_only=True)
    assert [run.run_id for run in looking.runs()] == ["run-1"]
    assert _waits(looking) == [1]
    with pytest.raises(StoreError, match=r"bad\.duckdb"):
        looking.bounds("bad")
    with pytest.raises(UnknownRun):
        looking.append([envelope(1, run_id="new")])
    looking.close()
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == before


def test_a_file_that_another_process_holds_gets_a_clear_error(tmp_path: Path, repo_root: Path) -> None:
    store = DuckDBStore(tmp_path)
    store.append([envelope(1, tables=_one_step(1))])
    store.tidy()
    code = (
        "import sys; from pathlib import Path\n"
        "from loaderwatch.server.store.duckdb import DuckDBStore\n"
        "s = DuckDBStore(Path(sys.argv[1]))\n"
        "print([r.run_id for r in s.runs()])\n"
        "s.bounds('run-1')\n"
    )
    other = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)],
        cwd=repo_root,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert other.stdout.strip() == "['run-1']"  # from the card
    assert "StoreError" in other.stderr
    assert "open in another process" in other.stderr
    assert list(tmp_path.glob("*.corrupt-*")) == []
    assert _waits(store) == [1]
    store.close()


def test_readers_see_whole_commits_while_rows_are_written(store: DuckDBStore) -> None:
    store.append([envelope(1, tables={"steps": steps(0, T0 + np.arange(10), 1, 1)})])
    stop = threading.Event()
    seen: list[int] = []
    failures: list[BaseException] = []

    def read() -> None:
        try:
            while not stop.is_set():
                waits = _waits(store)
                assert len(waits) % 10 == 0
                seen.append(len(waits))
                total = store.totals("run-1")[0]
                assert total.batches % 10 == 0
                store.series("run-1", "data_wait_ratio", None, T0, T0 + 100 * SECOND, 20)
        except BaseException as error:
            failures.append(error)

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    try:
        for seq in range(2, 60):
            times = T0 + seq * SECOND + np.arange(10)
            store.append([envelope(seq, tables={"steps": steps(0, times, 1, 1)})])
            if seq % 5 == 0:
                store.tidy()
    finally:
        stop.set()
        for reader in readers:
            reader.join(PATIENCE_S)
    assert failures == []
    assert seen == sorted(seen) or len(set(seen)) > 1
    assert len(_waits(store)) == 590


def test_alerts_are_kept_and_replaced_by_id(store: DuckDBStore) -> None:
    store.append([envelope(1)])
    old = StoredAlert(id="a", finding="{}", state="firing", opened_ns=5, updated_ns=6)
    other = StoredAlert(id="b", finding='{"x": 1}', state="firing", opened_ns=7, updated_ns=7)
    new = StoredAlert(
        id="a", finding="{}", state="silenced", opened_ns=5, updated_ns=9, closed_ns=10, silenced_until_ns=99
    )
    store.save_alerts("run-1", [old, other])
    store.save_alerts("run-1", [new])
    assert store.alerts("run-1") == [other, new]
    with pytest.raises(UnknownRun):
        store.save_alerts("run-2", [old])


def test_deleting_removes_every_trace(store: DuckDBStore, tmp_path: Path) -> None:
    store.append([envelope(1, tables=_one_step(1)), envelope(1, run_id="run-2")])
    store.tidy()
    store.delete("run-1")
    assert [run.run_id for run in store.runs()] == ["run-2"]
    assert not list((tmp_path / "runs").glob("run-1*"))
    with pytest.raises(UnknownRun):
        store.alerts("run-1")
    store.append([envelope(1, tables=_one_step(9))])  # the same id begins anew
    assert _waits(store) == [9]


def test_a_fault_while_storing_costs_no_envelope(store: DuckDBStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as faulty:
        faulty.setattr("loaderwatch.server.store.rows.gather", fail)
        with pytest.raises(ZeroDivisionError):
            store.append([envelope(1, tables=_one_step(1))])
    again = envelope(1, tables=_one_step(1))
    assert store.append([again]) == [again]  # not taken for one that is stored
    assert _waits(store) == [1]


def test_a_quiet_run_is_let_go_of_after_housekeeping(
    store: DuckDBStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.append([envelope(1, tables=_one_step(1))])
    monkeypatch.setattr("loaderwatch.server.store.duckdb.files.IDLE_CLOSE_S", 0.2)
    deadline = time.monotonic() + PATIENCE_S
    while store._files._files and time.monotonic() < deadline:
        store.tidy()
        time.sleep(0.02)
    assert not store._files._files
    assert store.append([envelope(2, tables=_one_step(2))])
    assert _waits(store) == [1, 2]


def test_a_run_whose_rollups_fail_does_not_hold_up_others(
    store: DuckDBStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for run_id in ("bad", "good"):
        for seq in (1, 60):
            store.append([envelope(seq, run_id=run_id, tables=_one_step(seq))])
    roll = RunFile.roll

    def fail(file: RunFile) -> int:
        if file.run_id == "bad":
            raise duckdb.OutOfMemoryException("by design")
        return roll(file)

    with monkeypatch.context() as faulty:
        faulty.setattr(RunFile, "roll", fail)
        store.tidy()
    assert "run bad" in caplog.text
    assert (store._files.directory / "good.json").exists()  # its card is written after its rollups
    assert not (store._files.directory / "bad.json").exists()
    assert _waits(store, "bad") == [1, 60]  # opened anew


def test_live_runs_stay_open_however_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "loaderwatch.server.store.duckdb.files.WRITING_S", 3600.0
    )  # however slow this machine is
    store = DuckDBStore(tmp_path)
    for seq in (1, 2):
        for number in range(12):
            store.append([envelope(seq, run_id=f"run-{number}", tables=_one_step(seq))])
        if seq == 1:
            opened = {id(file) for file in store._files._files.values()}
    assert {id(file) for file in store._files._files.values()} == opened
    assert len(opened) == 12
    store.close()


def test_many_runs_need_few_open_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("loaderwatch.server.store.duckdb.files.WRITING_S", 0.0)
    store = DuckDBStore(tmp_path)
    for number in range(12):
        store.append([envelope(1, run_id=f"run-{number}", tables=_one_step(number))])
    assert len(store._files._files) <= 8
    for number in range(12):
        assert _waits(store, f"run-{number}") == [number]
        assert store.append([envelope(1, run_id=f"run-{number}", tables=_one_step(number))]) == []
    assert len(store.runs()) == 12
    store.close()


def test_stacks_and_spans_come_back_as_events(store: DuckDBStore) -> None:
    dump = StackDump(rank=0, worker=1, pid=9, taken_ns=T0, text="frame «ü»", why="requested")
    made = [T0, T0 + SECOND // 2, T0 + SECOND, T0 + 2 * SECOND]
    store.append([envelope(i + 1, made_ns=t, spans=[span(0, t)]) for i, t in enumerate(made)])
    store.append([envelope(5, made_ns=T0 + 2 * SECOND + 1, spans=[span(0, T0)], stacks=[dump])])
    events = list(store.events("run-1", 0, 2**62))
    assert [e.t_ns for e in events] == [T0, T0 + SECOND, T0 + 2 * SECOND, T0 + 2 * SECOND + 1]
    assert [bool(e.body.processes) for e in events] == [True, False, False, False]
    assert [bool(e.body.spans) for e in events] == [True, True, True, False]
    assert events[-1].body.stacks == [dump]
    assert [e.t_ns for e in store.events("run-1", T0 + SECOND, T0 + 2 * SECOND)] == [T0 + SECOND]


def test_a_file_of_before_there_were_digests_is_read_from_its_rows(tmp_path: Path) -> None:
    store = DuckDBStore(tmp_path)
    store.append(minutes_apart.envelopes(5))
    with store._files.open(minutes_apart.RUN) as run:
        while run.roll():
            pass
    expected = (
        minutes_apart.slowest(store, None, 20),
        minutes_apart.path(store, "steps", 0, minutes_apart.BEGAN_AGAIN),
    )
    store.close()
    path = tmp_path / f"{minutes_apart.RUN}.duckdb"
    with duckdb.connect(str(path)) as outside:
        tables = [name for (name,) in outside.execute("SHOW TABLES").fetchall()]
        digests = [level.table(digest.name) for digest in DIGESTS for level in digest.levels]
        assert set(digests) < set(tables)
        for name in digests:
            assert outside.execute(f"SELECT count(*) > 0 FROM {name}").fetchone() == (True,)
            outside.execute(f"DROP TABLE {name}")

    def told(store: DuckDBStore) -> object:
        recalled = store.recall(minutes_apart.RUN, 1, attempt=1).path
        assert recalled is not None
        slow = [
            (row["slow_index"], row["slow_ns"]) for row in store.slow_samples(minutes_apart.RUN, None, 20)
        ]
        return slow, pytest.approx(recalled.by_table["steps"])

    for read_only in (True, False, True):
        store = DuckDBStore(tmp_path, read_only=read_only)
        assert told(store) == expected
        store.close()


def test_a_file_of_an_older_version_gets_the_new_columns(tmp_path: Path) -> None:
    store = DuckDBStore(tmp_path)
    store.append([envelope(1, tables=_one_step(1))])
    store.close()
    with duckdb.connect(str(tmp_path / "run-1.duckdb")) as outside:
        outside.execute("ALTER TABLE steps DROP COLUMN optimizer_steps")
        outside.execute("DROP TABLE collections")
    looking = DuckDBStore(tmp_path, read_only=True)
    assert looking.scan("run-1", "steps", 0, 2**62)["optimizer_steps"].tolist() == [UNKNOWN]
    assert looking.scan("run-1", "collections", 0, 2**62)["duration_ns"].size == 0
    looking.close()
    with duckdb.connect(str(tmp_path / "run-1.duckdb")) as outside:
        outside.execute("DROP TABLE r60_gpus")
    store = DuckDBStore(tmp_path)
    store.append([envelope(2, tables=_one_step(2))])
    assert store.scan("run-1", "steps", 0, 2**62)["optimizer_steps"].tolist() == [UNKNOWN, UNKNOWN]
    store.tidy()
    store.close()
