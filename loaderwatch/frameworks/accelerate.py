"""A tracker for accelerate, which shows the epoch and the step that the script logs.

    from loaderwatch.frameworks.accelerate import LoaderwatchTracker

    accelerator = Accelerator(log_with=[LoaderwatchTracker()])
    accelerator.init_trackers("my project")
    ...
    accelerator.log({"loss": loss, "epoch": epoch}, step=global_step)

accelerate has no loop of its own, so epoch and step come from the script's logs. Tested with version 1.15.
"""

from __future__ import annotations

from time import monotonic
from typing import Any, Final

import accelerate
from accelerate.tracking import GeneralTracker

from loaderwatch.frameworks.callback_base import Teller

EVERY_S: Final = 10.0
"""Seconds between two reports in one epoch; the page extrapolates in between."""


class LoaderwatchTracker(GeneralTracker):
    """A tracker that attaches to every loader of each rank and shows the logged epoch and step."""

    name = "loaderwatch"
    requires_logging_directory = False
    main_process_only = False

    def __init__(self) -> None:
        super().__init__()
        self._teller = Teller("Accelerate", accelerate.__version__)
        self._told: tuple[Any, float] | None = None  # epoch and time of the last report
        self._teller.attach()

    @property
    def tracker(self) -> LoaderwatchTracker:
        """Return this tracker itself, as it wraps no other object."""
        return self

    def store_init_configuration(self, values: dict[str, Any]) -> None:
        """Ignore the configuration of the script."""

    def log(self, values: dict[str, Any], step: int | None = None, **kwargs: Any) -> None:
        """Report epoch and step if the epoch is new, or the last report was ``EVERY_S`` ago."""
        epoch = values.get("epoch") if isinstance(values, dict) else None
        now = monotonic()
        if self._told is None or self._told[0] != epoch or now - self._told[1] >= EVERY_S:
            self._told = (epoch, now)
            self._teller.tell(
                "train",
                lambda: {
                    "epoch": None if epoch is None else int(epoch),
                    "global_step": None if step is None else int(step),
                },
            )

    def finish(self) -> None:
        """Report that the training is over."""
        self._teller.tell(None)
