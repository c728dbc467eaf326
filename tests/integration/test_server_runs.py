"""From envelope to page: runs, summary, events, findings, alerts, receipts, restart."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from loaderwatch.core.answers import Evidence
from loaderwatch.core.facts import GpuInfo, GpuProcess, GpuState, SpanInfo, StackDump
from loaderwatch.core.wire import encode
from loaderwatch.detect.finding import Finding
from loaderwatch.server.live import event_stream
from tests.fakes.feed import SECOND, Feed
from tests.fakes.findings import finding_of
from tests.fakes.serving import Access, EventReader, ScriptedDetector, ServeProcess, serving, wait_until
from tests.fakes.streaming import end_processes
from tests.fakes.webhook import Webhook


def hung(feed: Feed, **more: Any) -> Finding:
    facts: dict[str, Any] = {
        "key": "hung:0",
        "code": "hung",
        "scenario": "S36",
        "severity": "critical",
        "confidence": 0.9,
        "began_ns": feed.started_ns,
        "title": "Rank 0 hangs: worker 1 has been reading sample 7 for 40 s.",
        "cause": "Worker 1 is blocked.",
        "advice": "Look at sample 7. Its stack is below.",
        "evidence": [Evidence(label="age", value=40.0, unit="s")],
        "rank": 0,
        "worker": 1,
        "sample_indices": [7],
    }
    return finding_of(**(facts | more))


def findings_of(access: Access, state: str | None = None, run_id: str = "run-1") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = access.get(f"/runs/{run_id}/findings")
    return [f for f in found if state is None or f["state"] == state]


def test_an_envelope_becomes_a_run_on_the_page(tmp_path: Path) -> None:
    with serving(tmp_path) as access:
        feed = Feed()
        receipt = access.send(feed.envelope(steps=20))
        receipt.pop("closing")  # None or not: the run's first look comes before this answer or after it
        assert receipt == {
            "stored_seq": 1,
            "stack_requests": [],
            "notices": [],
            "notifies": False,
            "envelope_s": 0.5,
        }
        (run,) = access.get("/runs")
        assert (run["run_id"], run["name"], run["state"], run["hosts"]) == (
            "run-1",
            "train.py",
            "live",
            ["gpu01"],
        )
        summary = access.get("/runs/run-1/summary")
        assert summary["steps"] == 20
        assert summary["verdict"]["title"]
        assert summary["ranks"][0]["phase"] == "wait"
        with EventReader(access, "run-1") as stream:
            snapshot = stream.wait("the snapshot", lambda e: e["event"] == "snapshot")
            assert snapshot["summary"]["run_id"] == "run-1"
            assert snapshot["findings"] == []
            access.send(feed.envelope(steps=10))
            tick = stream.wait("30 steps", lambda e: e["summary"]["steps"] == 30)
            assert tick["event"] == "tick"
            assert tick["findings"] is None
            newest = tick["newest_at"]
        series = access.get("/runs/run-1/series", metric="wait_s", rank=0)
        assert any(v is not None for v in series["mean"])
        assert newest >= max(series["t"])
        with access.client() as client:
            both = client.get("/api/v1/runs/run-1/series?metric=step_s&metric=wait_s&rank=0").json()
        assert [each["metric"] for each in both] == ["step_s", "wait_s"]
        assert set(both[1]) == set(series)


def test_the_same_envelope_twice_changes_nothing(tmp_path: Path) -> None:
    with serving(tmp_path) as access:
        envelope = Feed().envelope(steps=20)
        assert access.send(envelope)["stored_seq"] == 1
        assert access.send(envelope)["stored_seq"] == 1
        assert access.get("/runs/run-1/summary")["steps"] == 20


def test_a_malformed_envelope_names_the_field_and_changes_nothing(tmp_path: Path) -> None:
    with serving(tmp_path) as access, access.client(access.agent) as agent:
        good = msgspec.msgpack.decode(encode(Feed().envelope()))
        for change, field in (
            ({"run_id": "No Such/Name"}, "run_id"),
            ({"schema": 99}, "schema"),
            ({"seq": 0}, "seq"),
            ({"made_ns": "now"}, "made_ns"),
            ({"tables": {"steps": {**good["tables"]["steps"], "wait_ns": b"123"}}}, "tables.steps.wait_ns"),
            ({"tables": {"steps": {"rank": b""}}}, "tables.steps.loader"),
        ):
            answer = agent.post("/api/v1/ingest", content=msgspec.msgpack.encode({**good, **change}))
            assert answer.status_code == 400, change
            assert answer.json()["field"] == field
            assert field in answer.json()["error"]
        for body in (b"", b"\xc1", b"not msgpack", b"\x90"):
            answer = agent.post("/api/v1/ingest", content=body)
            assert (answer.status_code, answer.json()["field"]) == (400, "(body)")
        assert access.get("/runs") == []
        assert not list((tmp_path / "runs").glob("*.duckdb"))


@pytest.mark.parametrize(
    "path",
    [
        "summary", "findings", "series?metric=wait_s", "heatmap?metric=wait_s", "epochs", "fetches?rank=0",
        "slow-samples", "profile", "workers", "stacks", "audit", "events",
    ],
)  # fmt: skip
def test_an_unknown_run_is_404_everywhere(tmp_path: Path, path: str) -> None:
    with serving(tmp_path) as access, access.client() as client:
        for run in ("nope", "..%2fnope", "NOPE"):
            answer = client.get(f"/api/v1/runs/{run}/{path}")
            assert answer.status_code == 404, answer.text
            assert set(answer.json()) == {"error", "field"}
        if path == "stacks":
            assert client.post("/api/v1/runs/nope/stacks").status_code == 404
        assert client.post("/api/v1/alerts/nope.1/ack").status_code == 404


def test_bad_parameters_are_named(tmp_path: Path) -> None:
    with serving(tmp_path) as access, access.client() as client:
        access.send(Feed().envelope(steps=20))
        for path, field in (
            ("series?metric=nonsense", None),
            ("series", "metric"),
            ("series?metric=wait_s&points=1", "points"),
            ("series?metric=wait_s&points=2001", "points"),
            ("series?metric=wait_s&rank=x", "rank"),
            ("series?" + "&".join(["metric=wait_s"] * 17), "metric"),
            ("series?metric=wait_s&start=nan", "start"),
            ("fetches", "rank"),
            ("slow-samples?limit=0", "limit"),
            ("profile?of=naps", "of"),
            ("profile?rank=-1", "rank"),
            ("profile?start=nan", "start"),
            ("profile?start=9&end=8", None),
            ("profile?end=-1", None),
        ):
            answer = client.get(f"/api/v1/runs/run-1/{path}")
            assert answer.status_code == 400, f"{path}: {answer.text}"
            if field is not None:
                assert answer.json()["field"] == field
                assert field in answer.json()["error"]


def test_an_alert_from_firing_to_resolved_with_one_message_each(tmp_path: Path) -> None:
    detector = ScriptedDetector()
    with Webhook() as hook, serving(tmp_path, detector=detector, notify=(hook.url,)) as access:
        feed = Feed()
        access.send(feed.envelope(steps=20))
        with EventReader(access, "run-1") as stream:
            stream.wait("the snapshot", lambda e: e["event"] == "snapshot")
            detector.findings = [hung(feed)]
            notices: list[dict[str, Any]] = []

            def firing() -> list[dict[str, Any]]:
                notices.extend(access.send(feed.envelope())["notices"])
                return findings_of(access, "firing")

            (alert,) = wait_until("the alert", firing)
            assert alert["title"].startswith("Rank 0 hangs")
            tick = stream.wait("hung on the page", lambda e: e["summary"]["state"] == "hung")
            assert tick["summary"]["verdict"]["finding_id"] == alert["id"]
            assert stream.wait("the finding", lambda e: e["findings"])["findings"][0]["id"] == alert["id"]
            assert access.get("/runs")[0]["state"] == "hung"
            assert access.get("/runs")[0]["severity"] == "critical"

            for _ in range(5):  # it goes on: no further message
                notices.extend(access.send(feed.envelope())["notices"])
                stream.wait("a tick", lambda e: e["summary"]["steps"] == feed.steps)
            detector.findings = []

            def resolved() -> list[dict[str, Any]]:
                notices.extend(access.send(feed.envelope())["notices"])
                return findings_of(access, "resolved")

            wait_until("resolved", resolved)
            stream.wait(
                "live again", lambda e: e["summary"]["state"] == "live" and e["summary"]["steps"] > 45
            )

            def both_notices() -> bool:
                notices.extend(access.send(feed.envelope())["notices"])
                return len(notices) >= 2

            wait_until("both notices", both_notices)
        began, ended = hook.wait_for(2)
        assert began["title"].startswith("Rank 0 hangs")
        assert "Worker 1 is blocked." in began["message"]
        assert "Look at sample 7." in began["message"]
        assert f"{access.url}/#/runs/run-1/ranks/0" in began["message"]
        assert began["type"] == "failure"
        assert ended["title"].startswith("Resolved: Rank 0 hangs")
        assert [n["rank"] for n in notices] == [0, 0]
        assert re.match(
            r"loaderwatch: \[hung\] Rank 0 hangs.* — Look at sample 7\. Its stack is below — http://",
            notices[0]["text"],
        )
        assert "resolved" in notices[1]["text"]
        assert all("\n" not in n["text"] for n in notices)
        with access.client() as client:
            text = client.get("/metrics").text
        assert 'loaderwatch_steps_total{run="run-1"' in text
        assert "loaderwatch_notify_sent_total 2" in text
        assert "loaderwatch_notify_failed_total 0" in text
    assert len(hook.messages) == 2


def test_a_warning_that_comes_true_is_one_alert_and_one_more_message(tmp_path: Path) -> None:
    detector = ScriptedDetector()
    with Webhook() as hook, serving(tmp_path, detector=detector, notify=(hook.url,)) as access:
        feed = Feed()
        detector.findings = [
            hung(
                feed,
                key="running-out:shm:gpu01",
                code="running-out",
                scenario="S39",
                severity="warning",
                title="/dev/shm is too small.",
            )
        ]

        def firing() -> list[dict[str, Any]]:
            access.send(feed.envelope())
            return findings_of(access, "firing")

        (warning,) = wait_until("the warning", firing)
        assert warning["folded"] == []
        assert hook.wait_for(1)[0]["type"] == "warning"
        crash = hung(feed, key="crashed:rank0", code="crashed", scenario="S39", title="Training died.")
        detector.findings = [crash]
        access.send(feed.envelope(state="crashed", exit="Bus error"))
        wait_until("the end", lambda: findings_of(access, "resolved"))
        access.send(feed.envelope(state="crashed", exit="Bus error", final=True))
        time.sleep(2.5)  # two more looks at a run that is over
        (alert,) = findings_of(access)
        assert (alert["id"], alert["code"], alert["severity"]) == (warning["id"], "crashed", "critical")
        (folded,) = alert["folded"]
        assert folded["title"] == "/dev/shm is too small."
        assert folded["warned_s"] > 0
        title = access.get("/runs/run-1/summary")["verdict"]["title"]
        assert re.search(r"loaderwatch warned .* before the crash\.", title)
        died = hook.wait_for(2)[1]
        assert (died["type"], died["title"]) == ("failure", "Training died. (train.py)")
        assert re.search(r"^Warned .* earlier: /dev/shm is too small\.$", died["message"], re.MULTILINE)
    assert len(hook.messages) == 2, "nothing gets well by dying"


def test_every_second_is_judged_however_envelopes_fall_in_time(tmp_path: Path) -> None:
    detector = ScriptedDetector()
    with serving(tmp_path, detector=detector) as access:
        feed = Feed()

        def judged() -> bool:  # in step with the server's own rhythm
            access.send(feed.envelope())
            time.sleep(1.0)
            return len(detector.windows) >= 3

        wait_until("three passes of the detectors", judged)
        assert len({window.now_ns for window in detector.windows}) == len(detector.windows), "no window twice"


def test_an_idle_stream_is_kept_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_stream, "HEARTBEAT_S", 0.1)
    with serving(tmp_path) as access:
        access.send(Feed().envelope())
        with EventReader(access, "run-1") as reader:
            wait_until("heartbeats", lambda: reader.heartbeats >= 3)
            assert not reader.ended.is_set()


def test_acknowledge_and_silence(tmp_path: Path) -> None:
    detector = ScriptedDetector()
    with serving(tmp_path, detector=detector) as access, access.client() as client:
        feed = Feed()
        detector.findings = [hung(feed), hung(feed, key="hung:x", rank=None)]

        def two() -> bool:
            access.send(feed.envelope())
            return len(findings_of(access, "firing")) == 2

        wait_until("two alerts", two)
        first, second = findings_of(access)
        acknowledged = client.post(f"/api/v1/alerts/{first['id']}/ack").json()
        assert (acknowledged["id"], acknowledged["state"]) == (first["id"], "acknowledged")
        silenced = client.post(f"/api/v1/alerts/{second['id']}/silence", json={"seconds": 60}).json()
        assert silenced["state"] == "silenced"
        assert silenced["silenced_until"] > 0
        assert {f["state"] for f in findings_of(access)} == {"acknowledged", "silenced"}
        bodies: list[Any] = [{}, {"seconds": -1}, {"seconds": "x"}, {"seconds": 1e12}, {"seconds": True}, []]
        for body in bodies:
            answer = client.post(f"/api/v1/alerts/{second['id']}/silence", json=body)
            assert (answer.status_code, answer.json()["field"]) == (400, "seconds")
        assert client.post(f"/api/v1/alerts/{second['id']}/silence", content=b"{").status_code == 400
        assert client.post("/api/v1/alerts/run-1.nope/ack").status_code == 404


def test_an_acknowledgement_shows_at_once_also_on_a_run_that_is_over(tmp_path: Path) -> None:
    detector = ScriptedDetector()
    feed = Feed()
    with serving(tmp_path, detector=detector) as access:
        detector.findings = [hung(feed)]

        def firing() -> list[dict[str, Any]]:
            access.send(feed.envelope())
            return findings_of(access, "firing")

        (alert,) = wait_until("the alert", firing)
        with EventReader(access, "run-1") as stream, access.client() as client:
            client.post(f"/api/v1/alerts/{alert['id']}/ack")
            stream.wait("the change", lambda e: e["findings"] and e["findings"][0]["state"] == "acknowledged")
        access.send(feed.envelope(state="finished", final=True))
        wait_until("the end", lambda: findings_of(access, "resolved"))
    with serving(tmp_path) as access, EventReader(access, "run-1") as stream, access.client() as client:
        stream.wait("the snapshot", lambda e: e["event"] == "snapshot")
        client.post(f"/api/v1/alerts/{alert['id']}/silence", json={"seconds": 60})
        stream.wait("the change", lambda e: e["findings"] and e["findings"][0]["silenced_until"])


def test_stacks_are_asked_for_where_the_rank_is(tmp_path: Path) -> None:
    detector = ScriptedDetector()
    with serving(tmp_path, detector=detector) as access, access.client() as client:
        near, far = Feed(world_size=2), Feed(host="gpu02", rank=1, world_size=2)
        access.send(near.envelope())
        access.send(far.envelope())
        wait_until("both ranks", lambda: len(access.get("/runs/run-1/summary")["ranks"]) == 2)
        assert client.post("/api/v1/runs/run-1/stacks", params={"rank": 1}).json() == {"requested": True}
        assert access.send(near.envelope())["stack_requests"] == []
        assert access.send(far.envelope())["stack_requests"] == [{"rank": 1}]
        assert access.send(far.envelope())["stack_requests"] == []
        dump = StackDump(
            rank=1,
            worker=-1,
            pid=4001,
            taken_ns=far.started_ns,
            text='File "train.py", line 3',
            why="requested",
        )
        access.send(far.envelope(stacks=[dump]))
        (shown,) = wait_until("the stack", lambda: access.get("/runs/run-1/stacks", rank=1))
        assert shown["text"] == dump.text

        detector.findings = [hung(near)]  # a hang without stacks asks by itself
        asked: list[dict[str, Any]] = []

        def ask() -> bool:
            asked.extend(access.send(near.envelope())["stack_requests"])
            return bool(asked)

        wait_until("the request", ask)
        assert asked == [{"rank": 0}]


def test_workers_are_shown(tmp_path: Path) -> None:
    with serving(tmp_path) as access:
        feed = Feed()
        first = feed.envelope()
        now = first.made_ns
        worker = SpanInfo(
            rank=0, worker=1, pid=4101, phase="fetch", since_ns=now - 2 * SECOND, loader=0, sample_index=7,
            sample_since_ns=now - SECOND, batches=3, os_state="D", wchan="io_schedule",
        )  # fmt: skip
        access.send(msgspec.structs.replace(first, spans=[*first.spans, worker]))
        main, shown = wait_until("the worker", lambda: access.get("/runs/run-1/workers", rank=0))
        assert (main["worker"], main["phase"]) == (-1, "wait")
        assert (shown["worker"], shown["pid"], shown["phase"], shown["sample_index"]) == (1, 4101, "fetch", 7)
        assert shown["phase_age_s"] == pytest.approx(2)
        assert shown["sample_age_s"] == pytest.approx(1)
        assert (shown["os_state"], shown["wchan"], shown["cpu_ratio"]) == ("D", "io_schedule", None)


def test_gpus_are_shown_live_and_from_the_file(tmp_path: Path) -> None:
    with serving(tmp_path) as access:
        feed = Feed()
        gpu = GpuInfo(gpu=0, uuid="GPU-a", name="NVIDIA H100", rank=0)
        state = GpuState(gpu=0, utilization_ratio=0.4, processes=[GpuProcess(pid=77, user="ada")])
        access.send(feed.envelope(gpus=[gpu], gpu_states=[state]))
        access.send(feed.envelope(gpus=[gpu], final=True, state="finished", exit="exit code 0"))
        (live,) = wait_until("the GPU", lambda: access.get("/runs/run-1/gpus"))
        assert (live["gpu"], live["ranks"], live["utilization_ratio"]) == (0, [0], 0.4)
        assert [(process["pid"], process["rank"], process["user"]) for process in live["processes"]] == [
            (77, None, "ada")
        ]
    with serving(tmp_path) as access:
        assert access.get("/runs/run-1/gpus") == [live]


def test_the_configuration_is_audited(tmp_path: Path) -> None:
    with serving(tmp_path) as access:
        feed = Feed()
        first = feed.envelope()
        (process, *others) = first.processes
        loaders = [
            msgspec.structs.replace(
                process.loaders[0],
                sampler_class="DistributedSampler",
                same_epoch_passes=2,
                timeout_s=5.0,
                num_workers=0,
            )
        ]
        process = msgspec.structs.replace(process, loaders=loaders)
        access.send(msgspec.structs.replace(first, processes=[process, *others]))
        found = wait_until("the advice", lambda: access.get("/runs/run-1/audit"))
        assert [(one["check"], one["severity"]) for one in found] == [
            ("timeout", "critical"),
            ("set-epoch", "warning"),
        ]
        fields = "check severity rule params what why change loader ranks where"
        assert set(found[0]) == set(fields.split())


def test_who_asks_as_a_run_ends_is_told_all_of_it(tmp_path: Path) -> None:
    """A look comes twice a second; the answer after the last envelope was of before it."""
    with serving(tmp_path) as access:
        for number in range(3):
            feed = Feed(run_id=f"run-{number}")
            access.send(feed.envelope(steps=10))
            assert access.get(f"/runs/run-{number}/summary")["state"] == "live"
            access.send(feed.envelope(steps=10, state="finished", final=True))
            summary = access.get(f"/runs/run-{number}/summary")
            assert (summary["state"], summary["steps"]) == ("finished", 20)


@pytest.mark.parametrize(("state", "exit"), [("finished", None), ("crashed", "SIGKILL")])
def test_the_end_of_a_run_resolves_what_is_open(tmp_path: Path, state: str, exit: str | None) -> None:
    detector = ScriptedDetector()
    with serving(tmp_path, detector=detector) as access:
        feed = Feed()
        detector.findings = [hung(feed)]

        def firing() -> list[dict[str, Any]]:
            access.send(feed.envelope())
            return findings_of(access, "firing")

        wait_until("the alert", firing)
        access.send(feed.envelope(state=state, exit=exit, final=True))
        wait_until("the end", lambda: access.get("/runs")[0]["state"] == state)
        wait_until("resolved", lambda: not findings_of(access, "firing"))
        summary = access.get("/runs/run-1/summary")
        assert summary["state"] == state
        title = summary["verdict"]["title"]
        assert (
            ("SIGKILL" in title)
            if state == "crashed"
            else title.startswith("Finished. While it ran: Rank 0 hangs")
        )


def test_a_restart_loses_nothing_and_the_page_goes_on(tmp_path: Path) -> None:
    feed = Feed()
    with ServeProcess(tmp_path / "data", "--port", "0") as server:
        access = server.start()
        for _ in range(3):
            access.send(feed.envelope(steps=20))
        with EventReader(access, "run-1") as stream:
            last = stream.wait("60 steps", lambda e: e["summary"]["steps"] == 60)
            server.stop()
        before_s = last["summary"]["data_wait_ratio"]

        access = server.start()
        (run,) = access.get("/runs")
        assert (run["run_id"], run["state"]) == ("run-1", "live")
        with EventReader(access, "run-1", last_event_id=last["id"]) as stream:
            again = stream.wait("a snapshot of the new server", lambda e: e["event"] == "snapshot")
            assert again["summary"]["steps"] == 60
            assert again["summary"]["data_wait_ratio"] == pytest.approx(before_s, abs=0.05)
            access.send(feed.envelope(steps=20))
            stream.wait("it goes on", lambda e: e["summary"]["steps"] == 80)
        assert access.send(feed.envelope(steps=0))["stored_seq"] == feed.seq
        series = access.get("/runs/run-1/series", metric="wait_s")
        assert sum(v is not None for v in series["mean"]) >= 2


def test_alerts_survive_a_restart_and_nobody_is_told_twice(tmp_path: Path) -> None:
    feed = Feed()
    detector = ScriptedDetector()
    detector.findings = [hung(feed)]
    with Webhook() as hook:
        with serving(tmp_path, detector=detector, notify=(hook.url,)) as access:

            def firing() -> list[dict[str, Any]]:
                access.send(feed.envelope())
                return findings_of(access, "firing")

            (alert,) = wait_until("the alert", firing)
            hook.wait_for(1)
            with access.client() as client:
                client.post(f"/api/v1/alerts/{alert['id']}/ack")
        with serving(tmp_path, detector=detector, notify=(hook.url,)) as access:
            (kept,) = findings_of(access)
            assert (kept["id"], kept["state"]) == (alert["id"], "acknowledged")
            for _ in range(3):
                access.send(feed.envelope())
                wait_until("a tick", lambda: access.get("/runs/run-1/summary")["steps"] == feed.steps)
            detector.findings = []

            def resolved() -> list[dict[str, Any]]:
                access.send(feed.envelope())
                return findings_of(access, "resolved")

            (over,) = wait_until("resolved", resolved)
            assert over["id"] == alert["id"]
            assert hook.wait_for(2)[1]["title"].startswith("Resolved")
        assert len(hook.messages) == 2


TRAINING = """
import time, torch, loaderwatch
from torch.utils.data import DataLoader, TensorDataset
loader = DataLoader(TensorDataset(torch.zeros(100_000, 1)), batch_size=4)
loaderwatch.attach(loader)
for number, _ in enumerate(loader):
    time.sleep(0.02)
    if number == 20:
        print("trains", flush=True)
