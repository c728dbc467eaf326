"""The measures in which two runs are compared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from loaderwatch.core.answers import Unit

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
