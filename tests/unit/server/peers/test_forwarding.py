"""Which requests are about a run."""

from __future__ import annotations

import pytest

from loaderwatch.server.peers.forwarding import run_asked_for


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
