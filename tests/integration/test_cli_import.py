"""``loaderwatch import`` into a server with either store, or into the data directory; and its errors."""

from __future__ import annotations

import lzma
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from loaderwatch.cli import main
from loaderwatch.core.wire import Envelope, encode
from loaderwatch.server.recordings import incoming_runs, recording
from loaderwatch.server.recordings.export import export
from loaderwatch.server.recordings.outgoing_run import of_store
from loaderwatch.server.recordings.recording import Recording
from loaderwatch.server.store.duckdb import DuckDBStore
from loaderwatch.server.store.metrics import METRICS
from loaderwatch.server.store.sql.transfer import pack
from tests.fakes import clickhouse
from tests.fakes.feed import Feed
from tests.fakes.runs import SECOND, T0, envelope, process, span, steps
from tests.fakes.serving import Access, ServeProcess, serving, wait_until
from tests.faults.mounts import own_mounts

SCENARIOS = Path(__file__).parents[1] / "scenarios" / "recordings"
needs_clickhouse = pytest.mark.skipif(clickhouse.missing() is not None, reason=str(clickhouse.missing()))
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the command; returns its exit code, and what it printed on stdout and stderr."""

    def ran(*args: object) -> tuple[int, str, str]:
        code = main([str(each) for each in args])
        out, err = capsys.readouterr()
        return code, out, err

    return ran


def _run(run_id: str, wait_ns: int = SECOND // 10) -> list[Envelope]:
    made = []
    for seq in range(1, 31):
        state = "finished" if seq == 30 else "live"
        at = T0 + seq * SECOND
        made.append(
            envelope(
                seq,
                run_id=run_id,
                processes=[process(0, state=state)],
                tables={"steps": steps(0, [at - SECOND], [wait_ns], [SECOND])},
                spans=[span(0, at, phase="step")],
                final=seq == 30,
            )
        )
    return made


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A folder with two runs as DuckDB files and one as a recording."""
    folder = tmp_path / "recorded"
    with closing(DuckDBStore(folder)) as store:
        for name in ("run-a", "run-b", "run-c"):
            store.append(_run(name))
        packed = recording.pack(export(store, "run-c", None))
        store.delete("run-c")
    (folder / "run-c.lwrec").write_bytes(packed)
    (folder / "notes.txt").write_text("no run")
    return folder


@pytest.fixture(params=["files", "duckdb", pytest.param("clickhouse", marks=needs_clickhouse)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """A data directory: without a server, or with one that has either store."""
    data_dir = tmp_path / "data"
    if request.param == "files":
        yield data_dir
    elif request.param == "duckdb":
        with ServeProcess(data_dir, "--port", "0") as server:
            server.start()
            yield data_dir
    else:
        engine = clickhouse.Server(tmp_path / "engine")
        try:
            with ServeProcess(data_dir, "--port", "0", "--store", engine.url("runs")) as server:
                server.start()
                yield data_dir
        finally:
            engine.kill()


def test_runs_are_brought_in_once(place: Path, files: Path, run: Run) -> None:
    code, out, err = run("import", files, "--data-dir", place)
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        f"[{number}/3] train.py (run-{letter}): imported, 30 s of training"
        for number, letter in ((1, "a"), (2, "b"), (3, "c"))
    ]  # fmt: skip
    listed = run("runs", "--data-dir", place, "--json")[1]
    assert {row["run_id"]: row["state"] for row in msgspec.json.decode(listed)} == {
        f"run-{letter}": "finished" for letter in "abc"
    }
    code, out, err = run("import", files / "*.duckdb", files / "run-c.lwrec", "--data-dir", place)
    assert (code, err) == (0, "")
    assert out.count("is there already, with the same content") == 3
    other = files.parent / "other"
    with closing(DuckDBStore(other)) as store:
        store.append(_run("run-a", SECOND // 10 + 1))
    code, out, err = run("import", other, files / "run-b.duckdb", "--data-dir", place)
    assert code == 1
    assert err.count("\n") == 1
    assert "run run-a is there already and differs; it stays as it is" in err
    assert "run-b): is there already" in out
    assert not list(place.glob("runs/arriving/*"))


def test_a_data_directorys_own_files_lie_there_already(files: Path, tmp_path: Path, run: Run) -> None:
    own = tmp_path / "own"
    own.mkdir()
    files.rename(own / "runs")
    code, out, _ = run("import", own / "runs" / "run-a.duckdb", "--data-dir", own)
    assert (code, out) == (0, "[1/1] run-a: it lies there already\n")


@pytest.mark.parametrize(
    ("args", "said"),
    [(("nowhere.lwrec",), "there is no file or folder nowhere.lwrec"),
     (("no*.lwrec",), "there are no .duckdb or .lwrec files")],
)  # fmt: skip
def test_a_file_that_is_not_there(args: tuple[str, ...], said: str, tmp_path: Path, run: Run) -> None:
    code, _, err = run("import", *args, "--data-dir", tmp_path)
    assert code == 2
    assert said in err
    assert err.count("\n") == 1


def _of_a_newer_version(path: Path) -> bytes:
    recorded = recording.load(path)
    return recording.pack(msgspec.structs.replace(recorded, format=2))


def _of_newer_envelopes(path: Path) -> bytes:
    return _changed(path, schema=2)


def _of_another_run(path: Path) -> bytes:
    return _changed(path, run_id="other")


def _changed(path: Path, **more: Any) -> bytes:
    recorded = recording.load(path)
    first, *others = recorded.decoded()
    changed = [encode(msgspec.structs.replace(first, **more)), *map(encode, others)]
    return recording.pack(msgspec.structs.replace(recorded, envelopes=changed))


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda path: path.read_bytes()[:-100], "it is cut off"),
        (lambda path: b"no recording at all", "is not a recording of a run"),
        (lambda path: lzma.compress(b"no MessagePack"), "is not a recording of a run"),
        (_of_a_newer_version, "its format is 2; this version reads 1"),
        (_of_newer_envelopes, "schema: 2; this server reads 1: upgrade the older side"),
        (_of_another_run, "run_id: 'other' in a recording of 'run-c'"),
    ],
)
def test_a_file_that_cannot_be_used(
    damage: Callable[[Path], bytes], said: str, files: Path, tmp_path: Path, run: Run
) -> None:
    path = files / "run-c.lwrec"
    path.write_bytes(damage(path))
    place = tmp_path / "data"
    code, out, err = run("import", path, files / "run-a.duckdb", "--data-dir", place)
    assert code == 1
    assert said in err
    assert err.count("\n") == 1
    assert "Traceback" not in err
    assert "run-a): imported" in out  # the others are brought in all the same
    assert sorted(each.name for each in (place / "runs").rglob("*.duckdb")) == ["run-a.duckdb"]


