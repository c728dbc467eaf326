"""A stored run as a recording: what was found in the run is found in the file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from loaderwatch.cli import main
from loaderwatch.core.records import ProfilePart
from loaderwatch.core.wire import Envelope
from loaderwatch.detect.evidence import RunEvidence
from loaderwatch.server.recordings import recording
from loaderwatch.server.recordings.analysis import judge_recording, judge_stored
from loaderwatch.server.recordings.export import export
from loaderwatch.server.store.duckdb import DuckDBStore
from loaderwatch.server.store.protocol import UnknownRun
from tests.fakes.profiles import OWN, STACKS, TEXTS, ZIP, counts
from tests.fakes.runs import SECOND, T0, envelope, joined, process, span, steps, table
from tests.fakes.serving import serving

SECONDS = 60


def _run() -> list[Envelope]:
    """Two hosts, a rank each, both input-bound; in the end each waits for a long time."""
    made = []
    for seq in range(1, SECONDS + 1):
        now = T0 + seq * SECOND
        for rank, host in ((0, "host-a"), (1, "host-b")):
            times = now - SECOND + np.arange(5) * SECOND // 5
            tables = {
                "steps": steps(rank, times, SECOND * 3 // 20, SECOND // 20, batch=np.arange(5) + 5 * seq),
                "hosts": table("hosts", t_ns=[now], cpu_ratio=0.5 + rank / 10),
            }
            spans = [span(rank, now - 5, phase="step", loader=0)]
            made.append(
                envelope(
                    seq, stream=host, host=host, processes=[process(rank, 2)], tables=tables, spans=spans
                )
            )
    return made


@pytest.fixture
def store(tmp_path: Path) -> Iterator[DuckDBStore]:
    opened = DuckDBStore(tmp_path / "runs")
    opened.append(_run())
    yield opened
    opened.close()


def test_the_recording_of_a_stored_run_says_what_the_run_says(store: DuckDBStore) -> None:
    recorded = export(store, "run-1")
    *_, (last, over) = recording.windows(recorded)
    assert not over
    assert {rank: len(each.table("steps")["rank"]) for rank, each in last.ranks.items()} == {
        0: 5 * SECONDS,
        1: 5 * SECONDS,
    }
    assert {name: float(host.hosts["cpu_ratio"][-1]) for name, host in last.hosts.items()} == {
        "host-a": 0.5,
        "host-b": 0.6,
    }
    found = [(f.scenario, f.severity, f.rank) for f in judge_recording(recorded)[0]]
    assert found
    assert found == [(f.scenario, f.severity, f.rank) for f in judge_stored(store, "run-1")[0]]


def test_only_the_end_is_exported(store: DuckDBStore) -> None:
    *_, (last, _) = recording.windows(export(store, "run-1", last_s=10.0))
    assert len(last.ranks[0].table("steps")["rank"]) in range(50, 56)
    assert last.ranks[1].process.world_size == 2


def test_sampled_stacks_go_with_their_texts_also_old_ones(store: DuckDBStore) -> None:
    """A streamer sends a text before its first counts; here that is long before what is exported."""
    sampled = envelope(61, tables={"profile": counts([ZIP, OWN], [1, 2])}, profile_stacks=STACKS)
    now = T0 + 80 * SECOND
    rows = joined([counts([ZIP, OWN, 5], [30, 9, 1], t_ns=now - n * SECOND) for n in (1, 0)])
    later = envelope(80, tables={"profile": rows}, spans=[span(0, now)])
    store.append([sampled, later])
    recorded = export(store, "run-1", last_s=10.0)
    texts = [stack for each in recorded.decoded() for stack in each.profile_stacks]
    assert {stack.id: stack.text for stack in texts} == {number: TEXTS[number] for number in (ZIP, OWN)}
    assert len(texts) == 2
    *_, (last, _) = recording.windows(recorded)
    profile = RunEvidence(last).ranks[0].profile(ProfilePart.FETCH)
    assert [stack.samples for stack in profile.stacks] == [60, 18]
    assert profile.unread == 2
    hidden = recording.redacted(recorded)
    *_, (last, _) = recording.windows(hidden)
    shown = RunEvidence(last).ranks[0].profile(ProfilePart.FETCH)
    assert [(stack.samples, stack.state) for stack in shown.stacks] == [(60, "running"), (18, "running")]
    assert shown.lines[0].calls == profile.lines[0].calls == "zipfile.__init__"
    assert shown.lines[0].frame.line == "48"
    assert not any(b"faces" in packed or b"ada" in packed for packed in hidden.envelopes)
    assert any(b"faces" in packed for packed in recorded.envelopes)


def test_an_unknown_run(store: DuckDBStore) -> None:
    with pytest.raises(UnknownRun):
        export(store, "nope")


def test_exported_by_a_server_and_from_its_files(data_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = data_dir / "run.lwrec"
    with serving(data_dir, hang_after_s=7.0) as access:
        for each in _run()[-60:]:
            access.send(each)
        with access.client() as client:
            answer = client.get("/api/v1/runs/run-1/recording", params={"last": 20})
            assert client.get("/api/v1/runs/run-1/recording", params={"last": -1}).status_code in (400, 422)
            assert client.get("/api/v1/runs/nope/recording").status_code == 404
    assert answer.headers["content-disposition"] == 'attachment; filename="run-1.lwrec"'
    file.write_bytes(answer.content)
    exported = recording.load(file)
    assert (exported.run_id, exported.hang_after_s) == ("run-1", 7.0)
    assert recording.redacted(exported).hang_after_s == 7.0
    assert main(["export", "run-1", str(data_dir / "again.lwrec"), "--data-dir", str(data_dir)]) == 0
    assert "again.lwrec" in capsys.readouterr().out
    assert main(["analyze", str(data_dir / "again.lwrec")]) == 0
    assert main(["export", "nope", str(file), "--data-dir", str(data_dir)]) == 1
    assert main(["export", "run-1", str(data_dir / "no" / "file"), "--data-dir", str(data_dir)]) == 1
    assert "cannot be written" in capsys.readouterr().err
