"""Naming, tagging, pinning and deleting runs over HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.fakes.feed import Feed
from tests.fakes.serving import Access, EventReader, serving, wait_until


def over(access: Access, run_id: str = "run-1") -> None:
    """A run that has ended."""
    feed = Feed(run_id)
    access.send(feed.envelope(steps=20))
    access.send(feed.envelope(steps=0, state="finished", final=True))
    wait_until("the end", lambda: access.get(f"/runs/{run_id}/summary")["state"] == "finished")


def asked(access: Access, method: str, path: str, token: str | None = None, **more: Any) -> httpx.Response:
    with access.client(token or access.owner) as client:
        return client.request(method, f"/api/v1{path}", **more)


def test_a_run_is_named_tagged_and_pinned(tmp_path: Path) -> None:
    with serving(tmp_path) as access:
        access.send(Feed().envelope(steps=20))
        wait_until("the run", lambda: access.get("/runs"))
        with EventReader(access, "run-1") as reader:
            said = {
                "name": " base\u202eline\n1 ",
                "tags": ["a", " b ", "a", ""],
                "note": "why\nnot",
                "pinned": True,
            }
            answer = asked(access, "PATCH", "/runs/run-1", json=said)
            labels = {"name": "baseline 1", "tags": ["a", "b"], "note": "why\nnot", "pinned": True}
            assert (answer.status_code, answer.json()) == (200, labels)
            reader.wait("the page hears of it", lambda event: event["summary"]["name"] == "baseline 1")
        (row,) = access.get("/runs")
        assert {name: row[name] for name in labels} == labels
        assert row["script"] == "train.py"
        assert asked(access, "PATCH", "/runs/run-1", json={"pinned": False}).json() == labels | {
            "pinned": False
        }
        assert asked(access, "PATCH", "/runs/run-1", json={"name": ""}).json()["name"] == ""
        assert access.get("/runs")[0]["name"] == "train.py"


@pytest.mark.parametrize(
    ("body", "field"),
    [({"name": "x" * 201}, "name"), ({"tags": ["x" * 41]}, "tags"), ({"tags": ["x"] * 21}, "tags"),
     ({"note": "x" * 4001}, "note"),
     ({"pinned": "yes"}, "pinned"), ({"colour": "red"}, "(body)"), ([], "(body)"),
     ({"note": "x" * 40_000}, "(body)")],
)  # fmt: skip
def test_labels_are_bounded(tmp_path: Path, body: Any, field: str) -> None:
    with serving(tmp_path) as access:
        over(access)
        answer = asked(access, "PATCH", "/runs/run-1", json=body)
        assert (answer.status_code, answer.json()["field"]) == (400, field), answer.text


def test_only_the_owner_changes_and_deletes(tmp_path: Path) -> None:
    with serving(tmp_path) as access:
        over(access)
        assert asked(access, "PATCH", "/runs/run-1", access.viewer, json={"pinned": True}).status_code == 403
        assert (
            asked(access, "DELETE", "/runs/run-1", access.viewer, json={"name": "train.py"}).status_code
            == 403
        )
        seen = asked(access, "GET", "/runs/run-1/contents", access.viewer).json()
        assert (seen["may_change"], seen["may_delete"]) == (False, False)
        assert asked(access, "PATCH", "/runs/nope", json={"pinned": True}).status_code == 404


def test_a_run_is_deleted_by_its_name(tmp_path: Path) -> None:
    with serving(tmp_path) as access:
        over(access)
        held = access.get("/runs/run-1/contents")
        assert (held["name"], held["steps"], held["reporting"], held["may_delete"]) == (
            "train.py",
            20,
            False,
            True,
        )
        assert held["bytes"] > 0
        refused = asked(access, "DELETE", "/runs/run-1", json={"name": "train"})
        assert (refused.status_code, refused.json()["field"]) == (400, "name")
        assert asked(access, "DELETE", "/runs/run-1").status_code == 400, "without a body too"
        with EventReader(access, "run-1") as reader:
            reader.wait("the run", lambda event: event["event"] == "snapshot")
            done = asked(access, "DELETE", "/runs/run-1", json={"name": "train.py"})
            assert (done.status_code, done.json()) == (200, {"deleted": "run-1"})
            reader.wait("its end", lambda event: event["event"] == "gone")
        assert access.get("/runs") == []
        assert not list((tmp_path / "runs").glob("run-1*"))
        assert asked(access, "DELETE", "/runs/run-1", json={"name": "train.py"}).status_code == 404


def test_what_reports_is_not_deleted(tmp_path: Path) -> None:
    with serving(tmp_path) as access:
        feed = Feed()
        access.send(feed.envelope(steps=5))
        refused = asked(access, "DELETE", "/runs/run-1", json={"name": "train.py"})
        assert (refused.status_code, refused.json()["field"]) == (409, "run")
        assert "is reporting" in refused.json()["error"]
        assert access.get("/runs/run-1/contents")["reporting"]


def test_labels_are_there_after_a_restart(tmp_path: Path) -> None:
    with serving(tmp_path) as access:
        over(access)
        asked(access, "PATCH", "/runs/run-1", json={"name": "kept", "tags": ["x"]})
    with serving(tmp_path) as access:
        (row,) = access.get("/runs")
        assert (row["name"], row["tags"]) == ("kept", ["x"])
        assert access.get("/runs/run-1/summary")["name"] == "kept"
