"""Why a GPU idles within steps that had their batch: causes are looked for as long as much idle time is left.

A part of the step can be to blame for the shorter of two times: the loop's in that part, and the device's.
Kernels run after the call that launches them. So a part that is long on the device's clock alone is work. A
part that is long on the loop's clock alone, as with ``.item()``, only waits for that work. Where the device's
clock is not known, the loop's clock decides.

The loop's own work outside of model and optimizer is two parts. "other" is what it does in each step.
"pauses" is what it does now and then beyond a usual step, such as a checkpoint.

A cause takes the idle time that its parts hold, and the next cause is looked for in the rest. Parts in which
the loop launches many kernels come after the others, as the device is busy for some of their time.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from loaderwatch.core.answers import Param, Text
from loaderwatch.core.columns import Columns
from loaderwatch.core.facts import StackDump
from loaderwatch.core.threshold import threshold
from loaderwatch.detect.explanation import Explanation
from loaderwatch.detect.measures.gpu import FEW_TIMED
from loaderwatch.detect.measures.pace import Pace
from loaderwatch.detect.measures.stacks import Frame, main_frames, saving, user_frame
from loaderwatch.detect.measures.statistics import mean, median
from loaderwatch.detect.slow_step.long_steps import PAUSE_FACTOR, PAUSE_S
from loaderwatch.detect.window import RankWindow, first_at, seconds

PHASES: Final = ("h2d", "forward", "backward", "optimizer")
"""The timed parts of a step, in which the loop launches kernels. The rest is the loop's own work."""
MAIN_PHASE_RATIO: Final = threshold(
    0.5, "ratio", "chosen: of the loop's own work; a phase of the user's that holds so much of it names it"
)
OLD_STACK_S: Final = threshold(60.0, "s", "chosen: the message gives the age of an older stack")
STACK_COUNTS_S: Final = threshold(
    1200.0,
    "s",
    "the longest time between two stacks of a swing, which the streamer takes at growing distances",
)
_SAVING: Final = re.compile(r"checkpoint|\bsav(e|ing)", re.IGNORECASE)
_OPTIMIZER: Final = "/torch/optim/"
_MODULE: Final = "/torch/nn/modules/module.py"
_ENGINE: Final = "/torch/autograd/"
HOLDS_RATIO: Final = threshold(
    0.6,
    "ratio",
    "chosen: of a step's idle time that a part must be long enough for, and that all causes explain together",
)
HOLDS_SOME_RATIO: Final = threshold(
    0.25, "ratio", "chosen: of the idle time that one of several causes must be long enough for"
)
ALSO_HOLDS_RATIO: Final = threshold(
    0.15, "ratio", "chosen: of the idle time; from there a second place holds some of it, too"
)
BLOCKED_RATIO: Final = threshold(
    0.3,
    "ratio",
    "chosen: of an iteration; a loop that waits so long "
    "for the device outside the model synchronises with it",
)
LITTLE_SLACK_RATIO: Final = threshold(
    0.1,
    "ratio",
    "chosen: of an iteration; with less work left the device has nothing to do while the loop launches more",
)
FULL_CPU_RATIO: Final = threshold(
    0.85, "ratio", "chosen: of the time that the training thread computes; then it is what all else waits for"
)


@dataclass(frozen=True)
class Seen:
    """What stacks of low phases and the user's own phases show of a part."""

    line: Text | None = None  # of the user's code
    age_s: float | None = None  # of the stack that shows the line, where that is old
    phase: str | None = None  # the user's own, that holds most of it
    saves: bool = False  # a checkpoint is written there
    dump: StackDump | None = None

    @property
    def params(self) -> dict[str, Param]:
        """Return the parameters of the message ``part-seen``, which says where the loop was."""
        return {"phase": self.phase, "line": self.line, "age_s": self.age_s}


