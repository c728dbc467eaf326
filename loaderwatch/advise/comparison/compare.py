"""The comparison of two runs from their data in the store: the page and the command line show the same."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

import numpy as np

from loaderwatch.advise.comparison.settings import changed, loaders_of
from loaderwatch.core.answers import (
    ComparedRun,
    Comparison,
    Difference,
    Estimate,
    Judgement,
    Param,
    Text,
    Unit,
)
from loaderwatch.core.errors import ConfigError
from loaderwatch.core.facts import GpuInfo, HostInfo, ProcessInfo
from loaderwatch.detect.measures.statistics import Floats, known
from loaderwatch.texts import say

LEAST_VALUES: Final = 5  # of each run, before noise can be estimated
_T_95: Final = (
    (1, 12.71), (2, 4.303), (3, 3.182), (4, 2.776), (5, 2.571), (6, 2.447), (7, 2.365), (8, 2.306),
    (9, 2.262), (10, 2.228), (12, 2.179), (15, 2.131), (20, 2.086), (30, 2.042), (60, 2.0), (120, 1.98),
)  # fmt: skip
"""Two-sided 95 % quantiles of Student's t by degrees of freedom."""


@dataclass(frozen=True, slots=True)
class Mean:
    """A mean of ``values`` values, its standard error (NaN if they are too few) and degrees of freedom."""

    mean: float
    error: float
    freedom: float
    values: int

    @property
    def half_width(self) -> float:
        """Half the width of the 95 % interval; NaN if there are too few values."""
        return t_95(self.freedom) * self.error


def mean_of(values: Floats) -> Mean | None:
    """Return the mean of the known values, which are in time order; None if there are none."""
    values = known(values)
    if not values.size:
        return None
    average = float(values.mean())
    if values.size < LEAST_VALUES:
        return Mean(average, math.nan, math.nan, values.size)
    worth = max(2.0, values.size * (1 - _alike(values)) / (1 + _alike(values)))
    return Mean(average, float(values.std(ddof=1)) / math.sqrt(worth), worth - 1, values.size)


def difference(a: Mean, b: Mean) -> tuple[float, float]:
    """Return B minus A, and half the width of its 95 % interval (Welch); NaN if one has too few values."""
    error = math.hypot(a.error, b.error)
    if not error > 0:  # NaN, or two runs that never vary
        return b.mean - a.mean, error
    freedom = error**4 / (a.error**4 / a.freedom + b.error**4 / b.freedom)
    return b.mean - a.mean, t_95(freedom) * error


def t_95(freedom: float) -> float:
    """Return the quantile for the next lower tabled number of degrees of freedom, which is conservative."""
    if math.isnan(freedom):
        return math.nan
    return next((quantile for least, quantile in reversed(_T_95) if freedom >= least), _T_95[0][1])


def _alike(values: Floats) -> float:
    """Return the correlation of neighbours, 0 to 0.99; negative values are chance."""
    centred = values - values.mean()
    power = float(np.dot(centred, centred))
    if not power > 0:
        return 0.0
    correlation = float(np.dot(centred[:-1], centred[1:])) / power
    # The estimate is too small by about (1 + 4 r) / n (Kendall 1954), most for the short series here.
    return min(0.99, max(0.0, correlation + (1 + 4 * max(correlation, 0.0)) / values.size))


SPEED: Final = "steps_per_s"
SAMPLES: Final = "samples_per_s"


@dataclass(frozen=True, slots=True)
class Measure:
    """A measure, and which of two values is better.

    ``series``: its metric in the store; None if it is computed. ``highest``: of the rank with most of it.
    """

    unit: Unit
    better: Literal["more", "less"]
    series: str | None = None
    highest: bool = False

    @property
    def floor(self) -> float:
        """The smallest change that is more than noise: runs with the same settings differ by that much.

        The interval of a single run does not include another day's page cache, clocks and neighbours. The
        floor is a share of A's mean; for ratios it is a difference of ratios.
        """
        return 0.02 if self.unit == "ratio" else 0.03


