"""Thresholds that more than one module uses, each with its source. Others lie beside the rule that uses them.

``Limits`` say when a number becomes a finding, and are handed to every detector. The constants say what a
number means.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

LATENCY_CPU_RATIO: Final = 0.3
"""Share of a fetch, 0 to 1: a worker that computes for less of it waits for storage or network."""
CROWDED_DELAY_RATIO: Final = 0.25
"""Share of the time, 0 to 1: workers that are ready but have no CPU for so much of it want more CPUs."""
STARVED_PART: Final = 0.5
"""Share of a fetch, or of what a step takes beyond the usual, 0 to 1: ready to run for so much of it, it lacked a CPU."""
COLLECTOR_PART: Final = 0.5
"""Share of a fetch or of a pause, 0 to 1, from which Python's garbage collector is its cause."""
JITTER_SPIKES: Final = 3
"""This many different slow fetches are jitter rather than a bad sample."""
QUIET_RATIO: Final = 0.02
"""Share of waiting, 0 to 1, below which no detector looks closer: a fifth of the least that is reported."""
BUSY_CPU_RATIO: Final = 0.3
"""CPU use, share of one core, above which a process outside any loader is at work."""
IDLE_CPU_RATIO: Final = 0.05
"""CPU use, share of one core, below which a process stands still."""
NEWEST_EPOCHS: Final = 60
"""How many of a loader's newest epochs are looked at."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits from which a number becomes a finding. Ratios are shares of the run's own time, 0 to 1.

    The input-bound shares follow the field: TraceML warns from 10 % and calls 20 % critical, XProf calls a
    step "highly input bound" from 20 %, the PyTorch profiler's page warned from 5 %. One noisy neighbour on a
    shared machine reaches 20 %, so critical is 30 % here.
    """

    input_warning_ratio: float = 0.10
    input_critical_ratio: float = 0.30
    input_floor_s: float = 0.5
    """Seconds of data wait within the recent window below which nothing is reported, whatever their share."""
    input_step_floor_s: float = 0.002
    """Mean wait per batch in s below which there is no stall: more workers would only add message passing."""
    recent_s: float = 15.0
    """How many seconds back "now" reaches; it is stretched until it holds two rounds of all workers."""
    spike_recent_s: float = 30.0
    """Seconds over which the share of spikes is taken; longer, because they are rarer than steady waits."""

    hang_floor_s: float = 30.0
    """Age below which no phase is hung, in s (SageMaker waits 1800 s, DLRover 600 s, xpu_timer 300 s)."""
    hang_factor: float = 10.0
    """A phase is hung only when it takes this many times the 99th percentile of its own history."""
    first_factor: float = 10.0
    """A phase without history (first batch, steps or checkpoint) may take this many times the floor."""
