"""Answers of the HTTP API that come from the store, in exactly the shapes of docs/http-api.md.

Times in and out are UTC seconds. A value that cannot be used raises ValueError naming it; an unknown run UnknownRun.
Blocking: call them in a thread.
"""

from __future__ import annotations

from typing import Any

from loaderwatch.server.store.protocol import Store


def series(
    store: Store,
    run_id: str,
    metric: str,
    rank: int | None = None,
    start: float | None = None,
    end: float | None = None,
    points: int = 300,
) -> dict[str, Any]:
    """``GET /runs/{run}/series``."""
    raise NotImplementedError


def heatmap(
    store: Store,
    run_id: str,
    metric: str,
    start: float | None = None,
    end: float | None = None,
    points: int = 300,
) -> dict[str, Any]:
    """``GET /runs/{run}/heatmap``."""
    raise NotImplementedError


def epochs(store: Store, run_id: str, rank: int | None = None) -> list[dict[str, Any]]:
    """``GET /runs/{run}/epochs``."""
    raise NotImplementedError


def fetches(
    store: Store,
    run_id: str,
    rank: int,
    start: float | None = None,
    end: float | None = None,
    limit: int = 2000,
) -> dict[str, Any]:
    """``GET /runs/{run}/fetches``."""
    raise NotImplementedError


def slow_samples(store: Store, run_id: str, rank: int | None = None, limit: int = 20) -> list[dict[str, Any]]:
    """``GET /runs/{run}/slow-samples``."""
    raise NotImplementedError


def stored_summary(store: Store, run_id: str, verdict: dict[str, Any] | None = None) -> dict[str, Any]:
    """``GET /runs/{run}/summary`` of a run that is not live: its last minute, rebuilt."""
    raise NotImplementedError
