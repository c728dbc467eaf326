"""``attach(autotune=True)``: between epochs, move towards the fewest workers that feed the device.

After each pass, the loader is simulated with other settings (``pipeline.simulation``), from what the pass
measured. The next pass begins with a setting on the way to the knee: never more than twice the workers, never
in the middle of an epoch. After each move, the predicted and the measured speed are compared. A move that did
not pay off is taken back and not tried again.
"""

from __future__ import annotations

import math
import os
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import torch

from loaderwatch.agent.guard import in_english, in_own_language, say, shield
from loaderwatch.agent.loader_description import is_iterable_dataset, splits
from loaderwatch.agent.loaders.watch import Watch
from loaderwatch.agent.tuning.pass_measures import Measured, PassClock
from loaderwatch.agent.tuning.search import FED_RATIO, MOST_WORKERS
from loaderwatch.agent.tuning.search import Setting as Tried
from loaderwatch.agent.tuning.trial import setting_of, why_no_room
from loaderwatch.core.facts import LoaderTrial
from loaderwatch.core.message import Param, Text
from loaderwatch.core.system import usable_cpus
from loaderwatch.pipeline.simulation import KNEE_RATIO, Setting, iteration_s

LITTLE: Final = 0.05
"""If the iterations of two epochs differ by less than this ratio, neither epoch is better."""
SPARE: Final = 1.25
"""Workers are removed down to this many times the knee: the spare ones absorb fetches that take longer."""
LADDER: Final = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
FACTORS: Final = (2, 4, 8, 16)

Publish = Callable[[dict[str, Any]], None]
Moved = Callable[[dict[str, Any], Text], None]


@dataclass(frozen=True, slots=True)
class Move:
    """A change of settings between two epochs; times are seconds per iteration."""

    before: Setting
    after: Setting
    before_s: float
    predicted_s: float
    missed_s: float | None = None  # what the move that this one takes back had predicted

    def text(self, epoch: int) -> Text:
        """Return the move, which is made before this epoch."""
        changes = []
        for name in ("num_workers", "prefetch_factor"):
            old, new = getattr(self.before, name), getattr(self.after, name)
            if old != new:
                changes.append(f"{name} {old} → {new}")
        taken_back = self.missed_s is not None
        predicted_s = self.predicted_s if self.missed_s is None else self.missed_s
        params: dict[str, Param] = {
            "epoch": epoch,
            "changes": ", ".join(changes),
            "taken_back": taken_back,
            "per_s": _speed(self.before_s),
            "predicted_per_s": _speed(predicted_s),
        }
        return Text("autotune-move", params)


