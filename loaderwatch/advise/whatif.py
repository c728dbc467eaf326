"""The effect of other settings of a running loader: steps per second, with a range, and their memory.

Each setting is simulated with the measured fetches and steps (``simulation``), also the present one. The
error of the simulation for today's speed also widens the range of the others.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from loaderwatch.detect.evidence import RankEvidence, RunEvidence
from loaderwatch.detect.measures.machine import RECENT_NS
from loaderwatch.detect.measures.pace import Pace, recent
from loaderwatch.detect.measures.statistics import Floats, known, mean, ratio, total
from loaderwatch.detect.window import RankWindow
from loaderwatch.pipeline.simulation import KNEE_RATIO, Pipeline, Setting, iteration_s

MOST_WORKERS: Final = 32
LEAST_NUMBERS: Final = 8
FACTORS: Final = (1, 2, 4, 8, 16)
FEW_FETCHES: Final = 8
"""With fewer fetches nothing is simulated, because their spread is unknown."""
PLAYS: Final = 4
"""Places in the data where the simulation starts; almost as many other orders of it give the range."""
BLOCK: Final = 8
"""Batches that stay together when the order changes, so that a burst stays one."""
MOST_OFF: Final = 1.5
"""Factor by which the simulation may miss today's speed. Beyond it the loop waits for something else."""
MOST_DELAY: Final = 0.9
HANDOVER_S: Final = 0.02
"""Longest handover of a ready batch to the loop, in seconds. More is a wait for something else."""
SEED: Final = 0


@dataclass(frozen=True, slots=True)
class Option:
    """Settings of a loader and their effect.

    Times are in seconds per iteration; ``gain_ratio`` is a share of the run's time, 0 to 1. ``memory_bytes``
    is the size of the batches read ahead; None if unknown.
    """

    setting: Setting
    iteration_s: float
    least_s: float
    most_s: float
    gain_ratio: float
    memory_bytes: int | None

    @property
    def steps_per_s(self) -> float:
        """The batches per second with these settings."""
        return 1 / self.iteration_s


@dataclass(frozen=True, slots=True)
class WhatIf:
    """The effect of other settings of one loader, and its basis; times in seconds per batch."""

    today: Option
    measured_s: float  # the present iteration
    workers: list[Option]  # one per number of workers, with today's prefetch_factor
    knee: int  # the fewest workers that are as good as any number
    others: list[Option]  # today's or the knee's workers with another prefetch_factor, and out of order
    pipeline: Pipeline  # the measured data for the simulation

    @property
    def fetches(self) -> int:
        """How many fetches were measured."""
        return int(self.pipeline.fetch_s.size)

    @property
    def fetch_s(self) -> float:
        """The mean seconds of a fetch."""
        return float(self.pipeline.fetch_s.mean())

    @property
    def step_s(self) -> float:
        """The mean seconds of a step."""
        return float(self.pipeline.step_s.mean())


def what_if(run: RunEvidence, rank: int, loader: int) -> WhatIf | None:
    """Return the effect of other settings for a loader of a rank.

    None if the loader is not being iterated or is no DataLoader, too few of its fetches are known, or the
    fetches do not explain today's speed.
    """
    found = run.ranks.get(rank)
    info = next((one for one in found.process.loaders if one.loader == loader), None) if found else None
    if found is None or info is None:
        return None
    now = recent(found.pace(info), found.limits)
    if now is None or now.workers is None:
        return None
    pipeline = _pipeline(found, now)
    measured_s = now.iteration_s
    if pipeline is None or not measured_s > 0:
        return None
    setting = Setting(now.workers, info.prefetch_factor or 2, info.in_order is not False)
    played_s = _played(pipeline, setting)
    off = ratio(measured_s, played_s[0])
    if not 1 / MOST_OFF <= off <= MOST_OFF:
        return None
    batch_bytes = mean(now.fetches.bytes)

    def option(one: Setting) -> Option:
        middle_s, least_s, most_s = _played(pipeline, one)
        gain = max(0.0, 1 - middle_s / played_s[0])  # the simulation's error for today's speed is no gain
        ahead = one.num_workers * one.prefetch_factor
        memory = int(ahead * batch_bytes) if math.isfinite(batch_bytes) else None
        return Option(one, middle_s, min(least_s, least_s * off), max(most_s, most_s * off), gain, memory)

    numbers = _numbers(pipeline, setting)
    workers = [option(replace(setting, num_workers=number)) for number in numbers]
    least_s = min(one.iteration_s for one in workers)
    knee = next(one.setting.num_workers for one in workers if one.iteration_s <= (1 + KNEE_RATIO) * least_s)
    several = replace(setting, num_workers=setting.num_workers or knee)
    others = [replace(several, prefetch_factor=factor) for factor in FACTORS]
    others += [replace(several, in_order=not several.in_order)] if several.num_workers > 1 else []
    played = {setting, *(one.setting for one in workers)}
    return WhatIf(
        today=option(setting),
        measured_s=measured_s,
        workers=workers,
        knee=knee,
        others=[option(one) for one in others if one not in played and one.num_workers],
        pipeline=pipeline,
    )


