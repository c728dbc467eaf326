"""Causes that lie in a thread of the training process that reads the loader ahead for the loop: S54."""

from __future__ import annotations

from loaderwatch.detect.explanation import Explanation
from loaderwatch.detect.input_bound.symptoms import Symptoms
from loaderwatch.detect.text import duration, rate

READING_RATIO = 0.5  # of the time between two batches; a thread that reads for less has mostly other work


def works_itself(s: Symptoms) -> Explanation | None:
    """Explain S54: the loader is ahead of the thread that reads it, which works on each batch itself; None otherwise."""
    reader = s.loader.reader
    if reader is None or (not s.pace.workers and not s.mean_fetch_s < READING_RATIO * s.iteration_s):
        return None
    ready = (
        f"{rate(s.ready)} batches lie ready on average when it asks for one"
        if s.pace.workers
        else f"a batch is read in {duration(s.mean_fetch_s)}"
    )
    return Explanation(
        scenario="S54",
        confidence=0.8,
        because=f"the thread that reads {s.loader.name} ahead ({reader}) hands a batch on only every {duration(s.iteration_s)}",
        cause=f"The loop waits {duration(s.wait_s)} for a batch of the thread {reader}, although {ready}: what takes the time is what"
        f" the thread does with each batch before it hands it on. A step takes {duration(s.step_s)}.",
        advice=f"Move what {reader} does with a batch into the dataset or collate_fn, so that DataLoader workers do it side by side,"
        " or let several threads do it. A faster loader, more workers or a deeper queue do not help.",
        gain_ceiling_ratio=s.gain(s.step_s),
    )