@dataclass(frozen=True)
class Steps:
    """The steps of a swing, of which the parts are wanted."""

    pace: Pace

    @cached_property
    def loop_s(self) -> Mapping[str, float]:
        """Return what the loop spends in each part, mean seconds per step."""
        return _parts_s(self._rows, "step_ns", "", self._long_ns)

    @cached_property
    def device_s(self) -> Mapping[str, float]:
        """Return the same by the device's clock; empty where that has timed too few steps."""
        timed = np.any([np.isfinite(seconds(self._waits[f"gpu_{name}_ns"])) for name in PHASES], axis=0)
        if int(timed.sum()) < FEW_TIMED:
            return {}
        return _parts_s(self._waits, "gpu_step_ns", "gpu_", self._long_ns)

    def seen(self, dumps: list[StackDump], began_ns: int, reaches_back: bool) -> Mapping[str, Seen]:
        """Return what was seen of each part in the low phases of a swing; of most parts nothing.

        Args:
            dumps: stacks that were taken while the GPU idled in a step, oldest first.
            began_ns: since when the GPU swings, ns UTC.
            reaches_back: whether nothing is known of the time before. Then older stacks may be of this swing.
        """
        found = {part: Seen(phase=name, saves=bool(_SAVING.search(name))) for part, name in self._phases()}
        now_ns = self.pace.rank.made_ns
        since_ns = now_ns - int(STACK_COUNTS_S * 1e9) if reaches_back else began_ns
        for dump in dumps:
            frames = main_frames(dump)
            line = _saver(frames) or user_frame(frames)
            if dump.taken_ns < since_ns or line is None:
                continue
            part = self._part_at(dump.taken_ns, frames)
            age_s = (now_ns - dump.taken_ns) / 1e9
            known = found.get(part, Seen())
            found[part] = Seen(
                line=line.text,
                age_s=age_s if age_s > OLD_STACK_S else None,
                phase=known.phase,
                saves=known.saves or saving(frames),
                dump=dump,
            )
        return found

    @cached_property
    def _rows(self) -> Columns:
        return self._mine(self.pace.rank.table("steps"))

    @cached_property
    def _waits(self) -> Columns:
        return self._mine(self.pace.rank.table("gpu_waits"))

    def _mine(self, rows: Columns) -> Columns:
        """Return the rows of the pace's steps, without those that hold an evaluation."""
        wanted = self.pace.request_ns[np.nan_to_num(self.pace.aside_s) == 0]
        mine = (rows["loader"] == self.pace.loader.loader) & np.isin(rows["request_ns"], wanted)
        return {name: values[mine] for name, values in rows.items()}

    @cached_property
    def _is_long(self) -> NDArray[np.bool_]:
        """Return in which steps the loop did something that it does not do in each, shape (rows,)."""
        rows = self._rows
        in_phases = np.sum([np.nan_to_num(seconds(rows[f"{name}_ns"])) for name in PHASES], axis=0)
        own_s = seconds(rows["step_ns"]) - in_phases
        result: NDArray[np.bool_] = own_s >= max(PAUSE_S, PAUSE_FACTOR * median(own_s))
        return result

    @property
    def _long_ns(self) -> NDArray[np.int64]:
        result: NDArray[np.int64] = self._rows["request_ns"][self._is_long]
        return result

    def _row_at(self, ns: int) -> int:
        return first_at(self._rows["request_ns"], ns + 1) - 1

    def _part_at(self, ns: int, frames: Sequence[Frame]) -> str:
        files = [frame.file.replace("\\", "/") for frame in frames]
        if any(_OPTIMIZER in file for file in files):
            return "optimizer"
        if any(_ENGINE in file for file in files):
            return "backward"
        if any(file.endswith(_MODULE) for file in files):
            return "forward"
        row = self._row_at(ns)
        if row < 0:
            return "pauses" if self.loop_s.get("pauses", 0.0) > self.loop_s.get("other", 0.0) else "other"
        rows = self._rows
        delivered_ns = int(rows["request_ns"][row]) + max(0, int(rows["wait_ns"][row]))
        if ns < delivered_ns + int(rows["h2d_ns"][row]):
            return "h2d"
        return "pauses" if self._is_long[row] else "other"

    def _phases(self) -> list[tuple[str, str]]:
        """Return (part, phase) for each part of the loop's own work that one of the user's phases names."""
        table, names = self.pace.rank.table("phases"), self.pace.rank.process.phase_names
        spent_s: dict[tuple[str, str], float] = {}
        if not table["request_ns"].size or not self._rows["request_ns"].size:
            return []
        for at, took, name in zip(table["request_ns"], table["duration_ns"], table["name"], strict=True):
            row = self._row_at(int(at))
            if row >= 0 and 0 <= name < len(names):
                key = ("pauses" if self._is_long[row] else "other", names[int(name)])
                spent_s[key] = spent_s.get(key, 0.0) + max(0, int(took)) / 1e9
        found = []
        for part in ("other", "pauses"):
            of = {name: took for (which, name), took in spent_s.items() if which == part}
            name = max(of, key=of.__getitem__, default="")
            if (
                name
                and of[name] >= MAIN_PHASE_RATIO * self.loop_s.get(part, 0.0) * self._rows["request_ns"].size
            ):
                found.append((part, name))
        return found