def _numbers(pipeline: Pipeline, today: Setting) -> list[int]:
    """Return the numbers of workers to simulate: up to twice the useful number, and today's."""
    step_s = float(pipeline.step_s.mean()) + pipeline.handover_s
    most = math.ceil(2 * float(pipeline.fetch_s.mean()) / step_s - 0.02) if step_s > 0 else MOST_WORKERS
    most = max(LEAST_NUMBERS, 2 * today.num_workers, most)
    if pipeline.fetch_cpus > 0 and math.isfinite(pipeline.cpus):
        most = min(most, max(2, math.ceil(2 * pipeline.cpus / pipeline.fetch_cpus)))
    return sorted({*range(1, min(MOST_WORKERS, most) + 1), today.num_workers})


def _played(pipeline: Pipeline, setting: Setting) -> tuple[float, float, float]:
    """Return the mean seconds of an iteration with a setting, and the least and most over several orders.

    The mean is of the measured order, started at several batches. The distance of slow batches, and the
    worker that gets them, decide what they cost. The range covers other orders, as in a shuffled dataset.
    """
    random = np.random.default_rng(SEED)
    rows = pipeline.fetch_s.size
    # The data is repeated in whole rounds of the workers, so that a batch always goes to the same worker.
    whole = replace(pipeline, fetch_s=pipeline.fetch_s[rows % max(1, min(setting.num_workers, rows)) :])
    times = [iteration_s(whole, setting, first) for first in range(0, rows, math.ceil(rows / PLAYS))]
    others = [
        iteration_s(replace(pipeline, fetch_s=_in_blocks(pipeline.fetch_s, random)), setting)
        for _ in range(PLAYS - 1)
    ]
    return float(np.mean(times)), min(*times, *others), max(*times, *others)


def _in_blocks(values: Floats, random: np.random.Generator) -> Floats:
    """Return as many values, drawn in blocks of neighbours."""
    starts = random.integers(0, values.size, size=math.ceil(values.size / BLOCK))
    rows = (starts[:, None] + np.arange(BLOCK)).ravel()[: values.size]
    drawn: Floats = values[rows % values.size]
    return drawn


def _pipeline(evidence: RankEvidence, now: Pace) -> Pipeline | None:
    """Return the measurements of a loader; None if too few fetches or steps are known."""
    fetch_s = known(_fetch_s(now))
    step_s = known(now.step_s + np.nan_to_num(now.nested_s))
    if min(fetch_s.size, step_s.size) < FEW_FETCHES or not fetch_s.mean() > 0:
        return None
    rank, cpus, machine = evidence.rows, evidence.cpus, evidence.machine(now.loader.loader)
    # Reduce what was measured in competition for CPUs to its duration with an immediate CPU.
    fetching = min(1.0, ratio(_lately_s(rank, now), max(1, now.workers or 1) * RECENT_NS / 1e9))
    fetch_free = 1 - _share(machine.worker_delay_ratio, fetching)
    stepping = ratio(total(now.step_s), now.total_s)
    step_free = 1 - _share(machine.main_delay_ratio, stepping)
    cpu_ratio = now.fetches.cpu_ratio
    fetch_cpus = cpu_ratio / fetch_free if math.isfinite(cpu_ratio) else 0.0
    # the rest is what the training process reads by itself
    in_steps = _main_cpus(rank) - ratio(total(now.wait_cpu_s), now.total_s)
    left = cpus.free + cpus.ours  # CPUs that other programs leave to this run
    shared = left / cpus.ranks if math.isfinite(left) else cpus.per_rank
    ready_s = known(now.wait_s[now.anything_ready[: now.wait_s.size]])
    return Pipeline(
        fetch_s=fetch_s * fetch_free,
        step_s=step_s * step_free,
        handover_s=min(float(np.median(ready_s)), HANDOVER_S) if ready_s.size and now.workers else 0.0,
        fetch_cpus=fetch_cpus,
        step_cpus=min(in_steps / stepping, shared) if in_steps > 0 and stepping > 0 else 0.0,
        cpus=max(shared, 1.0) if math.isfinite(shared) else math.inf,
    )


def _fetch_s(now: Pace) -> Floats:
    """Return the seconds of each batch's fetch in batch order; without workers these are the loop's waits."""
    if now.workers:
        return now.fetches.fetch_s[now.fetches.in_batch_order]
    return now.wait_s[:-1] if now.open_wait else now.wait_s


def _share(delay_ratio: float, active: float) -> float:
    """Return the share of the active time that a process waited for a CPU; 0 if unknown."""
    share = ratio(delay_ratio, active)
    return min(MOST_DELAY, share) if math.isfinite(share) else 0.0


def _lately_s(rank: RankWindow, now: Pace) -> float:
    """Return the seconds that all workers spent fetching within ``RECENT_NS``."""
    recently = now.fetches.began_ns >= rank.made_ns - RECENT_NS
    return total(now.fetches.fetch_s[recently])


def _main_cpus(rank: RankWindow) -> float:
    """Return the cores that the training process recently kept busy; NaN if unknown."""
    rows = rank.table("processes")
    return mean(rows["cpu_ratio"][(rows["t_ns"] >= rank.made_ns - RECENT_NS) & (rows["worker"] < 0)])
