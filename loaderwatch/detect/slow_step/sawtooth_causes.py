"""Why a GPU idles within steps that had their batch: the rules, in their order of precedence.

A part of the step can be to blame for as much idle time as the loop was in it, and as the device was: kernels run
after the call that launches them, so a long backward pass on the device's clock alone is work, and a long ``.item()`` on
the loop's clock alone only waits for that work. Where the device's clock is not known, the loop's has to do.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from loaderwatch.detect.explanation import Explanation
from loaderwatch.detect.measures.pace import Pace
from loaderwatch.detect.text import duration, percent
from loaderwatch.detect.window import RankWindow

HOLDS: Final = 0.6
"""Part of the idle time of a step that something must be long enough for, to be where it lies."""
ALSO: Final = 0.15
"""Part of the idle time from which a second place holds some of it, too."""
BLOCKED: Final = 0.3
"""Part of an iteration for which the loop waits for the device outside the model, from which it synchronises with it."""
FEW_SLACK: Final = 0.1
"""Part of an iteration: with less work left when a batch is asked for, the device has nothing to do while the loop launches more."""
FULL_CPU: Final = 0.85
"""Share of the time that the training thread computes, from which it is what all else waits for."""


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
    began_ns: int
    loop_s: Mapping[str, float]  # what the loop spends in each part: h2d, forward, backward, optimizer, other
    device_s: Mapping[str, float]  # the same by the device's clock; empty where that is not known
    slack_s: float  # work that the GPU has left when a batch is asked for, median; NaN where not known
    thread_cpu: (
        float  # share of the time that the training thread computes, or is ready to; NaN where not known
    )
    line: str  # the user's, in a stack that was taken while the GPU idled; "" without one

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
        return self.held_s(*parts) >= HOLDS * self.idle_s

    @property
    def blocked_s(self) -> float:
        """Return how long the loop waits for the device outside of model and optimizer; 0 where that is not known."""
        if not self.device_s:
            return 0.0
        return max(0.0, self.loop_s.get("other", 0.0) - self.device_s.get("other", 0.0))

    def told(self, part: str) -> str:
        """Return a part's time as words, with the line where one is known."""
        at = f" ({self.line})" if self.line else ""
        return f"{duration(self.held_s(part))} of the {duration(self.pace.iteration_s)} of an iteration{at}"


Rule = Callable[[Swing], Explanation | None]


def own_work(swing: Swing) -> Explanation | None:
    """S26: logging, metrics, writing, on the training thread."""
    if not swing.holds("other"):
        return None
    return Explanation(
        scenario="S26",
        confidence=0.7,
        because="the loop's own work in the step",
        cause="Each batch was there, and the GPU waited for the loop's own work in the step (logging, metrics, writing a checkpoint, copies"
        f" back from the GPU): {swing.told('other')}.",
        advice="Do it less often or on another thread: log every so many steps, keep losses and metrics on the GPU until then, and"
        " avoid .item(), .cpu() and print(loss) in each step. loaderwatch.phase(name) around a part shows what it takes.",
    )


def before_the_model(swing: Swing) -> Explanation | None:
    """S17: the copy of the batch, and what else is done before the model is called."""
    if not swing.holds("h2d"):
        return None
    return Explanation(
        scenario="S17",
        confidence=0.6,
        because="what lies between a batch's arrival and the model",
        cause="Each batch was there, and the GPU waited for what the loop does before it calls the model, such as the copy of the batch:"
        f" {swing.told('h2d')}.",
        advice="Set pin_memory=True and call .to(device, non_blocking=True), or copy the next batch on a side stream; move conversions of"
        " the batch into the workers or onto the GPU.",
    )


def optimizer(swing: Swing) -> Explanation | None:
    """S26: the optimizer computes without the GPU."""
    if not swing.holds("optimizer"):
        return None
    return Explanation(
        scenario="S26",
        confidence=0.7,
        because="optimizer.step()",
        cause=f"Each batch was there, and the GPU waited for optimizer.step(), on the CPU: {swing.told('optimizer')}.",
        advice="Use a fused optimizer (fused=True), and keep its state and the gradients on the GPU.",
    )


def synchronisation(swing: Swing) -> Explanation | None:
    """S50: the loop waits for the GPU in each step, and only then launches the next one."""
    launching_s = swing.held_s("h2d", "forward", "backward", "optimizer")
    busy_s = swing.pace.iteration_s - swing.idle_s
    waits = swing.blocked_s >= BLOCKED * swing.pace.iteration_s
    dry = swing.slack_s <= FEW_SLACK * swing.pace.iteration_s
    if not (
        waits and dry and launching_s <= busy_s and swing.holds("h2d", "forward", "backward", "optimizer")
    ):
        return None
    at = f" ({swing.line})" if swing.line else ""
    return Explanation(
        scenario="S50",
        confidence=0.7,
        because="the loop waits for it in each step",
        cause=f"In each step the loop waits {duration(swing.blocked_s)} for the GPU{at}, as .item(), .cpu(), print(loss) and synchronize()"
        f" do. Only then it launches the next step, and the GPU has nothing to do for the {duration(swing.idle_s)} until that comes.",
        advice="Keep the loss on the GPU and read it each 50 steps or so; copy with non_blocking=True. Then the loop launches ahead of"
        " the GPU, and a late batch does not reach it at once.",
    )


def launch_bound(swing: Swing) -> Explanation | None:
    """S51: the loop launches kernels slower than the GPU runs them."""
    parts = ("forward", "backward", "optimizer")
    places = sum(swing.held_s(part) >= ALSO * swing.idle_s for part in parts)
    if not (swing.thread_cpu >= FULL_CPU and places > 1 and swing.holds(*parts)):
        return None
    return Explanation(
        scenario="S51",
        confidence=0.7,
        because="the training thread launches its work too slowly",
        cause=f"The step is launch-bound: the training thread computes {percent(min(1.0, swing.thread_cpu))} of the time to launch the kernels of"
        f" the model ({duration(swing.held_s(*parts))} per step), and the GPU is through with each before the next one comes.",
        advice="Give it more work per launch: a larger batch, torch.compile or CUDA graphs (mode='reduce-overhead'), fused optimizers;"
        " torch.profiler shows Python loops over tensors.",
    )


def model_on_the_cpu(swing: Swing) -> Explanation | None:
    """S26: a pass through the model computes on the CPU, or waits in between."""
    part = max(("forward", "backward"), key=swing.held_s)
    if not swing.holds(part):
        return None
    return Explanation(
        scenario="S26",
        confidence=0.6,
        because=f"the {part} pass",
        cause=f"Each batch was there, and the GPU waited for the {part} pass, on the CPU: {swing.told(part)}.",
        advice="Find what computes on the CPU in the model (torch.profiler shows the gaps): copies back with .item() or .cpu(),"
        " Python loops over tensors, operators without a GPU kernel.",
    )


RULES: Final[tuple[Rule, ...]] = (
    own_work,
    before_the_model,
    optimizer,
    launch_bound,
    synchronisation,
    model_on_the_cpu,
)


def explain(swing: Swing) -> Explanation | None:
    """Return what the first rule says that fits; None where none does, or too little is known.

    Idle times that nobody saw, but for a mean, may lie anywhere in a step unless the device timed its parts.
    """
    if not (swing.device_s or math.isfinite(swing.period_s)):
        return None
    return next((found for rule in RULES if (found := rule(swing)) is not None), None)
