"""Where a run's profile comes from: a server, a store's file, or a recording."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from loaderwatch.cli.profile_source import heaviest_profile, profiles
from loaderwatch.cli.run_source import FiledRun, RecordedRun, ServedRun, open_run
from loaderwatch.core import wire
from loaderwatch.core.answers import Profile
from loaderwatch.core.client import Client, ServerError
from loaderwatch.core.records import ProfilePart
from loaderwatch.core.wire import Envelope
from loaderwatch.server.recordings.recording import Recording, pack
from loaderwatch.server.store.duckdb import DuckDBStore
from loaderwatch.server.store.facts import UnknownAttempt
from tests.fakes.feed import Feed
from tests.fakes.profile_answers import zip_profile
from tests.fakes.profiles import OWN, STACKS, ZIP, counts
from tests.fakes.runs import joined

SAMPLES = {"fetch": 812, "step": 30, "evaluation": 0, "boundary": 900}


def sampled(run_id: str = "run-1") -> Envelope:
    """A run with samples of its fetches in the last ten seconds, and a few more of its steps."""
    envelope = Feed(run_id).envelope(final=True, state="finished")
    rows = [
        counts([ZIP, OWN, 0], [12, 5, 3], t_ns=envelope.made_ns),
        counts([OWN], [30], t_ns=envelope.made_ns, worker=-1, part=ProfilePart.STEP),
    ]
    tables = {**envelope.tables, "profile": joined(rows)}
    return msgspec.structs.replace(envelope, tables=tables, profile_stacks=STACKS)


def recorded(folder: Path, envelope: Envelope) -> str:
    path = folder / "run-1.lwrec"
    path.write_bytes(pack(Recording(run_id="run-1", run_name="train", envelopes=[wire.encode(envelope)])))
    return str(path)


def served(monkeypatch: pytest.MonkeyPatch, answer: Any) -> ServedRun:
    monkeypatch.setattr(Client, "profile", lambda client, *question: answer(*question))
    row: Any = SimpleNamespace(run_id="run-1")
    return ServedRun(Client("http://127.0.0.1:1", None), row)


def test_a_file_is_asked_by_the_servers_query(data_dir: Path) -> None:
    store = DuckDBStore(data_dir / "runs")
    store.append([sampled()])
    store.close()
    with open_run(str(data_dir / "runs" / "run-1.duckdb"), None) as source:
        assert isinstance(source, FiledRun)
        step, fetch = profiles(source, ("step", "fetch"), 0)
        heaviest = heaviest_profile(source, attempt=1)
        assert profiles(source, ("fetch",), 7)[0].samples == 0
        with pytest.raises(UnknownAttempt):
            profiles(source, ("fetch",), attempt=2)
    assert (step.of, step.samples, fetch.of, fetch.samples, fetch.unread) == ("step", 30, "fetch", 17, 3)
    assert fetch.lines[0].calls == "zipfile.__init__"
    assert heaviest is not None
    assert heaviest.of == "step"


def test_a_recording_gives_the_same_as_a_file(tmp_path: Path) -> None:
    with open_run(recorded(tmp_path, sampled("another-id")), None) as source:
        assert isinstance(source, RecordedRun)
        (fetch,) = profiles(source, ("fetch",), None)
    assert (fetch.samples, fetch.unread, fetch.lines[0].function) == (17, 3, "__getitem__")


def test_a_recording_without_counts_has_no_profile(tmp_path: Path) -> None:
    with open_run(recorded(tmp_path, Feed("run-1").envelope()), None) as source:
        assert profiles(source, ("fetch",), None) == []
        assert heaviest_profile(source) is None


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
