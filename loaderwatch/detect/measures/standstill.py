"""Spans that may stand still: much longer than usual, and without information on speed until they end."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from loaderwatch.core.columns import Columns
from loaderwatch.core.records import TIME_COLUMN
from loaderwatch.core.threshold import threshold
from loaderwatch.detect.measures.progress import LOADER_PHASES, STEP_PHASES, history_s
from loaderwatch.detect.measures.statistics import high
from loaderwatch.detect.measures.time_use import open_wait_s
from loaderwatch.detect.window import RankWindow, RunWindow, first_at

LONG_S: Final = threshold(3.0, "s", "chosen: a shorter pause is nothing that people need to know")
LONG_FACTOR: Final = threshold(3.0, "factor", "chosen: times the 99th percentile of what went before")
FIRST_S: Final = threshold(
    10.0, "s", "chosen, without a history: a first batch, a start of workers, a first gap between epochs"
)
FEW_KNOWN_STEPS: Final = threshold(
    5, "steps", "chosen: fewer are no history; one is enough for what happens once per epoch"
)


def goes_on(rank: RankWindow, since_ns: int) -> float | None:
    """Return how many seconds the open span has lasted since then; None unless much longer than usual."""
    span = rank.span
    if rank.process.state != "live" or span is None or not span.alive or span.traced:
        return None
    age_s = open_wait_s(rank) if span.phase == "wait" else (rank.made_ns - since_ns) / 1e9
    if age_s < LONG_S:
        return None
    before_s = history_s(rank, span)
    few = FEW_KNOWN_STEPS if span.phase in ("wait", *STEP_PHASES) else 1
    least_s = LONG_S if before_s.size >= few else FIRST_S
    usual_s = float(np.nan_to_num(high(before_s, 0.99)))
    return age_s if age_s >= max(least_s, LONG_FACTOR * usual_s) else None


def before_standstill(window: RunWindow) -> RunWindow:
    """Return the window with each rank that may stand still as it was when its open span began.

    Ranks that entered a step since then wait for it in their gradient exchange, so their evidence ends there,
    too. The same object is returned if no rank may stand still.
    """
    since_ns = {
        number: rank.span.since_ns
        for number, rank in window.ranks.items()
        if rank.span is not None and _is_in_loop(rank) and goes_on(rank, rank.span.since_ns) is not None
    }
    if not since_ns:
        return window
    first_ns = min(since_ns.values())
    for number, rank in window.ranks.items():
        span = rank.span
        if span is not None and span.phase in STEP_PHASES and span.since_ns >= first_ns:
            since_ns.setdefault(number, span.since_ns)
    ranks = {
        number: _until(rank, since_ns[number]) if number in since_ns else rank
        for number, rank in window.ranks.items()
    }
    return replace(window, ranks=ranks)


def _is_in_loop(rank: RankWindow) -> bool:
    return rank.span is not None and rank.span.phase in (*LOADER_PHASES, *STEP_PHASES, "user")


def _until(rank: RankWindow, ns: int) -> RankWindow:
    """Return a rank as it was at a time (ns UTC), without an open span."""
    return replace(
        rank,
        made_ns=ns,
        span=None,
        tables={name: _rows_until(name, table, ns) for name, table in rank.tables.items()},
    )


def _rows_until(name: str, table: Columns, ns: int) -> Columns:
    end = first_at(table[TIME_COLUMN[name]], ns)
    return {column: values[:end] for column, values in table.items()}
