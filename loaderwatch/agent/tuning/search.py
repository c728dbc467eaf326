"""The search for the smallest setting that keeps the device fed, or that reads about as fast as any.

The number of workers doubles until another doubling brings little; then the gap below is halved. Only the
measured speed of a setting counts: no model predicts what more workers would bring.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from loaderwatch.core.facts import LoaderTrial
from loaderwatch.core.message import Text

KNOWN_FILE: Final = "tuning"
"""The results so far, a ``Tuning`` as JSON, in the folder of a script's report."""
DEFAULT_PREFETCH: Final = 2
"""DataLoader's default ``prefetch_factor`` (torch/utils/data/dataloader.py)."""
NEAR_BEST: Final = 0.95
"""A setting with this share of the best speed counts as about as fast."""
MARGIN: Final = 1.1
"""How much faster than its steps a loader must read, to make up for batches that take longer than others."""
LITTLE: Final = 1.08
"""A doubling that gains less than this factor brings little; a trial of a second or two is not more exact."""
MOST_WORKERS: Final = 64
FED_RATIO: Final = 0.03
"""Waits below this share of the time are ignored: they include PyTorch's own handover of a batch."""
LITTLE_WAIT: Final = 0.02
"""If the wait shares of two settings differ by less than this, the settings are equally good."""
PREFETCHES: Final = (4, 8, 16)


class Setting(NamedTuple):
    """A setting to try: the number of workers, and how many batches each worker may prefetch."""

    workers: int
    prefetch: int = DEFAULT_PREFETCH


Try = Callable[[Setting, float], LoaderTrial]
"""Tries a setting with steps of so many seconds (0: no steps)."""
Refuse = Callable[[Setting, LoaderTrial | None], Text | None]
"""Returns why a setting must not be tried, given the newest trial; None: it may be tried."""


class OutOfTime(Exception):
    """The time for trials is used up."""


def choose(trials: Sequence[LoaderTrial], step_s: float = 0.0) -> Setting | None:
    """Return the smallest setting that is enough by these trials; None without any.

    Trials in which the reader slept for a step between batches are compared by their waits. Without such
    trials, the speed decides: enough is the steps' speed with ``MARGIN``, or ``NEAR_BEST`` of the best speed.
    """
    waits = {_setting(trial): trial.wait_ratio for trial in trials if trial.wait_ratio is not None}
    if waits:
        enough = max(FED_RATIO, min(waits.values()) + LITTLE_WAIT)
        return min(setting for setting, ratio in waits.items() if ratio <= enough)
    speeds = {_setting(trial): _training_speed(trial, step_s) for trial in trials}
    if not speeds:
        return None
    least = _enough(speeds.values(), step_s)
    return min(setting for setting, speed in speeds.items() if speed >= least)


def _training_speed(trial: LoaderTrial, step_s: float) -> float:
    """Return this setting's batches/s in a training; without workers, nothing is read while a step runs."""
    return trial.batches_per_s if trial.num_workers else 1 / (1 / trial.batches_per_s + step_s)


def _setting(trial: LoaderTrial) -> Setting:
    return Setting(trial.num_workers, trial.prefetch_factor or DEFAULT_PREFETCH)


def _enough(speeds: Iterable[float], step_s: float) -> float:
    """Return the speed in batches/s that is enough: that of the steps, or about the best measured one."""
    needed = MARGIN / step_s if step_s else math.inf
    return min(needed, NEAR_BEST * max(speeds))


class Search:
    """A search over one loader. ``trials`` holds the trials so far, also after an exception."""

    def __init__(
        self,
        now: Setting,
        attempt: Try,
        refuse: Refuse,
        *,
        step_s: float = 0.0,
        most: int | None = None,
        tried: Callable[[], None] = lambda: None,
    ) -> None:
        """Prepare a search.

        Args:
            now: the loader's own setting; it is tried first.
            attempt: tries a setting; raises ``OutOfTime`` when there is no time for another.
            refuse: returns why a setting must not be tried.
            step_s: seconds of a training step; 0: not known.
            most: the largest number of workers that is correct for this dataset.
            tried: is called after each trial.
        """
        self.trials: list[LoaderTrial] = []
        self._now, self._attempt, self._refuse, self._step_s = now, attempt, refuse, step_s
        self._tried = tried
        self._most = min(MOST_WORKERS, most) if most is not None else MOST_WORKERS
        self._speeds: dict[int, float] = {}  # batches/s by number of workers
        self.stopped: Text | None = None

    def run(self) -> None:
        """Try settings until the answer is known or the time is up."""
        try:
            self._try(self._now.workers)
            self._double()
            self._halve()
            if self._step_s:
                self._rehearse()
        except OutOfTime:
            self.stopped = Text("time-was-up")

    def _is_fed(self, workers: int) -> bool:
        return bool(self._step_s and workers and self._speeds[workers] >= MARGIN / self._step_s)

    def _try(self, workers: int) -> bool:
        """Try this number of workers, if that is allowed; return whether its speed is known."""
        if workers in self._speeds:
            return True
        setting = Setting(workers, self._now.prefetch if workers == self._now.workers else DEFAULT_PREFETCH)
        reason = self._refuse(setting, self.trials[-1] if self.trials else None) if self.trials else None
        if reason is not None:
            self.stopped = reason
            return False
        trial = self._play(setting, 0.0)
        self._speeds[workers] = _training_speed(trial, self._step_s)
        return True

    def _double(self) -> None:
        if self._is_fed(self._now.workers):
            return
        workers, flat = 1, 0
        while workers <= self._most:
            best = max(self._speeds.values())
            if not self._try(workers):
                return
            if self._is_fed(workers):
                return
            flat = flat + 1 if self._speeds[workers] < LITTLE * best else 0
            if flat >= 2 and workers > self._now.workers:
                self.stopped = self.stopped or Text("no-gain-by-workers")
                return
            workers *= 2

    def _halve(self) -> None:
        """Search between the largest number that is not enough and the smallest that is."""
        while True:
            enough = _enough(self._speeds.values(), self._step_s)
            upper = min(count for count, speed in self._speeds.items() if speed >= enough)
            lower = max((count for count in self._speeds if count < upper), default=0)
            if upper - lower <= max(1, upper // 8) or not self._try((lower + upper) // 2):
                return

    def _play(self, setting: Setting, step_s: float) -> LoaderTrial:
        trial = self._attempt(setting, step_s)
        self.trials.append(trial)
        self._tried()
        return trial

    def _rehearse(self) -> None:
        """Try with steps between batches whether larger prefetch factors, or more workers, remove waits."""
        best = choose(self.trials, self._step_s)
        workers = best.workers if best is not None else 0
        if not workers:
            return
        for count in (workers, workers + max(1, workers // 4), workers + max(2, workers // 2)):
            if count <= self._most and self._deepen(count) <= FED_RATIO:
                return

    def _deepen(self, workers: int) -> float:
        """Try larger prefetch factors while they help; return the remaining share of waits."""
        left = 1.0
        for prefetch in (DEFAULT_PREFETCH, *PREFETCHES):
            setting = Setting(workers, prefetch)
            if self._refuse(setting, self.trials[-1]) is not None:
                return left
            trial = self._play(setting, self._step_s)
            previous, left = left, trial.wait_ratio or 0.0
            if left <= FED_RATIO or previous - left < LITTLE_WAIT:
                break
        return left
