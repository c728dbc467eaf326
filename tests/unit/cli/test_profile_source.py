"""Where a run's profile comes from: a server, a store's file, or a recording. The query itself is a fake."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from loaderwatch.cli.profile_source import PARTS, heaviest_profile, profiles
from loaderwatch.cli.run_source import FiledRun, RecordedRun, ServedRun, open_run
from loaderwatch.core import wire
from loaderwatch.core.answers import Profile
from loaderwatch.core.client import Client, ServerError
from loaderwatch.core.records import TABLES, ProfilePart, ThreadState, pack_row
from loaderwatch.core.wire import Envelope, pack_table
from loaderwatch.server.recordings.recording import Recording, pack
from loaderwatch.server.store.duckdb import DuckDBStore
from tests.fakes.feed import Feed
from tests.fakes.profile_answers import zip_profile

SAMPLES = {"fetch": 812, "step": 30, "evaluation": 0, "boundary": 900}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """The arguments of each question; it is answered with the samples of its part."""
    questions: list[tuple[Any, ...]] = []

    def profile(
        store: DuckDBStore, run_id: str, of: str, rank: int | None = None, *, attempt: int | None = None
    ) -> Profile:
        questions.append((store.run(run_id).run_id, of, rank, attempt))
        return zip_profile(of=of, samples=SAMPLES[of])

    query: Any = SimpleNamespace(stored_profile=profile)
    monkeypatch.setitem(sys.modules, "loaderwatch.server.queries.profile", query)
    return questions


def sampled(envelope: Envelope) -> Envelope:
    """The envelope with one row of counts."""
    row = dict.fromkeys((column.name for column in TABLES["profile"]), 0) | {
        "worker": -1,
        "t_ns": envelope.made_ns,
        "part": ProfilePart.FETCH,
        "state": ThreadState.DISK,
        "samples": 3,
    }
    tables = {**envelope.tables, "profile": pack_table("profile", [pack_row("profile", row)])}
    return msgspec.structs.replace(envelope, tables=tables)


def recorded(folder: Path, envelope: Envelope) -> str:
    path = folder / "run-1.lwrec"
    path.write_bytes(pack(Recording(run_id="run-1", run_name="train", envelopes=[wire.encode(envelope)])))
    return str(path)


def served(monkeypatch: pytest.MonkeyPatch, answer: Any) -> ServedRun:
    monkeypatch.setattr(Client, "profile", lambda client, *question: answer(*question))
    row: Any = SimpleNamespace(run_id="run-1")
    return ServedRun(Client("http://127.0.0.1:1", None), row)


def test_a_file_is_asked_by_the_servers_query(data_dir: Path, asked: list[tuple[Any, ...]]) -> None:
    store = DuckDBStore(data_dir / "runs")
    store.append([Feed("run-1").envelope(final=True, state="finished")])
    store.close()
    with open_run(str(data_dir / "runs" / "run-1.duckdb"), None) as source:
        assert isinstance(source, FiledRun)
        assert [found.of for found in profiles(source, ("step", "fetch"), 3)] == ["step", "fetch"]
        heaviest = heaviest_profile(source, 2)
    assert heaviest is not None
    assert heaviest.of == "boundary"
    assert asked[:2] == [("run-1", "step", 3, None), ("run-1", "fetch", 3, None)]
    assert asked[2:] == [("run-1", of, None, 2) for of in PARTS]


def test_a_recording_is_stored_to_be_asked(tmp_path: Path, asked: list[tuple[Any, ...]]) -> None:
    with open_run(recorded(tmp_path, sampled(Feed("run-1").envelope())), None) as source:
        assert isinstance(source, RecordedRun)
        assert [found.samples for found in profiles(source, ("fetch",), None)] == [812]
    assert asked == [("run-1", "fetch", None, None)]


def test_a_recording_without_counts_has_no_profile(tmp_path: Path, asked: list[tuple[Any, ...]]) -> None:
    with open_run(recorded(tmp_path, Feed("run-1").envelope()), None) as source:
        assert profiles(source, ("fetch",), None) == []
        assert heaviest_profile(source) is None
    assert asked == []


def test_a_server_is_asked_for_each_part(monkeypatch: pytest.MonkeyPatch) -> None:
    source = served(monkeypatch, lambda run_id, of, rank, attempt: zip_profile(of=of, samples=SAMPLES[of]))
    heaviest = heaviest_profile(source)
    assert heaviest is not None
    assert heaviest.of == "boundary"


@pytest.mark.parametrize("status", [404, 403])
def test_only_an_older_server_has_no_profiles(status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*question: object) -> Profile:
        raise ServerError("no", status, "no")

    source = served(monkeypatch, refuse)
    if status == 404:
        assert profiles(source, ("fetch",), None) == []
    else:
        with pytest.raises(ServerError):
            profiles(source, ("fetch",), None)


def test_the_question_names_part_and_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    paths: list[str] = []

    def get(client: Client, path: str, kind: type[Profile]) -> Profile:
        assert kind is Profile
        paths.append(path)
        return zip_profile()

    monkeypatch.setattr(Client, "get", get)
    client = Client("http://127.0.0.1:1", None)
    client.profile("run 1", "step")
    client.profile("run-1", "fetch", 0, 2)
    assert paths == ["/runs/run%201/profile?of=step", "/runs/run-1/profile?of=fetch&rank=0&attempt=2"]
