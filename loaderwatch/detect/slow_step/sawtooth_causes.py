"""Why a GPU idles within steps that had their batch: causes are looked for as long as much idle time is left.

A part of the step can account for at most the shorter of two times: the loop's time in it, and the device's.
Kernels run after the call that launches them. So a part that is long only on the device's clock is work. A
part that is long only on the loop's clock, as with ``.item()``, waits for that work. Without the device's
clock, the loop's clock decides.

The loop's own work outside of model and optimizer has two parts. "other" is done in each step. "pauses" is
done now and then beyond a usual step, such as a checkpoint.

A cause takes the idle time of its parts, and the next cause is looked for in the rest. Parts in which the
loop launches many kernels come last, because the device is busy for some of their time.
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
from loaderwatch.detect.finding import Explanation
from loaderwatch.detect.measures.gpu import FEW_TIMED
from loaderwatch.detect.measures.pace import Pace
from loaderwatch.detect.measures.stacks import Frame, main_frames, saving, user_frame
from loaderwatch.detect.measures.statistics import mean, median
from loaderwatch.detect.slow_step.long_steps import PAUSE_FACTOR, PAUSE_S
from loaderwatch.detect.window import RankWindow, first_at, seconds

PHASES: Final = ("h2d", "forward", "backward", "optimizer")
"""The timed parts of a step, in which the loop launches kernels. The rest is the loop's own work."""
MAIN_PHASE_RATIO: Final = threshold(
    0.5, "ratio", "chosen: of the loop's own work; a phase of the user that holds so much names it"
)
OLD_STACK_S: Final = threshold(60.0, "s", "chosen: the message gives the age of an older stack")
STACK_COUNTS_S: Final = threshold(
    1200.0, "s", "the longest time between two stacks of a swing: the streamer takes them less and less often"
)
_SAVING: Final = re.compile(r"checkpoint|\bsav(e|ing)", re.IGNORECASE)
_OPTIMIZER: Final = "/torch/optim/"
_MODULE: Final = "/torch/nn/modules/module.py"
_ENGINE: Final = "/torch/autograd/"
HOLDS_RATIO: Final = threshold(
    0.6, "ratio", "chosen: of a step's idle time; a part, and all causes together, must hold so much"
)
HOLDS_SOME_RATIO: Final = threshold(
    0.25, "ratio", "chosen: of the idle time; each of several causes must be long enough for so much"
)
ALSO_HOLDS_RATIO: Final = threshold(
    0.15, "ratio", "chosen: of the idle time; a second place that holds so much is named, too"
)
BLOCKED_RATIO: Final = threshold(
    0.3, "ratio", "chosen: of an iteration; a loop that waits so long outside the model synchronises"
)
LITTLE_SLACK_RATIO: Final = threshold(
    0.1, "ratio", "chosen: of an iteration; with less work left the device idles while more is launched"
)
FULL_CPU_RATIO: Final = threshold(
    0.85, "ratio", "chosen: of the time; if the training thread computes so much, everything waits for it"
)


@dataclass(frozen=True)
class Seen:
    """What stacks in low phases, and the user's own phases, show of a part."""

    line: Text | None = None  # of the user's code
    age_s: float | None = None  # of the stack that shows the line, if it is old
    phase: str | None = None  # the user's phase that holds most of the part
    saves: bool = False  # the part writes a checkpoint
    dump: StackDump | None = None

    @property
    def params(self) -> dict[str, Param]:
        """Return the parameters of the message ``part-seen``, which says where the loop was."""
        return {"phase": self.phase, "line": self.line, "age_s": self.age_s}


