"""From the general cause of a steady wait to the particular one. One wait has one cause: the first that fits is named.

The order is from the certain to the likely: what the machine does to us (quota, affinity), what the workers do to each
other (threads), what the storage did (a step change), what a fetch is made of (collector, collate, amplification, cache),
and last the crowd on the CPUs.
"""

from __future__ import annotations

from loaderwatch.detect.explanation import Explanation
from loaderwatch.detect.input_bound.batch_causes import (
    collate_cause,
    collector_cause,
    pin_cause,
    snapshot_cause,
)
from loaderwatch.detect.input_bound.cpu_causes import cpu_cause, crowd_cause
from loaderwatch.detect.input_bound.heavy_share import heavy_share_cause
from loaderwatch.detect.input_bound.storage_causes import (
    amplification_cause,
    change_cause,
    latency_evidence,
    thrash_cause,
)
from loaderwatch.detect.input_bound.worker_causes import steady_cause
from loaderwatch.detect.measures.machine import Cpus, Machine
from loaderwatch.detect.measures.pace import Pace
from loaderwatch.detect.measures.step_change import StepChange


def refined_cause(now: Pace, cpus: Cpus, machine: Machine, change: StepChange | None) -> Explanation:
    """The likeliest cause of a wait that recurs at every step or every few steps."""
    general = steady_cause(now, cpus)
    if general.scenario == "S13":
        return snapshot_cause(now, general) or general
    if general.scenario == "S14":
        return (
            cpu_cause(now, cpus, machine)
            or snapshot_cause(now, general)
            or pin_cause(now, machine)
            or crowd_cause(now, cpus, machine)
            or general
        )
    if now.workers is None:
        return general
    if not now.workers:
        return cpu_cause(now, cpus, machine) or general
    return (
        cpu_cause(now, cpus, machine)
        or (change and change_cause(now, change, machine))
        or collector_cause(now)
        or heavy_share_cause(now)
        or collate_cause(now)
        or amplification_cause(now, machine)
        or thrash_cause(now, machine)
        or crowd_cause(now, cpus, machine)
        or latency_evidence(general, machine)
    )
