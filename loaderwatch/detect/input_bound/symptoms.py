"""What the waits for one loader on one rank look like: everything that the rules decide on, each number measured once.

Three numbers taken in the training process say what the loop waits for: the wait, the training thread's CPU time inside
it, and how many batches lay ready when the wait began. Workers too slow: nothing ready, no CPU. Delivery too slow: batches
ready, CPU busy. The rest is arithmetic on fetch time, step time and CPUs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from loaderwatch.core.answers import Evidence
from loaderwatch.core.facts import LoaderInfo
from loaderwatch.detect.finding import known_evidence
from loaderwatch.detect.input_bound.spikes import Spike
from loaderwatch.detect.limits import CROWDED_DELAY_RATIO, LATENCY_CPU_RATIO
from loaderwatch.detect.measures.fetches import Fetches
from loaderwatch.detect.measures.gain import gain_ratio, workers_needed
from loaderwatch.detect.measures.gpu import gpu_evidence
from loaderwatch.detect.measures.machine import Cpus, Machine, helper_cpu_ratio, machine_of
from loaderwatch.detect.measures.pace import Pace
from loaderwatch.detect.measures.statistics import comb_period, mean, median, quantile, ratio
from loaderwatch.detect.window import RunWindow

READY_RATIO = 0.5  # of the wait, with a batch lying ready: it is not the workers that are waited for
DELIVERY_CPU_RATIO = (
    0.06  # measured: unpickling is a seventh (busy machine) to half CPU, waiting for workers below 3 %
)
UNPACK_RATIO = 0.05  # of an iteration without waiting; unpacking that costs less is not the trouble
UNPACK_S = 0.002
SHORT_RATIO = 1.05  # a batch of all workers against a step, at the median: beyond it they are too slow
NEARLY_SHORT_RATIO = 0.8  # ... and at the mean: beyond it they are suspected
RUNNABLE_RATIO = 0.5  # workers found runnable this often are computing, however little CPU they get
CROWDED_RUNNABLE_RATIO = 0.5
CORES = 4.0  # of a rank, where the number is not known


class Bottleneck(Enum):
    """What the loop waits for; each has its own causes."""

    OTHER_ITERABLE = "an iterable that is no DataLoader"
    TRAINING_THREAD = "the training thread, which reads itself (num_workers=0)"
    UNPACKING = "the training thread, which works to take batches that lie ready"
    HANDOVER = "the training thread, which does not get batches that lie ready"
    WORKERS = "workers that cannot keep up"
    SINGLE_BATCHES = "single batches of workers that keep up otherwise"


@dataclass(frozen=True)
class Symptoms:
    """The waits for one loader on one rank. NaN where not known; seconds are means per batch unless they say otherwise.

    ``history``: all fetches in the window, to tell a change of the storage and a filling cache by; None where that is not
    asked (evaluation, single waits). ``spikes``: the single long waits, where those are judged.
    """

    window: RunWindow
    pace: Pace  # the steps that are judged, and the fetches of the same time
    cpus: Cpus
    history: Fetches | None = None
    spikes: tuple[Spike, ...] = ()

    # ---- the loop

    @property
    def loader(self) -> LoaderInfo:
        """The loader that is waited for."""
        return self.pace.loader

    @property
    def iteration_s(self) -> float:
        """What an iteration costs now, the wait included."""
        return self.pace.iteration_s

    @property
    def step_s(self) -> float:
        """What an iteration costs without any wait."""
        return self.pace.mean_step_s

    @cached_property
    def wait_s(self) -> float:
        """The wait for a batch."""
        return mean(self.pace.wait_s)

    @cached_property
    def ready(self) -> float:
        """How many batches lay ready when a wait began."""
        return mean(np.where(self.pace.ready >= 0, self.pace.ready, np.nan).astype(np.float64))

    @cached_property
    def ready_wait_ratio(self) -> float:
        """Share of the wait that was spent although some batch lay ready; of a wait that goes on it is not known."""
        pace = self.pace
        seen = (pace.ready >= 0) | (pace.cached >= 0)
        waited_s = float(np.nansum(pace.wait_s[pace.anything_ready]))
        return ratio(waited_s, float(np.nansum(pace.wait_s[seen])))

    @cached_property
    def wait_cpu_ratio(self) -> float:
        """Training-thread CPU time per second of wait."""
        wait_s, cpu_s = self.pace.wait_s, self.pace.wait_cpu_s
        known = np.isfinite(cpu_s) & np.isfinite(wait_s)
        return ratio(float(cpu_s[known].sum()), float(wait_s[known].sum()))

    @cached_property
    def hands_over(self) -> bool:
        """Whether the training thread works to take batches that lie ready: nothing that quicker workers would change.

        The CPU time of unpacking must be worth a word by itself; on a busy machine a short one takes long as well.
        """
        unpack_s = mean(self.pace.wait_cpu_s)
        return (
            self.ready_wait_ratio >= READY_RATIO
            and self.wait_cpu_ratio >= DELIVERY_CPU_RATIO
            and unpack_s >= max(UNPACK_S, UNPACK_RATIO * (self.step_s + unpack_s))
        )

    @cached_property
    def first_epoch(self) -> bool:
        """Whether no later epoch is among the steps."""
        return not bool((self.pace.epoch > 0).any())

    @cached_property
    def comb_period(self) -> int | None:
        """A long wait comes every so many batches, because the workers finish together."""
        return comb_period(self.pace.wait_s, self.workers)

    @cached_property
    def bottleneck(self) -> Bottleneck:
        """What the loop waits for."""
        if self.spikes:
            return Bottleneck.SINGLE_BATCHES
        if self.pace.workers is None:
            return Bottleneck.OTHER_ITERABLE
        if not self.pace.workers:
            return Bottleneck.TRAINING_THREAD
        if not self.short and self.hands_over:
            return Bottleneck.UNPACKING
        nearly_short = self.mean_fetch_s / self.workers > NEARLY_SHORT_RATIO * self.step_s
        if self.short is False and self.ready_wait_ratio >= READY_RATIO and not nearly_short:
            return Bottleneck.HANDOVER
        return Bottleneck.WORKERS

    # ---- the workers

    @property
    def workers(self) -> int:
        """Their number; at least 1, for what is divided among them."""
        return self.pace.workers or 1

    @cached_property
    def typical_fetch_s(self) -> float:
        """A fetch, median."""
        return median(self.pace.fetches.fetch_s)

    @cached_property
    def mean_fetch_s(self) -> float:
        """A fetch, mean."""
        return mean(self.pace.fetches.fetch_s)

    @property
    def fetch_s(self) -> float:
        """What a worker needs for a batch.

        The mean, as the slow ones count; the median where quick ones have come since that nobody waited for.
        """
        if math.isfinite(self.mean_fetch_s):
            return max(self.typical_fetch_s, self.mean_fetch_s)
        return self.workers * self.iteration_s

    @cached_property
    def short(self) -> bool | None:
        """Whether the workers are too slow even at their median fetch time; None when fetch times are not known."""
        if not self.pace.workers or not (math.isfinite(self.typical_fetch_s) and math.isfinite(self.step_s)):
            return None
        return self.typical_fetch_s / self.workers > SHORT_RATIO * self.step_s

    @cached_property
    def workers_needed(self) -> int:
        """How many workers would keep up: more than now."""
        return max(self.workers + 1, workers_needed(self.fetch_s, self.step_s))

    @cached_property
    def samples(self) -> float:
        """Samples in a batch."""
        samples = self.pace.fetches.samples
        return mean(np.where(samples > 0, samples, np.nan).astype(np.float64))

    @property
    def fetch_cpu_ratio(self) -> float:
        """CPU use of a worker's reading thread while it fetches."""
        return self.pace.fetches.cpu_ratio

    @property
    def worker_cpu_ratio(self) -> float:
        """CPU use of a worker, all its threads and all the time; of the reading thread where that is not known."""
        each = self.cpus.worker_ratio
        return each if math.isfinite(each) else self.fetch_cpu_ratio

    @property
    def computing_ratio(self) -> float:
        """How much of the time that a worker fetches it computes, or wants to."""
        computing = self.fetch_cpu_ratio if math.isfinite(self.fetch_cpu_ratio) else self.worker_cpu_ratio
        runnable = self.cpus.runnable_ratio
        return max(computing, runnable) if runnable >= RUNNABLE_RATIO else computing

    @property
    def waits_for_storage(self) -> bool:
        """Whether the workers hardly compute while they fetch: they wait for storage or network."""
        return self.computing_ratio < LATENCY_CPU_RATIO

    @cached_property
    def lately(self) -> NDArray[np.bool_]:
        """Which of the fetches ended within the steps; it may be none."""
        result: NDArray[np.bool_] = self.pace.fetches.ended_ns >= self.pace.request_ns[0]
        return result

    @cached_property
    def _lately_or_all(self) -> NDArray[np.bool_]:
        return self.lately if self.lately.any() else np.ones_like(self.lately)

    @cached_property
    def batch_s(self) -> float:
        """A fetch of those that ended within the steps; of all where none did."""
        return mean(self.pace.fetches.fetch_s[self._lately_or_all])

    @cached_property
    def batch_cpu_s(self) -> float:
        """CPU time of the reading thread in such a fetch."""
        return mean(self.pace.fetches.cpu_s[self._lately_or_all])

    # ---- single long waits

    @property
    def longest(self) -> Spike:
        """The longest of them; there must be one."""
        return max(self.spikes, key=lambda spike: spike.wait_s)

    @property
    def without_spikes_s(self) -> float:
        """What an iteration would cost without them."""
        return self.iteration_s - sum(spike.wait_s for spike in self.spikes) / max(1, self.pace.wait_s.size)

    # ---- the machine

    @cached_property
    def machine(self) -> Machine:
        """What the machine says of this rank's processes."""
        return machine_of(self.window, self.pace.rank, self.loader.loader)

    @property
    def cores(self) -> float:
        """CPUs of this rank."""
        return self.cpus.per_rank if math.isfinite(self.cpus.per_rank) else CORES

    @cached_property
    def helper_cpu_ratio(self) -> float:
        """Share of the workers' CPU time in threads other than the reading one."""
        return helper_cpu_ratio(self.pace)

    @property
    def crowded(self) -> bool:
        """Whether workers want a CPU and do not get one."""
        delayed = self.machine.worker_delay_ratio
        return delayed >= CROWDED_DELAY_RATIO or (
            not math.isfinite(delayed) and self.cpus.runnable_ratio >= CROWDED_RUNNABLE_RATIO
        )

    # ---- what follows

    def gain(self, after_s: float) -> float | None:
        """The share of the time that comes back when an iteration takes ``after_s``."""
        return gain_ratio(self.iteration_s, after_s)

    def evidence(self, share: float) -> list[Evidence]:
        """The symptoms as a person can check them in the charts; ``share`` of the time is lost."""
        ready = math.isfinite(self.ready)
        return [
            *known_evidence(
                ("data wait", share, "ratio"),
                ("wait per batch", self.wait_s, "s"),
                ("step without the wait", self.step_s, "s"),
                ("batches per second", ratio(1.0, self.iteration_s), "per_s"),
                ("fetch time of a worker, median", self.typical_fetch_s, "s"),
                ("fetch time of a worker, 99th percentile", quantile(self.pace.fetches.fetch_s, 0.99), "s"),
                ("CPU use of a worker while it reads", self.fetch_cpu_ratio, "ratio"),
                ("batches ready when the wait began", self.ready, "count"),
                ("wait although a batch was ready", self.ready_wait_ratio if ready else None, "ratio"),
                ("CPU use of the training thread during the wait", self.wait_cpu_ratio, "ratio"),
                ("workers", self.pace.workers, "count"),
                ("usable CPUs", self.cpus.usable, "count"),
                ("free CPUs", self.cpus.free, "count"),
                ("a long wait every so many batches", self.comb_period, "count"),
            ),
            *gpu_evidence(self.pace),
        ]
