"""The parts of a step in which a GPU may idle: how long the loop and the device are in each, and what was seen of it there.

What the loop does itself, outside of the model and its optimizer, is two parts: what it does in each step
("other"), and what it does now and then ("pauses"), such as a checkpoint, beyond the usual of a step.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from loaderwatch.core.answers import Param, Text
from loaderwatch.core.columns import Columns
from loaderwatch.core.facts import StackDump
from loaderwatch.detect.measures.gpu import FEW_TIMED
from loaderwatch.detect.measures.pace import Pace
from loaderwatch.detect.measures.stacks import Frame, main_frames, saving, user_frame
from loaderwatch.detect.measures.statistics import mean, median
from loaderwatch.detect.slow_step.long_steps import PAUSE_FACTOR, PAUSE_S
from loaderwatch.detect.window import first_at, seconds

PHASES: Final = ("h2d", "forward", "backward", "optimizer")
MAIN_PART: Final = 0.5  # of what the loop does itself, from which a phase of the user's names it
SAID_S: Final = 60.0  # a stack that is older is told with its age
STILL_S: Final = 1200.0  # as long a stack counts in a swing that reaches back beyond what is known; the longest between two
_SAVING: Final = re.compile(r"checkpoint|\bsav(e|ing)", re.IGNORECASE)
_OPTIMIZER: Final = "/torch/optim/"
_MODULE: Final = "/torch/nn/modules/module.py"
_ENGINE: Final = "/torch/autograd/"


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
            began_ns: since when it swings, ns UTC.
            reaches_back: whether that is as far as anything is known; then older stacks may be of this swing, too.
        """
        found = {part: Seen(phase=name, saves=bool(_SAVING.search(name))) for part, name in self._phases()}
        now_ns = self.pace.rank.made_ns
        since_ns = now_ns - int(STILL_S * 1e9) if reaches_back else began_ns
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
                age_s=age_s if age_s > SAID_S else None,
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
        """Return (part, phase) for what the loop does itself, where one of the user's own phases holds most of it."""
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
            if name and of[name] >= MAIN_PART * self.loop_s.get(part, 0.0) * self._rows["request_ns"].size:
                found.append((part, name))
        return found


def _parts_s(rows: Columns, whole: str, prefix: str, long_ns: NDArray[np.int64]) -> Mapping[str, float]:
    """Return the mean seconds of each part per step, by one of the two clocks.

    A phase's is that of the steps in which it was timed. What none of the phases covers is the loop's own work: the usual of
    each step, and what the steps at ``long_ns`` take beyond it.
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
