"""A finding says that a later run followed its advice: in the API and on the command line."""

from __future__ import annotations

import time
from pathlib import Path

import msgspec
import pytest

from loaderwatch.cli import main
from loaderwatch.detect.detectors import detect
from loaderwatch.detect.evidence import RunEvidence
from loaderwatch.server.live.judge import Judge
from loaderwatch.server.recordings import recording
from loaderwatch.server.store.duckdb import DuckDBStore
from loaderwatch.server.window.replay import windows
from tests.fakes.runs import SECOND
from tests.fakes.serving import EventReader, ServeProcess
from tests.fakes.two_runs import following, store_advised

RECORDINGS = Path(__file__).resolve().parents[1] / "scenarios" / "recordings"


def printed(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    assert main(argv) == 0
    return capsys.readouterr().out


def judged(store: DuckDBStore, name: str) -> str:
    """Store a recorded run as one that is over, with the alerts that the detectors raise; returns its id."""
    recorded = recording.load(RECORDINGS / f"{name}{recording.SUFFIX}")
    *before, last = recorded.decoded()
    over = [msgspec.structs.replace(process, state="finished") for process in last.processes or ()]
    store.append([*before, msgspec.structs.replace(last, processes=over, final=True)])
    judge = Judge(recorded.run_id)
    for window in windows(store, recorded.run_id):
        judge.judge(window, detect(RunEvidence(window)), window.now_ns)
    store.save_alerts(recorded.run_id, judge.book.take_unsaved())
    return recorded.run_id


def test_two_real_runs_of_a_script(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The first has no workers and is advised to use one, with little to win; the second has four."""
    store = DuckDBStore(tmp_path / "runs")
    first, second = judged(store, "repro_a"), judged(store, "repro_b")
    store.close()
    (line,) = [
        line
        for line in printed(capsys, "analyze", first, "--data-dir", str(tmp_path)).splitlines()
        if "followed:" in line
    ]
    assert line.startswith("  followed: 14.6 → 16.3 steps/s, promised at most 15")
    assert line.endswith(f"; not more than noise · repro-b ({second})")
    assert "followed:" not in printed(capsys, "analyze", second, "--data-dir", str(tmp_path))


def test_page_and_command_line_say_the_same(data_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lately = time.time_ns() - 600 * SECOND
    store_advised(data_dir / "runs", lately)
    with ServeProcess(data_dir, "--port", "0") as server:
        access = server.start()
        (alone,) = access.get("/runs/run-a/findings")
        assert alone["followed"] is None, "nobody has followed it yet"
        access.send(following(lately + 200 * SECOND))
        (found,) = access.get("/runs/run-a/findings")
        followed = found["followed"]
        speed = access.get("/compare", a="run-a", b="run-b")["measures"][0]
        assert speed["measure"] == followed["measure"] == "steps_per_s"
        assert (followed["run_id"], followed["name"]) == ("run-b", "train.py")
        assert (followed["before_per_s"], followed["after_per_s"]) == (speed["a"]["mean"], speed["b"]["mean"])
        assert followed["judgement"] == speed["judgement"] == "better"
        assert followed["promised_per_s"] == pytest.approx(2 * followed["before_per_s"])

        with access.client(access.viewer) as client:
            assert client.get("/api/v1/runs/run-a/findings").json() == [found]
        with access.client(access.agent) as client:
            assert client.get("/api/v1/runs/run-a/findings").status_code == 403
        reader = EventReader(access, "run-a")
        event = reader.wait("the events", lambda event: event.get("findings"))
        reader.close()
        assert event["findings"][0]["followed"] is None, (
            "who follows a run does not wait for others to be read"
        )
        served = printed(capsys, "analyze", "run-a")
        server.stop()

    line = f"  {followed['sentence']} · train.py (run-b)"
    assert line in served.splitlines()
    assert line in printed(capsys, "analyze", "run-a").splitlines(), "of the files, without a server"