def test_a_database_of_something_else(files: Path, tmp_path: Path, run: Run) -> None:
    import duckdb

    other = tmp_path / "other.duckdb"
    duckdb.connect(str(other)).execute("CREATE TABLE about (mark VARCHAR, version BIGINT)").close()
    newer = files / "run-b.duckdb"
    with duckdb.connect(str(newer)) as connection:
        connection.execute("UPDATE about SET version = 99")
    (newer.with_suffix(".json")).unlink()
    code, _, err = run("import", other, newer, "--data-dir", tmp_path / "data")
    assert code == 1
    assert err.count("is not a run of this version") == 2
    assert err.count("\n") == 2


def test_a_run_that_goes_on_is_not_moved(tmp_path: Path, run: Run) -> None:
    with closing(DuckDBStore(tmp_path / "from")) as store:
        store.append([Feed("run-z").envelope()])
    for command in (
        ("import", tmp_path / "from", "--data-dir", tmp_path / "to"),
        ("export", tmp_path / "from" / "run-z.duckdb", tmp_path / "z.lwrec", "--whole"),
    ):
        code, _, err = run(*command)
        assert code == 1
        assert "run run-z still reports" in err
    assert not list((tmp_path / "to").rglob("*.duckdb"))


def test_a_full_disk_leaves_nothing_behind(files: Path, tmp_path: Path, run: Run) -> None:
    place = tmp_path / "data"
    with own_mounts() as mounts:
        mounts.tmpfs(place, "1m")
        code, out, err = run("import", files / "run-a.duckdb", "--data-dir", place)
        left = [each for each in place.rglob("*") if each.is_file()]
    assert (code, out, left) == (1, "", [])
    assert err.count("\n") == 1
    assert "not imported" in err
    assert "could not be written" in err


