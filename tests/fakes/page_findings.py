"""Findings that a scripted detector of a real server finds, for what the page shows of them."""

from __future__ import annotations

from typing import Any

from loaderwatch.core.answers import Evidence
from loaderwatch.detect.finding import Finding
from tests.fakes.feed import Feed
from tests.fakes.findings import finding_of


def hang(feed: Feed, **more: Any) -> Finding:
    """Worker 1 of the feed's rank is stuck in a sample."""
    facts: dict[str, Any] = {
        "key": f"hung:rank{feed.rank}",
        "code": "hung",
        "scenario": "S22",
        "severity": "critical",
        "confidence": 0.9,
        "began_ns": feed.started_ns,
        "title": f"Rank {feed.rank} hangs: worker 1 has been reading sample 7 for 40 s.",
        "cause": "Worker 1 is blocked.",
        "advice": "Look at sample 7. Its stack is below.",
        "evidence": [Evidence(label="age", value=40.0, unit="s")],
        "rank": feed.rank,
        "host": feed.host,
        "worker": 1,
        "pid": 4101,
        "sample_indices": [7],
    }
    return finding_of(**(facts | more))