MEASURES: Final[dict[str, Measure]] = {
    SPEED: Measure("per_s", "more", SPEED),
    SAMPLES: Measure("per_s", "more"),
    "data_wait_ratio": Measure("ratio", "less", "data_wait_ratio"),
    "worst_rank_data_wait_ratio": Measure("ratio", "less", "data_wait_ratio", highest=True),
    "gpu_starved_ratio": Measure("ratio", "less", "gpu_starved_ratio"),
    "gpu_utilization_ratio": Measure("ratio", "more", "gpu_utilization_ratio"),
    "iteration_s": Measure("s", "less", "iteration_s"),
    "data_wait_s": Measure("s", "less", "data_wait_s"),
    "step_s": Measure("s", "less", "step_s"),
    "fetch_s": Measure("s", "less", "fetch_s"),
    "startup_s": Measure("s", "less"),
    "epoch_start_s": Measure("s", "less"),
    "epoch_gap_s": Measure("s", "less"),
    "teardown_s": Measure("s", "less"),
}
"""By the name in answers, in ``--fail-if`` and in the message ``compared-measure``."""


_FORM: Final = re.compile(
    r"\s*(?P<measure>\w+)(?P<change>\.change)?\s*(?P<sign>>=|<=|>|<)\s*"
    r"(?P<limit>[+-]?\d+(?:\.\d*)?(?:e-?\d+)?)\s*(?P<percent>%)?\s*"
)
_SIGNS: Final[dict[str, Callable[[float, float], bool]]] = {
    ">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Condition:
    """``measure > limit`` of run B, or ``measure.change > limit`` of B against A (``Difference.change``)."""

    text: str
    measure: str
    of_change: bool
    sign: str
    limit: float

    def broken_by(self, compared: Comparison) -> Text | None:
        """Return why the comparison fails; None if it does not. An unknown value fails.

        A change fails only if it is more than noise.
        """
        measured = next((m for m in compared.measures if m.measure == self.measure), None)
        value = None if measured is None else self._value(measured)
        if measured is None or value is None:
            return Text("condition-failed", {"condition": self.text, "measure": self.measure, "value": None})
        if not _SIGNS[self.sign](value, self.limit):
            return None
        if self.of_change and measured.judgement == "noise":
            return None
        name = f"{self.measure}.change" if self.of_change else self.measure
        params: dict[str, Param] = {"condition": self.text, "measure": name, "value": f"{value:.4g}"}
        return Text("condition-failed", params)

    def _value(self, found: Difference) -> float | None:
        if self.of_change:
            return found.change
        return None if found.b is None else found.b.mean


def parse(text: str) -> Condition:
    """Return the condition that a text gives.

    Raises:
        ConfigError: the text is not a condition, or names no measure.
    """
    parsed = _FORM.fullmatch(text)
    if parsed is None:
        raise ConfigError(
            f"--fail-if {text!r} is no condition;"
            " write e.g. 'data_wait_ratio > 0.1' or 'steps_per_s.change < -5%'"
        )
    if parsed["measure"] not in MEASURES:
        raise ConfigError(f"--fail-if {text!r} names no measure; use one of {', '.join(MEASURES)}")
    limit = float(parsed["limit"]) / (100 if parsed["percent"] else 1)
    return Condition(
        " ".join(text.split()), parsed["measure"], parsed["change"] is not None, parsed["sign"], limit
    )


_SHORT_S: Final = 60.0


@dataclass(frozen=True)
class Observed:
    """The data of one run. ``values``: by measure, means of equal periods, or one value per epoch."""

    run: ComparedRun
    values: Mapping[str, Floats]
    processes: Sequence[ProcessInfo] = ()  # by rank
    hosts: Sequence[HostInfo] = ()
    gpus: Mapping[str, Sequence[GpuInfo]] = field(default_factory=dict)  # by host

    @property
    def samples_of_a_step(self) -> int | None:
        """The samples in a step of all ranks; None if unknown or if there are several loaders."""
        sizes = {loader.batch_size for loader in loaders_of(self.processes) if loader.role == "train"}
        size = sizes.pop() if len(sizes) == 1 else None
        return None if size is None else size * self.run.world_size

    @property
    def means(self) -> dict[str, Mean]:
        """The mean of each known measure."""
        values = dict(self.values)
        if self.samples_of_a_step is not None and SPEED in values:
            values[SAMPLES] = values[SPEED] * self.samples_of_a_step
        return {name: mean for name in values if (mean := mean_of(values[name])) is not None}


def comparison(a: Observed, b: Observed) -> Comparison:
    """Return what changed from run A to run B."""
    ours, theirs = a.means, b.means
    measures = [
        _difference(name, measure, ours.get(name), theirs.get(name))
        for name, measure in MEASURES.items()
        if name in ours or name in theirs
    ]
    speed = speed_of(a, b)
    title, notes = _title(speed), _notes(a, b)
    return Comparison(
        a=a.run,
        b=b.run,
        title=say(title),
        title_text=title,
        judgement="unknown" if speed is None else speed.judgement,
        notes=[say(note) for note in notes],
        note_texts=notes,
        settings=changed((a.processes, a.hosts, a.gpus), (b.processes, b.hosts, b.gpus)),
        measures=measures,
    )


def speed_of(a: Observed, b: Observed) -> Difference | None:
    """Return the difference in speed, in samples if the step sizes differ; None if one speed is unknown."""
    name = SAMPLES if a.samples_of_a_step != b.samples_of_a_step else SPEED
    ours, theirs = a.means.get(name), b.means.get(name)
    if ours is None or theirs is None:
        return None
    return _difference(name, MEASURES[name], ours, theirs)


def _difference(name: str, measure: Measure, a: Mean | None, b: Mean | None) -> Difference:
    change = low = high = None
    judgement: Judgement = "unknown"
    if a is not None and b is not None:
        by, half = difference(a, b)
        scale = 1.0 if measure.unit == "ratio" else abs(a.mean)
        if scale > 0:
            change = by / scale
        if change is not None and math.isfinite(half):
            low, high = (by - half) / scale, (by + half) / scale
            judgement = _judged(measure, change, low, high)
    label = Text("compared-measure", {"measure": name})
    judged = Text("comparison-judged", {"judgement": judgement})
    return Difference(
        measure=name,
        label=say(label),
        unit=measure.unit,
        a=_estimate(a),
        b=_estimate(b),
        change=change,
        change_low=low,
        change_high=high,
        judgement=judgement,
        said=say(judged),
        label_text=label,
        said_text=judged,
    )


def _judged(measure: Measure, change: float, low: float, high: float) -> Judgement:
    if abs(change) < measure.floor or low <= 0 <= high:
        return "noise"
    return "better" if (change > 0) == (measure.better == "more") else "worse"


def _estimate(of: Mean | None) -> Estimate | None:
    if of is None:
        return None
    half = of.half_width
    known = math.isfinite(half)
    return Estimate(
        mean=of.mean,
        low=of.mean - half if known else None,
        high=of.mean + half if known else None,
        values=of.values,
    )


def _title(speed: Difference | None) -> Text:
    if speed is None or speed.a is None or speed.b is None or speed.change is None:
        return Text("speed-not-known")
    params: dict[str, Param] = {
        "a_per_s": speed.a.mean,
        "b_per_s": speed.b.mean,
        "unit": unit_of(speed),
        "by_ratio": abs(speed.change),
        "low_ratio": speed.change_low,
        "high_ratio": speed.change_high,
    }
    if speed.change_low is None or speed.change_high is None:
        return Text("speed-hardly-measured", params)
    if speed.judgement == "noise":
        return Text("speed-is-the-same", params)
    return Text("speed-rose" if speed.change > 0 else "speed-fell", params)


def unit_of(speed: Difference) -> str:
    """Return the unit counted per second: "samples" or "steps"."""
    return "samples" if speed.measure == SAMPLES else "steps"


def _notes(a: Observed, b: Observed) -> list[Text]:
    notes = []
    ours, theirs = a.samples_of_a_step, b.samples_of_a_step
    if ours != theirs:
        notes.append(
            Text("compared-samples-differ", {"a_samples": ours or None, "b_samples": theirs or None})
        )
    if a.run.world_size != b.run.world_size:
        notes.append(
            Text("compared-ranks-differ", {"a_ranks": a.run.world_size, "b_ranks": b.run.world_size})
        )
    for name, run in (("A", a.run), ("B", b.run)):
        if run.seconds < _SHORT_S:
            notes.append(Text("compared-run-is-short", {"run": name, "measured_s": run.seconds}))
        if run.state in ("live", "hung"):
            notes.append(Text("compared-run-goes-on", {"run": name}))
    return notes
