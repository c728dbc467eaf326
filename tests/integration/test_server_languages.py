"""The API says its sentences in the language that a request asks for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.fakes.feed import Feed
from tests.fakes.serving import EventReader, ScriptedDetector, serving, wait_until
from tests.unit.detect.test_translation import full

ENGLISH = "Training died because /dev/shm is full."
CHINESE = "训练"


def test_findings_verdicts_and_events(tmp_path: Path) -> None:
    """Two pages follow the run at once, each in its language."""
    detector = ScriptedDetector()
    with serving(tmp_path, detector=detector) as access, access.client() as client:

        def title(query: str = "", **headers: str) -> str:
            found = client.get(f"/api/v1/runs/run-1/findings{query}", headers=headers).json()
            return str(found[0]["title"]) if found else ""

        feed = Feed()
        detector.findings = [full()]
        access.send(feed.envelope(steps=20))
        wait_until("the finding", title)
        assert title() == title("?lang=en", **{"accept-language": "zh"}) == ENGLISH
        assert title("?lang=zh") == title(**{"accept-language": "zh-CN,en;q=0.5"})
        assert title("?lang=zh").startswith(CHINESE)
        for path in ("/runs/run-1/summary", "/runs"):
            said = client.get(f"/api/v1{path}?lang=zh").text
            assert CHINESE in said, path
        assert client.get("/api/v1/runs/run-1/marks?lang=zh").json()[-1]["text"] == title("?lang=zh")
        reasons = [
            client.get(f"/api/v1/runs/run-1/coupling?lang={each}").json()["reason"] for each in ("en", "zh")
        ]
        assert reasons == ["the run has a single rank", "这次运行只有一个 rank"]
        events = [EventReader(access, "run-1"), EventReader(access, "run-1", query="?lang=zh")]
        events += [EventReader(access, "run-1", query="?lang=zh&changes=true")]
        snapshots = [reader.wait("the snapshot", lambda e: e["event"] == "snapshot") for reader in events]
        assert [words(each) for each in snapshots] == [ENGLISH, title("?lang=zh"), title("?lang=zh")]
        access.send(feed.envelope(steps=10))
        ticks = [reader.wait("a tick", lambda e: e["event"] == "tick") for reader in events[:2]]
        assert ticks[0]["summary"]["verdict"]["title"] == ENGLISH
        assert ticks[1]["summary"]["verdict"]["title"].startswith(CHINESE)
        for reader in events:
            reader.close()


def words(event: dict[str, Any]) -> str:
    assert event["summary"]["verdict"]["title"] == event["findings"][0]["title"]
    return str(event["findings"][0]["title"])


def test_a_language_that_there_is_not_is_refused(tmp_path: Path) -> None:
    with serving(tmp_path) as access, access.client() as client:
        refused = client.get("/api/v1/runs?lang=xx")
        assert (refused.status_code, refused.json()) == (
            400,
            {"error": "lang is one of en, zh, not 'xx'", "field": "lang"},
        )
        assert client.get("/api/v1/runs", headers={"accept-language": "xx"}).status_code == 200