@dataclass(frozen=True)
class Steps:
    """The steps of a swing, to be divided into parts."""

    pace: Pace

    @cached_property
    def loop_s(self) -> Mapping[str, float]:
        """Return the loop's time in each part, mean seconds per step."""
        return _parts_s(self._rows, "step_ns", "", self._long_ns)

    @cached_property
    def device_s(self) -> Mapping[str, float]:
        """Return the same by the device's clock; empty if that has timed too few steps."""
        timed = np.any([np.isfinite(seconds(self._waits[f"gpu_{name}_ns"])) for name in PHASES], axis=0)
        if int(timed.sum()) < FEW_TIMED:
            return {}
        return _parts_s(self._waits, "gpu_step_ns", "gpu_", self._long_ns)

    def seen(self, dumps: list[StackDump], began_ns: int, reaches_back: bool) -> Mapping[str, Seen]:
        """Return what was seen of each part in the low phases of a swing; most parts have no entry.

        Args:
            dumps: stacks that were taken while the GPU idled in a step, oldest first.
            began_ns: since when the GPU swings, ns UTC.
            reaches_back: whether the time before is not known. Then older stacks may belong to this swing.
        """
        seen = {part: Seen(phase=name, saves=bool(_SAVING.search(name))) for part, name in self._phases()}
        now_ns = self.pace.rank.made_ns
        since_ns = now_ns - int(STACK_COUNTS_S * 1e9) if reaches_back else began_ns
        for dump in dumps:
            frames = main_frames(dump)
            line = _saver(frames) or user_frame(frames)
            if dump.taken_ns < since_ns or line is None:
                continue
            part = self._part_at(dump.taken_ns, frames)
            age_s = (now_ns - dump.taken_ns) / 1e9
            known = seen.get(part, Seen())
            seen[part] = Seen(
                line=line.text,
                age_s=age_s if age_s > OLD_STACK_S else None,
                phase=known.phase,
                saves=known.saves or saving(frames),
                dump=dump,
            )
        return seen

    @cached_property
    def _rows(self) -> Columns:
        return self._mine(self.pace.rank.table("steps"))

    @cached_property
    def _waits(self) -> Columns:
        return self._mine(self.pace.rank.table("gpu_waits"))

    def _mine(self, rows: Columns) -> Columns:
        """Return the rows of the pace's steps, without steps that hold an evaluation."""
        wanted = self.pace.request_ns[np.nan_to_num(self.pace.aside_s) == 0]
        mine = (rows["loader"] == self.pace.loader.loader) & np.isin(rows["request_ns"], wanted)
        return {name: values[mine] for name, values in rows.items()}

    @cached_property
    def _is_long(self) -> NDArray[np.bool_]:
        """Return in which steps the loop did something that it does not do in each step, shape (rows,)."""
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
        """Return (part, phase) for each part of the loop's own work that is mostly one user's phase."""
        table, names = self.pace.rank.table("phases"), self.pace.rank.process.phase_names
        spent_s: dict[tuple[str, str], float] = {}
        if not table["request_ns"].size or not self._rows["request_ns"].size:
            return []
        for t_ns, took_ns, name in zip(table["request_ns"], table["duration_ns"], table["name"], strict=True):
            row = self._row_at(int(t_ns))
            if row >= 0 and 0 <= name < len(names):
                key = ("pauses" if self._is_long[row] else "other", names[int(name)])
                spent_s[key] = spent_s.get(key, 0.0) + max(0, int(took_ns)) / 1e9
        named = []
        for part in ("other", "pauses"):
            took_s = {name: spent for (where, name), spent in spent_s.items() if where == part}
            name = max(took_s, key=took_s.__getitem__, default="")
            if (
                name
                and took_s[name]
                >= MAIN_PHASE_RATIO * self.loop_s.get(part, 0.0) * self._rows["request_ns"].size
            ):
                named.append((part, name))
        return named


def _parts_s(rows: Columns, whole: str, prefix: str, long_ns: NDArray[np.int64]) -> Mapping[str, float]:
    """Return the mean seconds of each part per step, by one of the two clocks.

    The mean of a phase covers only the steps in which that phase was timed. The rest of a step is the loop's
    own work: its usual time in each step, and the time beyond that in the steps at ``long_ns``.
    """
    columns = {name: seconds(rows[f"{prefix}{name}_ns"]) for name in PHASES}
    parts_s = {name: mean(values) for name, values in columns.items() if np.isfinite(values).any()}
    took_s = seconds(rows[whole])
    known = np.isfinite(took_s)
    if known.any():
        long = np.isin(rows["request_ns"], long_ns) & known
        rest_s = max(0.0, mean(took_s) - sum(parts_s.values()))
        usual_s = median(took_s[~long & known])
        beyond_s = float((took_s[long] - usual_s).sum()) / int(known.sum()) if not long.all() else rest_s
        parts_s["pauses"] = min(rest_s, max(0.0, beyond_s))
        parts_s["other"] = rest_s - parts_s["pauses"]
    return parts_s