def test_only_the_owner_may(files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    with serving(tmp_path / "data") as access:
        monkeypatch.setenv("LOADERWATCH_SERVER", access.url)
        for token, said in ((access.viewer, "use the owner's token"), (access.agent, "answered 403")):
            monkeypatch.setenv("LOADERWATCH_TOKEN", token)
            code, _, err = run("import", files / "run-a.duckdb")
            assert (code, err.count("\n")) == (1, 1)
            assert said in err
        assert access.get("/runs") == []
        monkeypatch.setenv("LOADERWATCH_TOKEN", access.owner)
        assert run("import", files / "run-a.duckdb")[0] == 0


def test_a_server_takes_parts_in_their_order_and_gives_up_what_stops(
    files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(DuckDBStore(files)) as store:
        moved = of_store(store, "run-a")
        (part,) = moved.parts()
        told = moved.fingerprint()
    path = "/api/v1/runs/run-a/import"
    with serving(tmp_path / "data") as access, access.client() as client:

        def send(number: int, body: bytes, *, last: bool = False) -> int:
            asked = {"number": number, "last": last}
            return client.post(path, params=asked, content=body).status_code

        assert send(1, pack(part)) == 409
        assert send(0, pack(part)) == 200
        assert send(0, pack(part)) == 200  # begins again
        assert send(2, pack(part)) == 409
        assert send(1, b"no part") == 400
        assert send(1, pack(moved.rest), last=True) == 409  # a part that was refused ends it
        assert access.get("/runs") == []
        assert client.post(path, params={"number": -1}).status_code == 400
        assert client.post("/api/v1/runs/no%20run/import", params={"number": 0}).status_code == 404
        monkeypatch.setattr(incoming_runs, "GIVEN_UP_S", 0.2)
        assert send(0, pack(part)) == 200
        wait_until("it is given up", lambda: not list((tmp_path / "data").glob("runs/arriving/*.duckdb")))
        assert send(1, pack(moved.rest), last=True) == 409
        monkeypatch.undo()
        assert send(0, pack(part)) == 200
        assert send(1, pack(msgspec.structs.replace(moved.rest, sequences={})), last=True) == 400
        assert send(0, pack(part)) == 200
        assert send(1, pack(moved.rest), last=True) == 200
        assert send(0, pack(part)) == 409
        assert len(access.get("/runs")) == 1
        assert client.get("/api/v1/runs/nope/fingerprint").status_code == 404
        assert client.get("/api/v1/runs/run-a/fingerprint").json() == {"fingerprint": told}


def test_a_recording_without_alerts_is_judged_anew(tmp_path: Path, run: Run) -> None:
    """Those of before there were alerts in them, and redacted ones."""
    place = tmp_path / "data"
    for name in ("s36_slow_first", "s37_killed"):
        assert run("import", SCENARIOS / f"{name}.lwrec", "--data-dir", place)[0] == 0
    with closing(DuckDBStore(place / "runs", read_only=True)) as store:
        found = {each.name: store.alerts(each.run_id) for each in store.runs()}
    for name, alerts in found.items():
        assert alerts, name
    for file in SCENARIOS.glob("s37_killed.lwrec"):
        code, out, _ = run("import", file, "--data-dir", place)
        assert (code, "is there already, with the same content" in out) == (0, True)


def _page(access: Access, run_id: str) -> dict[str, Any]:
    """What the page asks for, as far as it does not say when it was asked."""
    asked: dict[str, Any] = {
        f"{part}{query}": access.get(f"/runs/{run_id}/{part}{query}")
        for part in ("summary", "findings", "stacks", "workers", "gpus", "marks", "epochs", "boundaries",
                     "audit", "what-if", "ranks")
        for query in ("",)
    }  # fmt: skip
    for metric in METRICS:
        asked[metric] = access.get(f"/runs/{run_id}/series", metric=metric)
    asked["heat map"] = access.get(f"/runs/{run_id}/heatmap", metric="data_wait_ratio")
    (row,) = (each for each in access.get("/runs") if each["run_id"] == run_id)
    asked["row"] = {name: value for name, value in row.items() if name != "bytes"}
    return asked


@needs_clickhouse
def test_the_page_shows_the_same_run(tmp_path: Path, run: Run) -> None:
    """A run that was judged live, with an acknowledged alert and a note, is imported into ClickHouse."""
    recorded = next(iter(SCENARIOS.glob("s37_killed.lwrec")))
    with ServeProcess(tmp_path / "one", "--port", "0") as server:
        first = server.start()
        assert run("import", recorded, "--data-dir", tmp_path / "one")[0] == 0
        (row,) = first.get("/runs")
        run_id = row["run_id"]
        with first.client() as client:
            alert = first.get(f"/runs/{run_id}/findings")[0]["id"]
            assert client.post(f"/api/v1/alerts/{alert}/ack").status_code == 200
            said = {"name": "the killed one", "tags": ["x"], "note": "look"}
            assert client.patch(f"/api/v1/runs/{run_id}", json=said).status_code == 200
        shown = _page(first, run_id)
        file = tmp_path / "moved.lwrec"
        assert run("export", run_id, file, "--whole", "--data-dir", tmp_path / "one")[0] == 0
    assert shown["findings"]
    assert shown["row"]["verdict"]
    engine = clickhouse.Server(tmp_path / "engine")
    try:
        with ServeProcess(tmp_path / "two", "--port", "0", "--store", engine.url("runs")) as server:
            second = server.start()
            assert run("import", file, "--data-dir", tmp_path / "two")[0] == 0
            moved = _page(second, run_id)
            assert moved.keys() == shown.keys()
            for what, answer in shown.items():
                assert moved[what] == _near(answer), what
    finally:
        engine.kill()


def _near(answer: Any) -> Any:
    """Sums are added up in another order."""
    if isinstance(answer, float):
        return pytest.approx(answer, rel=1e-9)
    if isinstance(answer, dict):
        return {name: _near(value) for name, value in answer.items()}
    return [_near(value) for value in answer] if isinstance(answer, list) else answer


def test_a_redacted_recording_can_be_brought_in(files: Path, tmp_path: Path, run: Run) -> None:
    shared = tmp_path / "shared.lwrec"
    assert run("export", files / "run-c.lwrec", shared, "--redact")[0] == 0
    recorded: Recording = recording.load(shared)
    assert recorded.rest is None
    assert run("import", shared, "--data-dir", tmp_path / "data")[0] == 0
