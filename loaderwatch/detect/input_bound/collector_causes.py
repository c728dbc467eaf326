"""S25 in the workers: Python's garbage collector stops them in the middle of a fetch.

Where a dataset holds millions of Python objects, a full collection in a worker walks all of them; with fork it also copies
the pages they lie in, because it writes to every object (pytorch#13246). Its own clock (``gc.callbacks``) proves it.
"""

from __future__ import annotations

import numpy as np

from loaderwatch.detect.finding import Evidence
from loaderwatch.detect.input_bound.worker_causes import Cause
from loaderwatch.detect.measures.gain import gain_ratio
from loaderwatch.detect.measures.pace import Pace
from loaderwatch.detect.measures.statistics import Floats, mean, ratio, total
from loaderwatch.detect.text import count, duration, percent
from loaderwatch.detect.window import seconds

COLLECTOR_PART = 0.5  # of the time in question
ADVICE = (
    "In worker_init_fn call gc.collect() and gc.freeze(), so that what the dataset holds is not walked again, or gc.disable()"
    " where samples leave no reference cycles; take gc.collect() out of __getitem__ and collate_fn; hold metadata in NumPy or"
    " Arrow instead of lists and dictionaries. More workers do not help."
)


def collector_times(pace: Pace) -> Floats:
    """Seconds of each fetch during which the garbage collector held its worker."""
    table, fetches = pace.rank.table("collections"), pace.fetches
    result = np.zeros(fetches.fetch_s.size)
    for worker in np.unique(fetches.worker[fetches.worker >= 0]):
        rows = np.flatnonzero(fetches.worker == worker)
        own = table["worker"] == worker
        began_ns, took_s = table["request_ns"][own], np.nan_to_num(seconds(table["duration_ns"][own]))
        at = np.searchsorted(fetches.began_ns[rows], began_ns, side="right") - 1
        inside = (at >= 0) & (began_ns < fetches.ended_ns[rows][np.maximum(at, 0)])
        np.add.at(result, rows[at[inside]], took_s[inside])
    return result


def collector_cause(pace: Pace) -> Cause | None:
    """Most of what the workers do is collecting garbage."""
    lately = pace.fetches.ended_ns >= pace.request_ns[0]
    collected_s, fetched_s = total(collector_times(pace)[lately]), total(pace.fetches.fetch_s[lately])
    share = ratio(collected_s, fetched_s)
    if not (pace.workers and share >= COLLECTOR_PART):
        return None
    fetch_s = mean(pace.fetches.fetch_s[lately])
    each_s = fetch_s * share
    after_s = max(pace.mean_step_s, (fetch_s - each_s) / pace.workers)
    return Cause(
        scenario="S25",
        confidence=0.95,
        because=f"Python's garbage collector takes {duration(each_s)} of the {duration(fetch_s)} that a worker needs for a batch",
        cause=f"{percent(share)} of what the {count(pace.workers, 'worker')} do is collecting garbage: a full collection walks every"
        " container the worker holds, the dataset's metadata included.",
        advice=ADVICE,
        gain_ceiling_ratio=gain_ratio(pace.iteration_s, after_s),
        evidence=[
            Evidence(label="collector's time in a fetch", value=each_s, unit="s"),
            Evidence(label="share of a fetch spent in the collector", value=share, unit="ratio"),
        ],
    )


def collector_spike_cause(
    worker: int | None, fetch_s: float, collected_s: float, gain: float | None
) -> Cause | None:
    """The long fetch that the loop waited for was the collector's."""
    if not collected_s >= COLLECTOR_PART * fetch_s:
        return None
    who = f"worker {worker}" if worker is not None else "a worker"
    return Cause(
        scenario="S25",
        confidence=0.9,
        because=f"Python's garbage collector stopped {who} for {duration(collected_s)} in the middle of a batch",
        cause=f"The longest wait was for {who}, which took {duration(fetch_s)} for its batch, {duration(collected_s)} of it in the"
        " garbage collector: a full collection walks every container the worker holds, the dataset's metadata included. No"
        " sample is to blame.",
        advice=ADVICE,
        gain_ceiling_ratio=gain,
        worker=worker,
        evidence=[
            Evidence(label="longest pause of the collector in a fetch", value=collected_s, unit="s"),
            Evidence(label="that fetch", value=fetch_s, unit="s"),
        ],
    )
