"""Thresholds of the detectors, in one place, each with where it comes from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

LATENCY_CPU_RATIO: Final = 0.3
"""A worker that computes less than this while it fetches waits for storage or network."""
CROWDED_DELAY_RATIO: Final = 0.25
"""Workers that are ready and without a CPU for this share of the time want more CPUs than there are."""
JITTER_SPIKES: Final = 3
"""So many different slow fetches are jitter rather than a bad sample."""


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
    spike_s: float = 0.25
    """A single wait shorter than this is not a spike, however long it is against the others."""
    spike_recent_s: float = 30.0
    """Spikes are rarer than steady waits, so their share is taken over a longer time."""

    evaluation_remark_ratio: float = 0.03
    """Share of the run that evaluation must wait for data to be worth a remark."""
    evaluation_warning_ratio: float = 0.25
    """... and to be worth an alert: evaluation is meant to take some of the time, and nobody is woken for its last percent."""
    evaluation_floor_s: float = 1.0
    """Data wait of all passes together below which nothing is said."""
    evaluation_alone_s: float = 30.0
    """A single pass may be an alert from so much waiting on."""

    epoch_warning_ratio: float = 0.10
    epoch_critical_ratio: float = 0.30
    epoch_floor_s: float = 0.2
    """Seconds lost per epoch boundary below which nothing is said."""
    rebuild_floor_s: float = 0.005
    """The same for a loader that is rebuilt for every step: there it is paid hundreds of times."""

    hang_floor_s: float = 30.0
    """No phase counts as hung before it is this old (SageMaker waits 1800 s, DLRover 600 s, xpu_timer 300 s)."""
    hang_factor: float = 10.0
    """... and before it is this many times the 99th percentile of its own history."""
    first_factor: float = 10.0
    """A phase without history (first batch, first steps, first checkpoint) gets this many times the floor."""
    first_sample_factor: float = 3.0
    """... but one map-style sample that a worker cannot finish gets this many."""

    descriptors_eta_s: float = 600.0
    """File descriptors that run out sooner than this are worth a word."""
    memory_eta_s: float = 1800.0
    """Memory that runs out sooner than this is worth an alert; training takes hours, and a cache levels off before."""
    memory_critical_s: float = 300.0