def _parts_s(rows: Columns, whole: str, prefix: str, long_ns: NDArray[np.int64]) -> Mapping[str, float]:
    """Return the mean seconds of each part per step, by one of the two clocks.

    The mean of a phase covers only the steps in which that phase was timed. The rest of a step is the loop's
    own work: what each step takes as a rule, and what the steps at ``long_ns`` take beyond that.
    """
    columns = {name: seconds(rows[f"{prefix}{name}_ns"]) for name in PHASES}
    found = {name: mean(values) for name, values in columns.items() if np.isfinite(values).any()}
    took_s = seconds(rows[whole])
    known = np.isfinite(took_s)
    if known.any():
        long = np.isin(rows["request_ns"], long_ns) & known
        rest_s = max(0.0, mean(took_s) - sum(found.values()))
        usual_s = median(took_s[~long & known])
        beyond_s = float((took_s[long] - usual_s).sum()) / int(known.sum()) if not long.all() else rest_s
        found["pauses"] = min(rest_s, max(0.0, beyond_s))
        found["other"] = rest_s - found["pauses"]
    return found


def _saver(frames: Sequence[Frame]) -> Frame | None:
    """Return the user's line that writes a checkpoint; None where none is written."""
    saves = [depth for depth, frame in enumerate(frames) if saving((frame,))]
    return user_frame(frames[saves[-1] + 1 :]) if saves else None


@dataclass(frozen=True)
class Swing:
    """How a rank's GPU idles, and how much of it in steps with their batch. Times are seconds per step."""

    rank: RankWindow
    pace: Pace
    high: float  # utilization, 0 to 1
    low: float
    period_s: float  # median, from one idle time to the next; NaN where NVML shows no swing
    idle: float  # share of the time that it idles, 0 to 1
    unexplained: float  # of all time, what lies within a step
    began_ns: int  # as far back as it is known
    ended_ns: int  # of the newest reading
    loop_s: Mapping[str, float]  # what the loop spends in each part, see ``Steps.loop_s``
    device_s: Mapping[str, float]  # the same by the device's clock; empty where that is not known
    slack_s: float  # work that the GPU has left when a batch is asked for, median; NaN where not known
    thread_cpu: (
        float  # share of the time that the training thread computes, or is ready to; NaN where not known
    )
    seen: Mapping[str, Seen]  # what stacks of low phases show of a part

    @property
    def idle_s(self) -> float:
        """Return the idle time within a step."""
        return self.unexplained * self.pace.iteration_s

    def held_s(self, *parts: str) -> float:
        """Return how much of a step's idle time may lie in these parts together."""
        return sum(
            min(self.loop_s.get(part, 0.0), self.device_s.get(part, self.loop_s.get(part, 0.0)))
            for part in parts
        )

    def holds(self, *parts: str) -> bool:
        """Whether most of the idle time may lie in these parts."""
        return self.held_s(*parts) >= HOLDS_RATIO * self.idle_s

    @property
    def blocked_s(self) -> float:
        """Return the loop's wait for the device outside of model and optimizer; 0 where that is not known."""
        if not self.device_s:
            return 0.0
        return sum(
            max(0.0, self.loop_s.get(part, 0.0) - self.device_s.get(part, 0.0))
            for part in ("other", "pauses")
        )

    def measured(self, part: str) -> dict[str, Param]:
        """Return the parameters of the message ``part-of-iteration``: a part's time, what was seen of it."""
        seen = self.seen.get(part, Seen())
        return {"part_s": self.held_s(part), "iteration_s": self.pace.iteration_s, **seen.params}

    def without(self, parts: tuple[str, ...], share: float) -> Swing:
        """Return what is left of the idle time when some parts have taken a share of all time, 0 to 1."""
        left = {part: spent for part, spent in self.loop_s.items() if part not in parts}
        return replace(self, loop_s=left, unexplained=self.unexplained - share)


@dataclass(frozen=True)
class Cause:
    """One reason for which a GPU idles within its steps."""

    explanation: Explanation
    parts: tuple[str, ...]  # of the step, in which that lies
    share: float = 0.0  # of all time, 0 to 1, that the GPU idles for it

    @property
    def place(self) -> str:
        """Return a name for where it lies, which stays the same while more becomes known of it."""
        return self.parts[0] if len(self.parts) == 1 and self.parts[0] in PLACES else "launching"


def own_work(swing: Swing, part: str) -> Explanation:
    """S26: logging, metrics, writing, on the training thread, in each step or now and then."""
    saves = swing.seen.get(part, Seen()).saves
    return Explanation(
        scenario="S26",
        confidence=0.8 if saves else 0.7,
        rule="gpu-waits-for-checkpoint" if saves else "gpu-waits-for-loop",
        params={**swing.measured(part), "now_and_then": part == "pauses"},
    )


