"""Which requests are about a run."""

from __future__ import annotations

import pytest

from loaderwatch.server.peers.forwarding import not_taken, run_asked_for


@pytest.mark.parametrize(
    ("path", "run_id"),
    [
        ("/api/v1/runs/run-1/summary", "run-1"),
        ("/api/v1/runs/run-1", "run-1"),
        ("/api/v1/runs/run%2d1/events", "run-1"),
        ("/api/v1/alerts/run-1.0a1b/ack", "run-1"),
        ("/api/v1/runs", None),
        ("/api/v1/runs/", None),
        ("/api/v1/alerts/", None),
        ("/api/v1/ingest", None),
        ("/api/v1/compare", None),
        ("/metrics", None),
        ("/", None),
    ],
)
def test_a_request_about_one_run_is_for_its_owner(path: str, run_id: str | None) -> None:
    assert run_asked_for(path) == run_id


def test_why_a_bundle_was_not_taken_is_said() -> None:
    busy = not_taken("http://a:1", 429, b'{"error": "2048 envelopes are being taken in; try again in 1 s"}')
    assert "http://a:1" in busy
    assert "answered 429" in busy
    assert "2048 envelopes are being taken in" in busy
    assert "of another version" in not_taken("http://a:1", 404, b'{"error": "there is nothing at /api"}')
    for body in (b"", b"<html>", b"[1]", b"{}"):
        assert "without a reason" in not_taken("http://a:1", 502, body)
