"""One worker's share of a stream is heavier than the others': S23, in the words of a cause.

Batches of an iterable dataset are delivered in turn, worker after worker. Whoever has the heavy files, the long
documents or the larger shards sets the pace of all: every so many batches the loop waits for that worker, and what the
others have read ahead lies ready. Neither prefetching nor more workers help, since the share stays where it is.
"""

from __future__ import annotations

from typing import Final

from loaderwatch.detect.explanation import Explanation
from loaderwatch.detect.finding import Evidence
from loaderwatch.detect.measures.gain import gain_ratio, iteration_with
from loaderwatch.detect.measures.pace import Pace
from loaderwatch.detect.measures.statistics import median
from loaderwatch.detect.text import duration, listing

HEAVIER: Final = 3.0  # times the lightest worker's usual batch
LEAST_BATCHES: Final = 4  # of each worker, before its usual batch is known


def heavy_share_cause(pace: Pace) -> Explanation | None:
    """What is said when a few workers cannot keep up alone, always, and all others could; None when it is not so."""
    workers = pace.workers or 0
    if not pace.loader.iterable_dataset or workers < 2:
        return None
    usual = {}
    for worker in range(workers):
        took = pace.fetches.fetch_s[pace.fetches.worker == worker]
        if took.size < LEAST_BATCHES:
            return None
        usual[worker] = median(took)
    turn_s = workers * pace.mean_step_s  # from one of its batches to its next
    least_s = min(usual.values())
    heavy = [worker for worker, took_s in usual.items() if took_s > max(turn_s, HEAVIER * least_s)]
    light_s = max((took_s for worker, took_s in usual.items() if worker not in heavy), default=0.0)
    if not heavy or 2 * len(heavy) > workers or light_s > turn_s:
        return None
    heavy_s = max(usual[worker] for worker in heavy)
    even_s = iteration_with(sum(usual.values()) / workers, workers, pace.mean_step_s)
    one = len(heavy) == 1
    who = f"worker {heavy[0]}" if one else f"workers {listing([str(worker) for worker in heavy], limit=8)}"
    return Explanation(
        scenario="S23",
        confidence=0.85,
        because=f"{who} {'needs' if one else 'need'} {duration(heavy_s)} for a batch of {'its' if one else 'their'} share,"
        f" the others at most {duration(light_s)}",
        cause=f"{pace.loader.name} reads an iterable dataset, and each worker has a share of its own. Batches are delivered in"
        f" turn, so {who} {'sets' if one else 'set'} the pace of all {workers}: a batch every {duration(turn_s)} would be quick"
        f" enough. What the others have read ahead lies ready meanwhile.",
        advice=f"Spread the heavy samples: more and smaller shards than workers, dealt out at random, or resampled; or make what"
        f" {who} {'reads' if one else 'read'} cheaper. A larger prefetch_factor or more workers do not help: the share stays"
        " where it is.",
        gain_ceiling_ratio=gain_ratio(pace.iteration_s, even_s),
        worker=heavy[0] if one else None,
        evidence=[
            Evidence(label="usual fetch of the heavy share", value=heavy_s, unit="s"),
            Evidence(label="usual fetch of the other workers, at most", value=light_s, unit="s"),
            Evidence(label="time between two batches of a worker", value=turn_s, unit="s"),
        ],
    )
