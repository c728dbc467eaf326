"""What two runs are compared in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from loaderwatch.core.answers import Unit

SPEED: Final = "steps_per_s"
SAMPLES: Final = "samples_per_s"


@dataclass(frozen=True, slots=True)
class Measure:
    """A measure: how it is called, and which of two values is the better one.

    ``series`` is the metric of the store that it is taken from, ``highest`` whether of its greatest rank; None where it is
    worked out in another way.
    """

    label: str
    unit: Unit
    better: Literal["more", "less"]
    series: str | None = None
    highest: bool = False

    @property
    def floor(self) -> float:
        """Return the smallest change that is more than noise: runs with the same settings differ by that much.

        The page cache, clocks and neighbours of another day are in no interval of a single run. A share of A's mean, of
        ratios the ratio itself.
        """
        return 0.02 if self.unit == "ratio" else 0.03


MEASURES: Final[dict[str, Measure]] = {
    SPEED: Measure("Steps per second", "per_s", "more", SPEED),
    SAMPLES: Measure("Samples per second, all ranks", "per_s", "more"),
    "data_wait_ratio": Measure("Data wait", "ratio", "less", "data_wait_ratio"),
    "worst_rank_data_wait_ratio": Measure(
        "Data wait of the worst rank at each time", "ratio", "less", "data_wait_ratio", highest=True
    ),
    "gpu_starved_ratio": Measure("GPU starved", "ratio", "less", "gpu_starved_ratio"),
    "gpu_utilization_ratio": Measure("GPU utilization", "ratio", "more", "gpu_utilization_ratio"),
    "iteration_s": Measure("Iteration", "s", "less", "iteration_s"),
    "data_wait_s": Measure("Data wait of a step", "s", "less", "data_wait_s"),
    "step_s": Measure("Step", "s", "less", "step_s"),
    "fetch_s": Measure("Fetch of a batch, in its worker", "s", "less", "fetch_s"),
    "startup_s": Measure("First batch of the run", "s", "less"),
    "epoch_start_s": Measure("First batch of each later epoch", "s", "less"),
    "epoch_gap_s": Measure("Gap between epochs", "s", "less"),
    "teardown_s": Measure("Teardown of the workers", "s", "less"),
}
"""By the name in answers and in ``--fail-if``."""