def _saver(frames: Sequence[Frame]) -> Frame | None:
    """Return the user's line that writes a checkpoint; None if none is written."""
    saves = [depth for depth, frame in enumerate(frames) if saving((frame,))]
    return user_frame(frames[saves[-1] + 1 :]) if saves else None


@dataclass(frozen=True)
class Swing:
    """How a rank's GPU idles, and how much of it in steps with their batch. Times are seconds per step."""

    rank: RankWindow
    pace: Pace
    high: float  # utilization, 0 to 1
    low: float
    period_s: float  # median, from one idle time to the next; NaN if NVML shows no swing
    idle: float  # share of the time that the GPU idles, 0 to 1
    unexplained: float  # share of all time that it idles within a step, 0 to 1
    began_ns: int  # as far back as known
    ended_ns: int  # of the newest reading
    loop_s: Mapping[str, float]  # the loop's time in each part, see ``Steps.loop_s``
    device_s: Mapping[str, float]  # the same by the device's clock; empty if not known
    slack_s: float  # work that the GPU has left when a batch is requested, median; NaN if not known
    thread_cpu: float  # share of time in which the training thread computes or lacks a CPU; NaN if not known
    seen: Mapping[str, Seen]  # what stacks in low phases show of a part

    @property
    def idle_s(self) -> float:
        """Return the idle seconds within a step."""
        return self.unexplained * self.pace.iteration_s

    def held_s(self, *parts: str) -> float:
        """Return how much of a step's idle time may be in these parts together."""
        return sum(
            min(self.loop_s.get(part, 0.0), self.device_s.get(part, self.loop_s.get(part, 0.0)))
            for part in parts
        )

    def holds(self, *parts: str) -> bool:
        """Whether most of the idle time may be in these parts."""
        return self.held_s(*parts) >= HOLDS_RATIO * self.idle_s

    @property
    def blocked_s(self) -> float:
        """Return the loop's wait for the device outside of model and optimizer; 0 if not known."""
        if not self.device_s:
            return 0.0
        return sum(
            max(0.0, self.loop_s.get(part, 0.0) - self.device_s.get(part, 0.0))
            for part in ("other", "pauses")
        )

    def measured(self, part: str) -> dict[str, Param]:
        """Return the parameters of ``part-of-iteration``: a part's time, and what was seen of it."""
        seen = self.seen.get(part, Seen())
        return {"part_s": self.held_s(part), "iteration_s": self.pace.iteration_s, **seen.params}

    def without(self, parts: tuple[str, ...], share: float) -> Swing:
        """Return the swing without some parts, and with a share (0 to 1) of all time less to explain."""
        left = {part: spent for part, spent in self.loop_s.items() if part not in parts}
        return replace(self, loop_s=left, unexplained=self.unexplained - share)


@dataclass(frozen=True)
class Cause:
    """One reason for which a GPU idles within its steps."""

    explanation: Explanation
    parts: tuple[str, ...]  # the parts of the step in which it is
    share: float = 0.0  # of all time, 0 to 1, in which the GPU idles for it

    @property
    def place(self) -> str:
        """Return the name of the cause's place, which stays the same as more becomes known."""
        return self.parts[0] if len(self.parts) == 1 and self.parts[0] in PLACES else "launching"


def own_work(swing: Swing, part: str) -> Explanation:
    """S26: the training thread logs, computes metrics or writes, in each step or now and then."""
    saves = swing.seen.get(part, Seen()).saves
    return Explanation(
        scenario="S26",
        confidence=0.8 if saves else 0.7,
        rule="gpu-waits-for-checkpoint" if saves else "gpu-waits-for-loop",
        params={**swing.measured(part), "now_and_then": part == "pauses"},
    )