def before_the_model(swing: Swing, part: str) -> Explanation:
    """S17: the copy of the batch, and what else is done before the model is called."""
    return Explanation(
        scenario="S17",
        confidence=0.6,
        rule="gpu-waits-for-batch-copy",
        params=swing.measured(part),
    )


def optimizer(swing: Swing, part: str) -> Explanation:
    """S26: the optimizer computes without the GPU."""
    return Explanation(
        scenario="S26",
        confidence=0.7,
        rule="gpu-waits-for-optimizer",
        params=swing.measured(part),
    )


def synchronisation(swing: Swing) -> Cause | None:
    """S50: the loop waits for the GPU in each step, and only then launches the next one."""
    launching_s = swing.held_s(*PHASES)
    busy_s = swing.pace.iteration_s - swing.idle_s
    waits = swing.blocked_s >= BLOCKED_RATIO * swing.pace.iteration_s
    dry = swing.slack_s <= LITTLE_SLACK_RATIO * swing.pace.iteration_s
    if not (waits and dry and launching_s <= busy_s and swing.holds(*PHASES)):
        return None
    found = Explanation(
        scenario="S50",
        confidence=0.7,
        rule="gpu-synchronised-each-step",
        params={"blocked_s": swing.blocked_s, "idle_s": swing.idle_s},
    )
    return Cause(found, PHASES)


def launch_bound(swing: Swing) -> Cause | None:
    """S51: the loop launches kernels slower than the GPU runs them."""
    parts = ("forward", "backward", "optimizer")
    places = sum(swing.held_s(part) >= ALSO_HOLDS_RATIO * swing.idle_s for part in parts)
    if not (swing.thread_cpu >= FULL_CPU_RATIO and places > 1 and swing.holds(*parts)):
        return None
    found = Explanation(
        scenario="S51",
        confidence=0.7,
        rule="launch-bound",
        params={"cpu_ratio": min(1.0, swing.thread_cpu), "launching_s": swing.held_s(*parts)},
    )
    return Cause(found, parts)


def model_on_the_cpu(swing: Swing) -> Cause | None:
    """S26: a pass through the model computes on the CPU, or waits in between."""
    part = max(("forward", "backward"), key=swing.held_s)
    if not swing.holds(part):
        return None
    found = Explanation(
        scenario="S26",
        confidence=0.6,
        rule="model-on-the-cpu",
        params={**swing.measured(part), "part": part},
    )
    return Cause(found, (part,))


PLACES: Final[Mapping[str, Callable[[Swing, str], Explanation]]] = {
    "other": own_work,
    "pauses": own_work,
    "h2d": before_the_model,
    "optimizer": optimizer,
}
"""Parts in which the loop launches few kernels, and what is said where the GPU idles there."""
RULES: Final[tuple[Callable[[Swing, float], Cause | None], ...]] = (
    lambda left, _: _place(left, HOLDS_RATIO * left.unexplained),
    lambda left, _: launch_bound(left),
    lambda left, _: synchronisation(left),
    lambda left, least: _place(left, max(least, HOLDS_SOME_RATIO * left.unexplained)),
    lambda left, _: model_on_the_cpu(left),
)
"""In their order of precedence. Each gets the idle time that is left, and the least share that counts."""


def causes(swing: Swing, least: float) -> list[Cause]:
    """Return why the GPU idles, the first found first; nothing where that explains too little of it.

    Idle times that nobody saw, but for a mean, may lie anywhere in a step unless the device timed its parts.

    Args:
        swing: where the idle time lies.
        least: the share of all time, 0 to 1, from which something is a cause of its own.
    """
    if not (swing.device_s or math.isfinite(swing.period_s)):
        return []
    found: list[Cause] = []
    left = swing
    while left.unexplained >= least:
        cause = next((cause for rule in RULES if (cause := rule(left, least)) is not None), None)
        if cause is None:
            break
        share = min(left.unexplained, left.held_s(*cause.parts) / left.pace.iteration_s)
        if found and share < least:
            break
        found.append(replace(cause, share=share))
        left = left.without(cause.parts, share)
    told = sum(cause.share for cause in found)
    if told < HOLDS_RATIO * swing.unexplained:
        return []
    # What is left without a cause of its own is no more than what the clocks differ by.
    scale = swing.unexplained / told if left.unexplained < least else 1.0
    return [replace(cause, share=cause.share * scale) for cause in found]


def _place(left: Swing, least: float) -> Cause | None:
    """Return the cause in the place that holds most, where that is at least such a share of all time."""
    part = max(PLACES, key=left.held_s)
    if left.held_s(part) < least * left.pace.iteration_s:
        return None
    return Cause(PLACES[part](left, part), (part,))
