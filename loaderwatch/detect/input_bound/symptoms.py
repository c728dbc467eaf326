"""Symptoms of the waits for one loader on one rank: what the rules decide on, each measured once.

Three numbers from the training process show what the loop waits for: the wait, the training thread's CPU time
in it, and how many batches were ready when it began. If the workers are too slow, no batch is ready and the
thread uses no CPU. If delivery is too slow, batches are ready and the thread is busy. The rest is arithmetic
on fetch time, step time and CPUs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from loaderwatch.core.answers import Evidence, ThreadStateName
from loaderwatch.core.facts import BETWEEN_STEPS, SCRIPT_WORK, LoaderInfo, StackDump
from loaderwatch.core.records import LEAST_SAMPLES, ProfilePart
from loaderwatch.core.threshold import threshold
from loaderwatch.detect.evidence import RankEvidence
from loaderwatch.detect.finding import known_evidence
from loaderwatch.detect.input_bound.spikes import Spike
from loaderwatch.detect.measures.fetches import Fetches, taken_from_memory
from loaderwatch.detect.measures.gain import gain_ratio, workers_needed
from loaderwatch.detect.measures.gpu import gpu_evidence
from loaderwatch.detect.measures.machine import Cpus, Machine, helper_cpu_ratio, read_per_s
from loaderwatch.detect.measures.pace import Pace
from loaderwatch.detect.measures.stacks import beside_model, usual_stack
from loaderwatch.detect.measures.statistics import comb_period, mean, median, quantile, ratio
from loaderwatch.detect.shared_thresholds import CROWDED_DELAY_RATIO, LATENCY_CPU_RATIO

BUSY_STATES: Final[tuple[ThreadStateName, ...]] = ("running", "runnable", "child")
"""States of a sampled thread that does not wait for storage."""
FEW_LATER_STEPS: Final = threshold(
    3, "steps", "chosen: fewer steps of later epochs say nothing about those epochs"
)
READY_RATIO: Final = threshold(
    0.5, "ratio", "chosen: of the wait; with a batch ready for so much, workers are not the trouble"
)
DELIVERY_CPU_RATIO: Final = threshold(
    0.06,
    "ratio",
    "measured: unpickling is a seventh (busy machine) to half CPU, a wait for workers below 3 %",
)
OTHERS_CPU_FACTOR: Final = threshold(
    4.0, "factor", "measured: threads that hold the lock use 5 (busy machine) to 13 times the wait's CPU"
)
UNPACK_RATIO: Final = threshold(
    0.05, "ratio", "chosen: of an iteration without waiting; cheaper unpacking does no harm"
)
UNPACK_S: Final = threshold(0.002, "s", "chosen: CPU time on an idle host; faster unpacking does no harm")
SHORT_FACTOR: Final = threshold(
    1.05, "factor", "chosen: median fetch time / workers, over a step; above it the workers are too slow"
)
NEARLY_SHORT_FACTOR: Final = threshold(
    0.8, "factor", "chosen: mean fetch time / workers, over a step; above it the workers are suspected"
)
AWAITING_RATIO: Final = threshold(
    0.5, "ratio", "chosen: of a fetch in which a worker sleeps or waits; then lack of CPUs is not its cause"
)
RUNNABLE_RATIO: Final = threshold(
    0.5, "ratio", "chosen: of the looks; workers so often runnable compute, however little CPU they get"
)
CROWDED_RUNNABLE_RATIO: Final = threshold(
    0.5, "ratio", "chosen: of the looks with runnable workers, if the kernel reports no waits for a CPU"
)
ASSUMED_CPUS: Final = threshold(4.0, "CPUs", "chosen: for a rank whose number of CPUs is not known")


class Bottleneck(Enum):
    """What the loop may wait for; each has its own causes (``rules.PRECEDENCE``)."""

    OTHER_ITERABLE = "other-iterable"  # not a DataLoader
    TRAINING_THREAD = "training-thread"  # reads the samples itself (num_workers=0)
    UNPACKING = "unpacking"  # the training thread works to take batches that are ready
    HANDOVER = "handover"  # the training thread does not get batches that are ready
    WORKERS = "workers"  # the workers cannot keep up
    SINGLE_BATCHES = "single-batches"  # the workers keep up except for single batches


@dataclass(frozen=True)
class Symptoms:
    """The symptoms of the waits for one loader on one rank.

    A number that is not known is NaN. Seconds are means per batch unless a property says otherwise.

    ``history``: all fetches in the window, which show a change of the storage or a filling cache; None if
    nobody asks for that (evaluation, single waits). ``spikes``: the single long waits; empty unless they are
    judged.
    """

    rank: RankEvidence
    pace: Pace  # the steps that are judged, and the fetches of the same time
    history: Fetches | None = None
    spikes: tuple[Spike, ...] = ()

    # ---- the loop

    @property
    def loader(self) -> LoaderInfo:
        """Return the loader that the loop waits for."""
        return self.pace.loader

    @property
    def iteration_s(self) -> float:
        """Return the seconds that an iteration takes now, the wait included."""
        return self.pace.iteration_s

    @property
    def step_s(self) -> float:
        """Return the seconds that an iteration takes without any wait."""
        return self.pace.mean_step_s

    @cached_property
    def wait_s(self) -> float:
        """Return the mean wait for a batch, in seconds."""
        return mean(self.pace.wait_s)

    @cached_property
    def ready(self) -> float:
        """Return how many batches were ready when a wait began, on average."""
        return mean(np.where(self.pace.ready >= 0, self.pace.ready, np.nan).astype(np.float64))

    @cached_property
    def ready_wait_ratio(self) -> float:
        """Return the share (0 to 1) of the waiting time that passed although a batch was ready.

        An open wait does not count, because it is not known yet.
        """
        pace = self.pace
        seen = (pace.ready >= 0) | (pace.cached >= 0)
        waited_s = float(np.nansum(pace.wait_s[pace.anything_ready]))
        return ratio(waited_s, float(np.nansum(pace.wait_s[seen])))

    @cached_property
    def wait_cpu_ratio(self) -> float:
        """Return the CPU time of the training thread per second of wait, 0 to 1."""
        wait_s, cpu_s = self.pace.wait_s, self.pace.wait_cpu_s
        known = np.isfinite(cpu_s) & np.isfinite(wait_s)
        return ratio(float(cpu_s[known].sum()), float(wait_s[known].sum()))

    @cached_property
    def hands_over(self) -> bool:
        """Whether the training thread is busy taking ready batches, so that faster workers would not help.

        The CPU time of unpacking must be large in itself: on a busy machine even short unpacking takes long.
        """
        unpack_s = mean(self.pace.wait_cpu_s)
        return (
            self.ready_wait_ratio >= READY_RATIO
            and self.wait_cpu_ratio >= DELIVERY_CPU_RATIO
            and not self.lock_is_held
            and unpack_s >= max(UNPACK_S * self.slowness, UNPACK_RATIO * (self.step_s + unpack_s))
        )

    @cached_property
    def lock_is_held(self) -> bool:
        """Whether other threads compute several times as much as the training thread does in its waits.

        Only one thread at a time has the interpreter's lock, so with it taken even a little work takes long.
        Native code needs no lock, so at most one CPU of the other threads counts.
        """
        others = self.machine.other_cpu_ratio
        return math.isfinite(others) and min(1.0, others) > OTHERS_CPU_FACTOR * self.wait_cpu_ratio

    @cached_property
    def first_epoch(self) -> bool:
        """Whether all steps are in the loader's first epoch; too few later steps do not count."""
        return int((self.pace.epoch > 0).sum()) < FEW_LATER_STEPS

    @cached_property
    def comb_period(self) -> int | None:
        """Return the period of long waits in batches, if workers finish together; None without one."""
        return comb_period(self.pace.wait_s, self.workers)

    @cached_property
    def bottleneck(self) -> Bottleneck:
        """Return what the loop waits for."""
        if self.spikes:
            return Bottleneck.SINGLE_BATCHES
        if self.pace.workers is None:
            return Bottleneck.OTHER_ITERABLE
        if not self.pace.workers:
            return Bottleneck.TRAINING_THREAD
        if not self.short and self.hands_over:
            return Bottleneck.UNPACKING
        nearly_short = self.mean_fetch_s / self.workers > NEARLY_SHORT_FACTOR * self.step_s
        if self.short is False and self.ready_wait_ratio >= READY_RATIO and not nearly_short:
            return Bottleneck.HANDOVER
        return Bottleneck.WORKERS

    @cached_property
    def sampled_busy_ratio(self) -> float:
        """Return the share (0 to 1) of the sampled fetch time that computes, awaits a CPU or a child process.

        NaN with fewer than ``LEAST_SAMPLES`` samples.
        """
        profile = self.rank.profile(ProfilePart.FETCH, self.loader.loader)
        if profile.samples < LEAST_SAMPLES:
            return math.nan
        return sum(profile.state_ratios.get(state, 0.0) for state in BUSY_STATES)

    def passing_stacks(self, why: str) -> list[StackDump]:
        """Return the stacks of this loader's workers that were taken for one reason, oldest first."""
        rank = self.pace.rank
        rows = rank.table("processes")
        pids = set(rows["pid"][(rows["worker"] >= 0) & (rows["loader"] == self.loader.loader)].tolist())
        return [dump for dump in rank.passing_stacks.get(why, []) if dump.pid in pids]

    def training_stacks(self, why: str) -> list[StackDump]:
        """Return the stacks of the training process that were taken for one reason, oldest first."""
        return [dump for dump in self.pace.rank.passing_stacks.get(why, []) if dump.worker < 0]

    @cached_property
    def between_steps(self) -> StackDump | None:
        """Return the usual stack between two steps of a loop without a loader; None without stacks."""
        stacks = self.pace.rank.passing_stacks
        # Between micro-batches the loop is in a step, where stacks are taken for another reason.
        fed = [dump for dump in stacks.get(SCRIPT_WORK, []) if dump.feeds]
        return usual_stack(beside_model(stacks.get(BETWEEN_STEPS) or fed))

    # ---- the workers

    @property
    def workers(self) -> int:
        """Return the number of workers, or 1 if there are none, so that callers can divide by it."""
        return self.pace.workers or 1

    @cached_property
    def typical_fetch_s(self) -> float:
        """Return the median time of a fetch, in seconds."""
        return median(self.pace.fetches.fetch_s)

    @cached_property
    def mean_fetch_s(self) -> float:
        """Return the mean time of a fetch, in seconds."""
        return mean(self.pace.fetches.fetch_s)

    @property
    def fetch_s(self) -> float:
        """Return the seconds that a worker needs for a batch.

        This is the mean, so that slow fetches count. If the median is larger, it is the median: fast fetches
        came later that nobody waited for. If no fetch is known, the workers count as busy all the time.
        """
        if math.isfinite(self.mean_fetch_s):
            return max(self.typical_fetch_s, self.mean_fetch_s)
        return self.workers * self.iteration_s

    @cached_property
    def short(self) -> bool | None:
        """Whether the workers are too slow even at their median fetch time; None if not known."""
        if not self.pace.workers or not (math.isfinite(self.typical_fetch_s) and math.isfinite(self.step_s)):
            return None
        return self.typical_fetch_s / self.workers > SHORT_FACTOR * self.step_s

    @cached_property
    def workers_needed(self) -> int:
        """Return how many workers would keep up; always more than now."""
        return max(self.workers + 1, workers_needed(self.fetch_s, self.step_s))

    @cached_property
    def samples(self) -> float:
        """Return the mean number of samples in a batch."""
        samples = self.pace.fetches.samples
        return mean(np.where(samples > 0, samples, np.nan).astype(np.float64))

    @property
    def fetch_cpu_ratio(self) -> float:
        """Return the CPU use of a worker's reading thread while it fetches, 0 to 1."""
        return self.pace.fetches.cpu_ratio

    @property
    def worker_cpu_ratio(self) -> float:
        """Return a worker's mean CPU use in cores, over all its threads and all the time.

        If that is not known, it is the CPU use of the reading thread during fetches.
        """
        cpu_ratio = self.cpus.worker_ratio
        return cpu_ratio if math.isfinite(cpu_ratio) else self.fetch_cpu_ratio

    @property
    def computing_ratio(self) -> float:
        """Return the share (0 to 1) of fetch time in which a worker computes or is ready but has no CPU."""
        computing = self.fetch_cpu_ratio if math.isfinite(self.fetch_cpu_ratio) else self.worker_cpu_ratio
        runnable = self.cpus.runnable_ratio
        return max(computing, runnable) if runnable >= RUNNABLE_RATIO else computing

    @property
    def waits_for_storage(self) -> bool:
        """Whether the workers hardly compute while they fetch: they wait for storage or network."""
        return self.computing_ratio < LATENCY_CPU_RATIO

    @property
    def mostly_awaits(self) -> bool:
        """Whether a worker sleeps or waits for half of a fetch, so that more CPU would not help.

        False if either number is not known.
        """
        return self.fetch_cpu_ratio + self.machine.worker_delay_ratio <= 1 - AWAITING_RATIO

    @cached_property
    def lately(self) -> NDArray[np.bool_]:
        """Return the mask, shape (fetches,), of the fetches that ended within the steps; may be all False."""
        result: NDArray[np.bool_] = self.pace.fetches.ended_ns >= self.pace.request_ns[0]
        return result

    @cached_property
    def _lately_or_all(self) -> NDArray[np.bool_]:
        return self.lately if self.lately.any() else np.ones_like(self.lately)

    @cached_property
    def batch_s(self) -> float:
        """Return the mean seconds of the fetches that ended within the steps; of all if none did."""
        return mean(self.pace.fetches.fetch_s[self._lately_or_all])

    @cached_property
    def batch_cpu_s(self) -> float:
        """Return the mean CPU seconds of the reading thread in the same fetches as ``batch_s``."""
        return mean(self.pace.fetches.cpu_s[self._lately_or_all])

    @cached_property
    def in_memory(self) -> bool:
        """Whether samples are in memory: one costs only index and copy, and nothing comes from storage."""
        read = read_per_s(self.pace.rank, self.loader.loader, int(self.pace.request_ns[0]))
        return taken_from_memory(
            self.samples,
            self.batch_cpu_s,
            self.batch_s,
            mean(self.pace.fetches.bytes[self._lately_or_all]),
            read=read * self.iteration_s,
            slowness=self.reader_slowness,
        )

    # ---- single long waits

    @property
    def longest(self) -> Spike:
        """Return the longest of the single long waits.

        Raises:
            ValueError: there is none.
        """
        return max(self.spikes, key=lambda spike: spike.wait_s)

    @property
    def without_spikes_s(self) -> float:
        """Return the seconds that an iteration would take without the single long waits."""
        return self.iteration_s - sum(spike.wait_s for spike in self.spikes) / max(1, self.pace.wait_s.size)

    # ---- the machine

    @cached_property
    def machine(self) -> Machine:
        """Return what the host and this rank's processes report, as means over the last ten seconds."""
        return self.rank.machine(self.loader.loader)

    @property
    def cpus(self) -> Cpus:
        """Return the CPUs of the rank's host and who uses them."""
        return self.rank.cpus

    @property
    def slowness(self) -> float:
        """Return how many times longer the same work takes here than on an idle host (``slowness_of``)."""
        return self.rank.slowness

    @property
    def reader_slowness(self) -> float:
        """Return the same for the process that reads samples; pressure from workers does not excuse them."""
        return self.rank.worker_slowness if self.pace.workers else self.rank.slowness

    @property
    def cores(self) -> float:
        """Return the number of CPUs that this rank has; ``ASSUMED_CPUS`` if not known."""
        return self.cpus.per_rank if math.isfinite(self.cpus.per_rank) else ASSUMED_CPUS

    @cached_property
    def helper_cpu_ratio(self) -> float:
        """Return the share (0 to 1) of the workers' CPU time in threads other than the reading one."""
        return helper_cpu_ratio(self.pace)

    @property
    def crowded(self) -> bool:
        """Whether workers want a CPU and do not get one."""
        delayed = self.machine.worker_delay_ratio
        return delayed >= CROWDED_DELAY_RATIO or (
            not math.isfinite(delayed) and self.cpus.runnable_ratio >= CROWDED_RUNNABLE_RATIO
        )

    @property
    def on_or_for_cpu_ratio(self) -> float:
        """Return the share (0 to 1) of a fetch in which the worker computes or is ready but has no CPU.

        If the kernel does not tell how long processes wait for a CPU, the states of the processes do.
        """
        delayed = self.machine.worker_delay_ratio
        known = math.isfinite(delayed) and math.isfinite(self.fetch_cpu_ratio)
        return min(1.0, self.fetch_cpu_ratio + delayed) if known else self.cpus.runnable_ratio

    # ---- what follows

    def gain(self, after_s: float) -> float | None:
        """Return the gain, as a share (0 to 1), of iterations that take ``after_s`` s; None if not known."""
        gain = gain_ratio(self.iteration_s, after_s)
        return None if gain is None else gain * self.pace.in_pass_ratio

    def evidence(self, share: float) -> list[Evidence]:
        """Return the symptoms as people can check them in charts; ``share`` (0 to 1) of the time is lost."""
        ready = math.isfinite(self.ready)
        return [
            *known_evidence(
                ("data-wait", share, "ratio"),
                ("wait-per-batch", self.wait_s, "s"),
                ("wait-of-the-loop-mostly-hidden-by-the-gpus-work", self.pace.hidden_wait_s, "s"),
                ("step-without-the-wait", self.step_s, "s"),
                ("batches-per-second", ratio(1.0, self.iteration_s), "per_s"),
                ("fetch-time-of-a-worker-median", self.typical_fetch_s, "s"),
                ("fetch-time-of-a-worker-99th-percentile", quantile(self.pace.fetches.fetch_s, 0.99), "s"),
                ("cpu-use-of-a-worker-while-it-reads", self.fetch_cpu_ratio, "ratio"),
                ("batches-ready-when-the-wait-began", self.ready, "count"),
                ("wait-although-a-batch-was-ready", self.ready_wait_ratio if ready else None, "ratio"),
                ("cpu-use-of-the-training-thread-during-the-wait", self.wait_cpu_ratio, "ratio"),
                ("workers", self.pace.workers, "count"),
                ("usable-cpus", self.cpus.usable, "count"),
                ("free-cpus", self.cpus.free, "count"),
                ("a-long-wait-every-so-many-batches", self.comb_period, "count"),
            ),
            *gpu_evidence(self.pace),
        ]
