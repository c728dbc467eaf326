"""The summary of a run: one shape for live windows and for stored runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from loaderwatch.detect.window import RunWindow
from loaderwatch.server.store.protocol import StoredRun
from loaderwatch.server.windows import RunTotals

LOST_AFTER_S = 15.0


def state_now(run: StoredRun, now_ns: int) -> str:
    """``live``, ``finished``, ``crashed``, or ``lost`` when a live run has not been heard of for 15 s. (``hung`` comes from findings.)"""
    raise NotImplementedError


def summary_of(
    window: RunWindow,
    totals: RunTotals,
    *,
    state: str,
    verdict: Mapping[str, Any] | None = None,
    lost_s: float | None = None,
    last_seen_ns: int | None = None,
) -> dict[str, Any]:
    """The JSON of ``GET /runs/{run}/summary``.

    ``verdict`` is ``{severity, title, advice, finding_id}``; without one, the share of data wait is said in words.
    ``lost_s`` defaults to the data wait of the run so far.
    """
    raise NotImplementedError
