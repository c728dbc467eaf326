"""Waits that one outstanding sample explains, told apart from the steady trouble of the other batches.

A sample that takes twelve seconds says nothing about the number of workers, and workers that are too few say nothing
about that sample: each is judged without the other.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from loaderwatch.detect.input_bound.spikes import JITTER_SPIKES, SPIKE_FACTOR, Spike, find_spikes
from loaderwatch.detect.input_bound.storage_causes import may_be_changing, step_change
from loaderwatch.detect.limits import Limits
from loaderwatch.detect.measures.pace import Pace
from loaderwatch.detect.measures.statistics import median

COLLECTED_PART = 0.5  # of a fetch, in the garbage collector: not the sample's doing


def slow_samples(pace: Pace, limits: Limits) -> list[Spike]:
    """The long waits for one or two samples that take far longer than a usual batch; none where many do."""
    if not pace.workers:
        return []
    usual_s = median(pace.fetches.fetch_s)
    found = [
        spike
        for spike in find_spikes(pace, limits)
        if spike.sample_index is not None
        and (spike.sample_s or 0.0) >= SPIKE_FACTOR * usual_s
        and spike.collected_s < COLLECTED_PART * (spike.fetch_s or spike.wait_s)
    ]
    if not 0 < len({spike.sample_index for spike in found}) < JITTER_SPIKES:
        return []
    if step_change(pace.fetches) is not None or may_be_changing(pace.fetches):
        return []  # all workers are slow at once: that is no sample's doing
    return found


def without(pace: Pace, spikes: Sequence[Spike]) -> Pace:
    """The pace as it is but for these waits and the fetches that they were for."""
    if not spikes:
        return pace
    began_ns = [spike.fetch_began_ns for spike in spikes if spike.fetch_began_ns is not None]
    rest = pace.where(~np.isin(pace.request_ns, [spike.request_ns for spike in spikes]))
    return rest.with_fetches(~np.isin(pace.fetches.began_ns, began_ns))