def before_the_model(swing: Swing, part: str) -> Explanation:
    """S17: the copy of the batch, and other work before the model is called."""
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
    """S50: the loop waits for the GPU in each step, and only then launches the next step."""
    launching_s = swing.held_s(*PHASES)
    busy_s = swing.pace.iteration_s - swing.idle_s
    waits = swing.blocked_s >= BLOCKED_RATIO * swing.pace.iteration_s
    dry = swing.slack_s <= LITTLE_SLACK_RATIO * swing.pace.iteration_s
    if not (waits and dry and launching_s <= busy_s and swing.holds(*PHASES)):
        return None
    explanation = Explanation(
        scenario="S50",
        confidence=0.7,
        rule="gpu-synchronised-each-step",
        params={"blocked_s": swing.blocked_s, "idle_s": swing.idle_s},
    )
    return Cause(explanation, PHASES)


def launch_bound(swing: Swing) -> Cause | None:
    """S51: the loop launches kernels more slowly than the GPU runs them."""
    parts = ("forward", "backward", "optimizer")
    places = sum(swing.held_s(part) >= ALSO_HOLDS_RATIO * swing.idle_s for part in parts)
    if not (swing.thread_cpu >= FULL_CPU_RATIO and places > 1 and swing.holds(*parts)):
        return None
    explanation = Explanation(
        scenario="S51",
        confidence=0.7,
        rule="launch-bound",
        params={"cpu_ratio": min(1.0, swing.thread_cpu), "launching_s": swing.held_s(*parts)},
    )
    return Cause(explanation, parts)


def model_on_the_cpu(swing: Swing) -> Cause | None:
    """S26: a pass through the model computes on the CPU, or waits in between."""
    part = max(("forward", "backward"), key=swing.held_s)
    if not swing.holds(part):
        return None
    explanation = Explanation(
        scenario="S26",
        confidence=0.6,
        rule="model-on-the-cpu",
        params={**swing.measured(part), "part": part},
    )
    return Cause(explanation, (part,))


PLACES: Final[Mapping[str, Callable[[Swing, str], Explanation]]] = {
    "other": own_work,
    "pauses": own_work,
    "h2d": before_the_model,
    "optimizer": optimizer,
}
"""Parts in which the loop launches few kernels, and the explanation of idle time in each."""
RULES: Final[tuple[Callable[[Swing, float], Cause | None], ...]] = (
    lambda left, _: _place(left, HOLDS_RATIO * left.unexplained),
    lambda left, _: launch_bound(left),
    lambda left, _: synchronisation(left),
    lambda left, least: _place(left, max(least, HOLDS_SOME_RATIO * left.unexplained)),
    lambda left, _: model_on_the_cpu(left),
)
"""In order of precedence. Each rule gets the idle time that is left, and the smallest share that counts."""


def causes(swing: Swing, least: float) -> list[Cause]:
    """Return why the GPU idles, in the order found; nothing if that explains too little of the idle time.

    If only the mean utilization shows the idle time, it may be anywhere in a step unless the device timed its
    parts.

    Args:
        swing: the idle time and the parts that may hold it.
        least: the smallest share of all time, 0 to 1, that counts as a cause.
    """
    if not (swing.device_s or math.isfinite(swing.period_s)):
        return []
    accepted: list[Cause] = []
    left = swing
    while left.unexplained >= least:
        cause = next((cause for rule in RULES if (cause := rule(left, least)) is not None), None)
        if cause is None:
            break
        share = min(left.unexplained, left.held_s(*cause.parts) / left.pace.iteration_s)
        if accepted and share < least:
            break
        accepted.append(replace(cause, share=share))
        left = left.without(cause.parts, share)
    explained = sum(cause.share for cause in accepted)
    if explained < HOLDS_RATIO * swing.unexplained:
        return []
    # A rest that is too small for a cause of its own is only the difference between the clocks.
    scale = swing.unexplained / explained if left.unexplained < least else 1.0
    return [replace(cause, share=cause.share * scale) for cause in accepted]


def _place(left: Swing, least: float) -> Cause | None:
    """Return the cause in the place that holds most idle time; None if that is below this share of time."""
    part = max(PLACES, key=left.held_s)
    if left.held_s(part) < least * left.pace.iteration_s:
        return None
    return Cause(PLACES[part](left, part), (part,))