"""


def test_a_killed_training_is_told_once_and_a_stopped_one_is_not(tmp_path: Path) -> None:
    """Real processes, the real streamer, a real webhook; the server is restarted after the message."""
    script = tmp_path / "train.py"
    script.write_text(TRAINING)
    data_dir = tmp_path / "data"

    def run_and_end(name: str, number: int) -> None:
        with subprocess.Popen(
            [sys.executable, str(script)],
            stdout=subprocess.PIPE,
            env={
                **os.environ,
                "LOADERWATCH_DIR": str(tmp_path / "jobs"),
                "LOADERWATCH_SERVER": access.url,
                "LOADERWATCH_TOKEN": access.agent,
                "LOADERWATCH_RUN": name,
            },
        ) as training:
            assert training.stdout is not None
            assert training.stdout.readline() == b"trains\n"
            wait_until("its steps", lambda: _row(access, name))
            training.send_signal(number)
        row = wait_until("the end", lambda: _row(access, name, "crashed"))
        (rank,) = access.get(f"/runs/{row['run_id']}/summary")["ranks"]
        assert rank["exit"] in (signal.Signals(number).name, None)

    def verdict() -> Any:
        row = _row(access, "killed", "crashed")
        return row and message["title"] == f"{row['verdict']} (killed)"

    with Webhook() as hook:
        with ServeProcess(data_dir, "--port", "0", "--notify", hook.url) as server:
            access = server.start()
            run_and_end("stopped", signal.SIGTERM)
            run_and_end("killed", signal.SIGKILL)
            (message,) = hook.wait_for(1)
            wait_until("the same sentence on the page", verdict)
            server.stop()
        assert "dmesg" in message["message"]
        assert "/#/runs/killed" in message["message"]
        with ServeProcess(data_dir, "--port", "0", "--notify", hook.url) as server:
            access = server.start()
            assert verdict()
            server.stop()
        assert len(hook.messages) == 1
    end_processes(tmp_path / "jobs")


def _row(access: Access, name: str, state: str = "live") -> Any:
    return next((r for r in access.get("/runs") if (r["name"], r["state"]) == (name, state)), None)


def test_a_crash_is_not_told_again_by_a_server_that_was_restarted(tmp_path: Path) -> None:
    feed = Feed()
    with Webhook() as hook:
        with serving(tmp_path, notify=(hook.url,)) as access:
            access.send(feed.envelope(steps=20))
            access.send(feed.envelope(state="crashed"))  # how, nobody knows
            hook.wait_for(1)
            (alert,) = wait_until("saved", lambda: findings_of(access))
        with serving(tmp_path, notify=(hook.url,)) as access:
            access.send(feed.envelope(state="crashed"))  # what lay in the outbox
            wait_until("a tick", lambda: access.get("/runs/run-1/summary")["steps"] == feed.steps)
            time.sleep(2.5)  # two passes of the detectors
            assert [found["id"] for found in findings_of(access)] == [alert["id"]]
    assert len(hook.messages) == 1


def test_a_detector_that_raises_stops_neither_this_run_nor_another(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(ScriptedDetector):
        def __call__(self, run: Any) -> list[Finding]:
            if run.window.run_id == "bad":
                raise ZeroDivisionError("by design")
            return super().__call__(run)

    detector = Broken()
    with serving(tmp_path, detector=detector) as access:
        bad, good = Feed("bad"), Feed("good")
        detector.findings = [hung(good)]

        def both() -> bool:
            access.send(bad.envelope())
            access.send(good.envelope())
            return len(findings_of(access, "firing", "good")) == 1

        wait_until("the good run's alert", both)
        assert access.get("/runs/bad/summary")["run_id"] == "bad"
        with access.client() as client:
            assert "loaderwatch_detector_faults 0" not in client.get("/metrics").text
    assert "by design" in caplog.text
