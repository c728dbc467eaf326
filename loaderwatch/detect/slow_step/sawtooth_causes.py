"""Why a GPU idles within steps that had their batch: one cause after the other, as long as much of the idle time is left.

A part of the step can be to blame for as much idle time as the loop was in it, and as the device was: kernels run
after the call that launches them, so a long backward pass on the device's clock alone is work, and a long ``.item()`` on
the loop's clock alone only waits for that work. Where the device's clock is not known, the loop's has to do.

Each cause takes the idle time that its parts hold, and the next one is looked for in what is left. Parts in which the loop
launches kernels come after those in which it does not: the device is busy in a part of their time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from loaderwatch.core.answers import Param
from loaderwatch.detect.explanation import Explanation
from loaderwatch.detect.measures.pace import Pace
from loaderwatch.detect.slow_step.sawtooth_parts import Seen
from loaderwatch.detect.threshold import threshold
from loaderwatch.detect.window import RankWindow

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
LAUNCHING: Final = ("h2d", "forward", "backward", "optimizer")
FULL_CPU_RATIO: Final = threshold(
    0.85, "ratio", "chosen: of the time that the training thread computes; then it is what all else waits for"
)


@dataclass(frozen=True)
class Swing:
    """How a rank's GPU idles, and how much of that lies in steps that had their batch. Times are seconds per step."""

    rank: RankWindow
    pace: Pace
    high: float  # utilization, 0 to 1
    low: float
    period_s: float  # from one idle time to the next, median; NaN where it does not swing, or quicker than NVML shows
    idle: float  # share of the time that it idles, 0 to 1
    unexplained: float  # of all time, what lies within a step
    began_ns: int  # as far back as it is known
    ended_ns: int  # of the newest reading
    loop_s: Mapping[str, float]  # what the loop spends in each part, see ``sawtooth_parts``
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
        """Return how long the loop waits for the device outside of model and optimizer; 0 where that is not known."""
        if not self.device_s:
            return 0.0
        return sum(
            max(0.0, self.loop_s.get(part, 0.0) - self.device_s.get(part, 0.0))
            for part in ("other", "pauses")
        )

    def measured(self, part: str) -> dict[str, Param]:
        """Return the parameters of the message ``part-of-iteration``: a part's time, with what was seen of it."""
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
    launching_s = swing.held_s(*LAUNCHING)
    busy_s = swing.pace.iteration_s - swing.idle_s
    waits = swing.blocked_s >= BLOCKED_RATIO * swing.pace.iteration_s
    dry = swing.slack_s <= LITTLE_SLACK_RATIO * swing.pace.iteration_s
    if not (waits and dry and launching_s <= busy_s and swing.holds(*LAUNCHING)):
        return None
    found = Explanation(
        scenario="S50",
        confidence=0.7,
        rule="gpu-synchronised-each-step",
        params={"blocked_s": swing.blocked_s, "idle_s": swing.idle_s},
    )
    return Cause(found, LAUNCHING)


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
"""In their order of precedence: each is asked for a cause of the idle time that is left, and gets the least share of all time that counts."""


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
