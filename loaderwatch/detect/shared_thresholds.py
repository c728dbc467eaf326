"""Thresholds that more than one module uses. Others stand beside the rule that uses them.

``Limits`` say when a number becomes a finding; all detectors get them. Constants say what a number means.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from loaderwatch.core.threshold import threshold

LATENCY_CPU_RATIO: Final = threshold(
    0.3, "ratio", "chosen: a worker that computes for less of its fetch waits for storage or network"
)
CROWDED_DELAY_RATIO: Final = threshold(
    0.25, "ratio", "chosen: workers that are ready but have no CPU for a quarter of the time need more CPUs"
)
STARVED_PART: Final = threshold(
    0.5, "ratio", "chosen: ready without a CPU for half of a fetch or of a step's extra time is starved"
)
COLLECTOR_PART: Final = threshold(
    0.5, "ratio", "chosen: the garbage collector is the cause if it took half of a fetch or pause"
)
JITTER_SPIKES: Final = threshold(3, "spikes", "chosen: so many different spikes are jitter, not a bad sample")
WARNING_RATIO: Final = threshold(
    0.10, "ratio", "TraceML warns from 10 %, the PyTorch profiler's page warned from 5 %"
)
CRITICAL_RATIO: Final = threshold(
    0.30, "ratio", "TraceML calls 20 % critical, XProf high; one noisy neighbour on a host reaches that"
)
QUIET_RATIO: Final = threshold(0.02, "ratio", "chosen: a fifth of WARNING_RATIO; less is not examined")
BUSY_CPU_RATIO: Final = threshold(
    0.3, "ratio", "chosen: of one core; a process, or threads beside the loop, that use more are at work"
)
IDLE_CPU_RATIO: Final = threshold(0.05, "ratio", "chosen: of one core; a process that uses less stands still")
NEWEST_EPOCHS: Final = threshold(
    60, "epochs", "chosen: limits the work for a loader that begins an epoch for every few batches"
)


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits at which a number becomes a finding. Ratios are shares of the run's own time, 0 to 1."""

    input_warning_ratio: float = WARNING_RATIO
    input_critical_ratio: float = CRITICAL_RATIO
    input_floor_s: float = threshold(
        0.5, "s", "chosen: less data wait within the recent window is not reported, whatever its share"
    )
    input_step_floor_s: float = threshold(
        0.002, "s", "chosen, mean wait per batch: below it more workers only add message passing"
    )
    recent_s: float = threshold(
        15.0, "s", 'chosen: how far back "now" reaches; extended until it holds two rounds of all workers'
    )
    spike_recent_s: float = threshold(
        30.0, "s", "chosen: twice recent_s for the share of spikes, which are rarer than steady waits"
    )
    hang_floor_s: float = threshold(
        30.0, "s", "chosen: no younger phase is hung; SageMaker waits 1800 s, DLRover 600 s, xpu_timer 300 s"
    )
    hang_factor: float = threshold(
        10.0, "factor", "chosen: times the 99th percentile of a phase's own history; no quicker phase is hung"
    )
    first_factor: float = threshold(
        10.0, "factor", "chosen: times the floor, for a first batch, step or checkpoint without a history"
    )
