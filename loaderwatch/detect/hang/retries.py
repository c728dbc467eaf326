"""Whether a process that reads for long in one sample only repeats a failed try (S22): no progress then.

A process that makes progress reads new bytes. They come from storage or a connection, and usually it waits
for them. A process that repeats a failed try computes, or sleeps until the next try, and reads bytes that
memory still holds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from loaderwatch.core.facts import SpanInfo
from loaderwatch.core.threshold import threshold
from loaderwatch.detect.measures.progress import MAPPED_BYTES, Stuck, cpu_ratio, grown_lately
from loaderwatch.detect.measures.statistics import mean
from loaderwatch.detect.window import RunWindow

COMPUTING_RATIO: Final = threshold(0.5, "ratio", "chosen: of one core; a process above it mostly computes")
UNHINDERED_RATIO: Final = threshold(
    0.8, "ratio", "chosen: of the readings that find a process running, ready or asleep for a set time"
)
BROUGHT_PART: Final = threshold(
    0.5, "ratio", "chosen: of the bytes a process reads; bytes from storage or a connection are new"
)
LITTLE_PER_S: Final = threshold(
    2**20, "bytes per s", "chosen: a process waits for a slower connection; others may receive as much"
)
COMPUTES_FACTOR: Final = threshold(
    2.0, "factor", "chosen: times the limit, for a process that computes while it reads possibly new bytes"
)


@dataclass(frozen=True, slots=True)
class Retries:
    """How a process repeats its try."""

    factor: float  # it counts as a hang after so many times its limit
    sleeps: bool  # between two tries


def retries_of(window: RunWindow, item: Stuck, process: SpanInfo) -> Retries | None:
    """Return how a process that reads repeats its try; None if it does not.

    ``process``: the worker to blame, or the training process; half of the wait or more in the same sample.
    """
    rank = item.rank
    half_ns = item.span.since_ns + (rank.made_ns - item.span.since_ns) // 2
    since_ns = process.sample_since_ns
    if since_ns is None and process.worker >= 0:
        since_ns = process.since_ns
    if not (item.reading and process.alive) or since_ns is None or since_ns > half_ns:
        return None
    rows = rank.table("processes")
    seen = (rows["pid"] == process.pid) & (rows["t_ns"] >= half_ns)
    runs, sleeps = mean((rows["state"][seen] == ord("R")).astype(np.float64)), mean(rows["timer_wait"][seen])
    sleeps = sleeps if sleeps == sleeps else 0.0  # not recorded
    computes = cpu_ratio(rank, process.pid, half_ns) >= COMPUTING_RATIO or runs >= UNHINDERED_RATIO
    if runs + sleeps >= UNHINDERED_RATIO and _from_memory(window, item, process):
        return Retries(1.0, sleeps=not computes and sleeps > runs)
    return Retries(COMPUTES_FACTOR, sleeps=False) if computes else None


def _from_memory(window: RunWindow, item: Stuck, process: SpanInfo) -> bool:
    """Whether a process reads from memory, not from storage or a connection; False if unknown."""
    rank, since_ns = item.rank, item.span.since_ns
    chars, stored = (grown_lately(rank, process.pid, since_ns, name) for name in ("read_chars", "read_bytes"))
    if not stored <= max(MAPPED_BYTES, BROUGHT_PART * chars):
        return False
    half_s = (rank.made_ns - since_ns) / 2e9
    if chars <= LITTLE_PER_S * half_s:
        return True
    host = window.hosts.get(rank.host)
    if host is None:
        return False
    second_half = host.hosts["t_ns"] >= rank.made_ns - int(half_s * 1e9)
    return mean(host.hosts["network_rx_bytes_per_s"][second_half]) * half_s <= BROUGHT_PART * chars
