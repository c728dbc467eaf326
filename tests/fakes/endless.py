"""Two envelopes that a store takes minutes to sum up, since it joins many long steps with many waits."""

from __future__ import annotations

import time
from typing import Any, Final

import numpy as np

from loaderwatch.core.wire import Envelope
from tests.fakes.feed import SECOND, Feed
from tests.fakes.runs import table

ROWS: Final = 40_000  # of each table: 6.4 MB, and 1.6 billion pairs


def endless(feed: Feed, **more: Any) -> list[Envelope]:
    """The two envelopes; their rows began a minute ago."""
    times = np.full(ROWS, time.time_ns() - 60 * SECOND)
    batch = np.arange(ROWS)
    steps = table(
        "steps", rank=0, loader=0, epoch=0, batch=batch, request_ns=times, wait_ns=20 * SECOND,
        step_ns=SECOND // 20, off_main_thread=0, optimizer_steps=1,
    )  # fmt: skip
    waits = table("gpu_waits", rank=0, loader=0, epoch=0, batch=batch, request_ns=times, starved_ns=SECOND)
    return [
        feed.envelope(tables={"steps": steps}, **more),
        feed.envelope(tables={"gpu_waits": waits}, **more),
    ]
