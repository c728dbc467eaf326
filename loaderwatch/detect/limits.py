"""Thresholds that more than one module uses, each with where it comes from. Any other lies beside the rule that uses it.

``Limits`` say when a number becomes a finding, and are handed to every detector. The constants say what a number means.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

LATENCY_CPU_RATIO: Final = 0.3
"""A worker that computes less than this while it fetches waits for storage or network."""
CROWDED_DELAY_RATIO: Final = 0.25
"""Workers that are ready and without a CPU for this share of the time want more CPUs than there are."""
COLLECTOR_PART: Final = 0.5
"""So much of a fetch or of a pause in Python's garbage collector, and it is the collector's doing."""
JITTER_SPIKES: Final = 3
"""So many different slow fetches are jitter rather than a bad sample."""
QUIET_RATIO: Final = 0.02
"""Share of waiting below which no detector looks closer: a fifth of the least that is worth a word."""
BUSY_CPU_RATIO: Final = 0.3
"""A process outside any loader that computes this much is at work."""
IDLE_CPU_RATIO: Final = 0.05
"""... and one that computes less stands still."""
NEWEST_EPOCHS: Final = 60
"""Epochs that are looked at."""


@dataclass(frozen=True, slots=True)
class Limits:
    """When a number becomes a finding. Ratios are shares of the run's own time.

    The input-bound shares follow the field: TraceML warns from 10 % and calls 20 % critical, XProf calls a step
    "highly input bound" from 20 %, the PyTorch profiler's page warned from 5 %. One noisy neighbour on a shared machine
    reaches 20 %, so critical is 30 % here.
    """

    input_warning_ratio: float = 0.10
    input_critical_ratio: float = 0.30
    input_floor_s: float = 0.5
    """Data wait within the recent window below which nothing is said, whatever its share."""
    input_step_floor_s: float = 0.002
    """Mean wait per batch below which it is not a stall: more workers would only add message passing."""
    recent_s: float = 15.0
    """How far back "now" reaches; stretched until it holds two rounds of all workers."""
    spike_recent_s: float = 30.0
    """Spikes are rarer than steady waits, so their share is taken over a longer time."""

    hang_floor_s: float = 30.0
    """No phase counts as hung before it is this old (SageMaker waits 1800 s, DLRover 600 s, xpu_timer 300 s)."""
    hang_factor: float = 10.0
    """... and before it is this many times the 99th percentile of its own history."""
    first_factor: float = 10.0
    """A phase without history (first batch, first steps, first checkpoint) gets this many times the floor."""