class Planner:
    """Decides on moves from what passes measured. It changes no loader.

    Args:
        most: the largest number of workers that is correct for the dataset.
        why_no_room: returns why a setting might exhaust a resource; None: there is room.
    """

    def __init__(
        self,
        most: int = MOST_WORKERS,
        why_no_room: Callable[[Setting, Measured], Text | None] = lambda *_: None,
    ) -> None:
        self._most = most
        self._why_no_room = why_no_room
        self._last: Move | None = None
        self._doubts = False  # whether one pass after the last move showed no gain
        self._refused: set[Setting] = set()

    def move(self, now: Setting, measured: Measured) -> Move | None:
        """Return the move to make before the next pass; None: keep the settings."""
        last, self._last = self._last, None
        if last is not None and last.after == now and not self._is_better(last, measured):
            if measured.iteration_s <= (1 + LITTLE) * last.before_s and not self._doubts:
                # It is no worse: allow one more pass, which other programs may disturb less.
                self._last, self._doubts = last, True
                return None
            self._doubts = False
            self._refused.add(now)
            return Move(last.after, last.before, measured.iteration_s, last.before_s, last.predicted_s)
        self._doubts = False
        self._last = self._next(now, measured)
        return self._last

    @staticmethod
    def _is_better(last: Move, measured: Measured) -> bool:
        """Whether a move achieved its aim: more speed, or the same speed with fewer workers."""
        for_speed = last.predicted_s < (1 - LITTLE) * last.before_s
        return measured.iteration_s <= last.before_s * (1 - LITTLE if for_speed else 1 + LITTLE)

    def _next(self, now: Setting, measured: Measured) -> Move | None:
        simulated_s = iteration_s(measured.pipeline, now)
        if not (simulated_s > 0 and measured.iteration_s > 0):
            return None
        correction = measured.iteration_s / simulated_s  # the same error is assumed for the other settings

        def predicted_s(setting: Setting) -> float:
            return correction * iteration_s(measured.pipeline, setting)

        knee = self._knee(now, measured, predicted_s)
        if knee > now.num_workers and measured.wait_ratio > FED_RATIO:
            workers = min(knee, max(2, 2 * now.num_workers))
        elif math.ceil(SPARE * knee) < now.num_workers:
            workers = max(math.ceil(SPARE * knee), now.num_workers // 2)
        else:
            workers = now.num_workers
        after = replace(now, num_workers=workers)
        if after == now and measured.wait_ratio > FED_RATIO and now.num_workers:
            after = self._deeper(now, measured, predicted_s)
        if after == now or after in self._refused:
            return None
        if after.num_workers > now.num_workers and self._why_no_room(after, measured) is not None:
            return None
        move = Move(now, after, measured.iteration_s, predicted_s(after))
        is_more = after.num_workers >= now.num_workers
        return move if not is_more or move.predicted_s < (1 - LITTLE) * move.before_s else None

    def _knee(self, now: Setting, measured: Measured, predicted_s: Callable[[Setting], float]) -> int:
        """Return the fewest workers that are as good as any, within the limits of CPUs, dataset and moves."""
        most = self._most
        pipeline = measured.pipeline
        if pipeline.fetch_cpus > 0 and math.isfinite(pipeline.cpus):
            most = min(most, max(2, math.ceil(2 * pipeline.cpus / pipeline.fetch_cpus)))
        most = min([most, *(s.num_workers - 1 for s in self._refused if s.num_workers > now.num_workers)])
        numbers = sorted({*(number for number in LADDER if number <= most), now.num_workers})
        times = {number: predicted_s(replace(now, num_workers=number)) for number in numbers}
        enough_s = (1 + KNEE_RATIO) * min(times.values())
        return min(number for number, time_s in times.items() if time_s <= enough_s)

    def _deeper(self, now: Setting, measured: Measured, predicted_s: Callable[[Setting], float]) -> Setting:
        """Return the setting with the next larger prefetch factor, if that removes waits."""
        factor = next((larger for larger in FACTORS if larger > now.prefetch_factor), None)
        deeper = now if factor is None else replace(now, prefetch_factor=factor)
        if deeper == now or self._why_no_room(deeper, measured) is not None:
            return now
        return deeper if predicted_s(deeper) < (1 - LITTLE) * measured.iteration_s else now


class Autotune:
    """Tunes one watched DataLoader: measures each pass, and sets the loader before the next pass.

    Args:
        watch: the loader's watch.
        clock: measures its passes.
        planner: decides on the moves.
        moved: receives the settings after each move, and the move.
    """

    def __init__(self, watch: Watch, clock: PassClock, planner: Planner, moved: Moved) -> None:
        self._watch = watch
        self._clock = clock
        self._planner = planner
        self._moved = moved
        self._generator: Any = None  # the loader's own, while its persistent workers restart
        self._holds = False
        self._put: Setting | None = None  # the setting that the loader was given
        self._loader: Callable[[], Any] = lambda: None
        self.leaving: Callable[[Any], None] = shield(clock.take)
        self.before_pass: Callable[[Any], None] = shield(self._before_pass)
        self.begun: Callable[[Any], None] = shield(self._begun)

    @property
    def settings(self) -> dict[str, Any]:
        """Return the loader's settings that this tuning changed."""
        return {} if self._put is None else _facts(self._put)

    def _before_pass(self, loader: Any) -> None:
        kept = getattr(loader, "_iterator", None)
        if any(one_pass is not getattr(kept, "_loaderwatch", None) for one_pass in self._watch.passes):
            return  # another pass is still running, so the measurements mix both
        if self._put is not None and self._loader() is not loader:
            _put(loader, self._put)  # the script created it again, with its own settings
        self._loader = weakref.ref(loader)
        self._clock.take(kept)
        measured = self._clock.measured()
        now = _setting_of(loader)
        # If the numbers differ, the script has set another number of workers.
        if measured is not None and measured.workers == now.num_workers:
            move = self._planner.move(now, measured)
            if move is not None:
                self._apply(loader, move)
        self._clock.begin(_setting_of(loader))

    def _begun(self, loader: Any) -> None:
        if self._holds:
            loader.generator, self._generator, self._holds = self._generator, None, False

    def _apply(self, loader: Any, move: Move) -> None:
        kept = getattr(loader, "_iterator", None)
        if kept is not None:  # persistent workers, whose number is fixed while they are alive
            kept._shutdown_workers()
            loader._iterator = None
            # A loader draws one random number when its workers start. Without the move it would draw none
            # now. A script that shuffles with the same generator would get another order because of the move.
            self._generator, self._holds = loader.generator, True
            loader.generator = torch.Generator()
            loader.generator.manual_seed(getattr(kept, "_base_seed", 0))
        self._put = move.after
        _put(loader, move.after)
        self._moved(_facts(move.after), move.text(self._watch.epochs))


def _let_be() -> None:
    """Replace PyTorch's check of the number of workers: with slow storage, they may exceed the CPUs."""


def _put(loader: Any, setting: Setting) -> None:
    loader.check_worker_number_rationality = _let_be
    loader.num_workers = setting.num_workers
    loader.prefetch_factor = setting.prefetch_factor if setting.num_workers else None


def _facts(setting: Setting) -> dict[str, Any]:
    return {
        "num_workers": setting.num_workers,
        "prefetch_factor": setting.prefetch_factor if setting.num_workers else None,
    }


def autotune(watch: Watch, loader: Any, folder: Path, publish: Publish, says: Callable[[], bool]) -> Autotune:
    """Return a watched loader's tuning; ``says`` returns whether this process reports moves on stderr."""

    def moved(facts: dict[str, Any], move: Text) -> None:
        publish({**facts, "autotuned": in_english(move)})
        if says():
            say(in_own_language("autotune-moved", loader=watch.name, move=move))

    planner = Planner(_most_workers(loader), _why_no_room)
    return Autotune(watch, PassClock(folder, watch.loader, free_cpus()), planner, moved)


def _most_workers(loader: Any) -> int:
    """Return the largest correct number of workers. A stream that may not split its rows keeps its number."""
    if is_iterable_dataset(loader) and not splits(loader):
        return max(1, int(loader.num_workers))
    return MOST_WORKERS


def _setting_of(loader: Any) -> Setting:
    workers, prefetch = setting_of(loader)
    return Setting(workers, prefetch, getattr(loader, "in_order", True) is not False)


def _why_no_room(setting: Setting, measured: Measured) -> Text | None:
    trial = LoaderTrial(
        num_workers=measured.workers,
        prefetch_factor=None,
        batches=measured.steps,
        batches_per_s=1 / measured.iteration_s,
        start_s=0.0,
        batch_bytes=measured.batch_bytes,
        worker_bytes=measured.worker_bytes,
    )
    return why_no_room(Tried(setting.num_workers, setting.prefetch_factor), trial)


def free_cpus(environ: Mapping[str, str] | None = None) -> float:
    """Return this rank's share of the process's CPUs, which the ranks that torchrun started here share."""
    env = os.environ if environ is None else environ
    ranks = env.get("LOCAL_WORLD_SIZE", "1")
    return usable_cpus() / max(1, int(ranks) if ranks.isdecimal() else 1)


def _speed(each_s: float) -> str:
    return f"{1 / each_s:.3g}" if each_s > 0 else "?"
