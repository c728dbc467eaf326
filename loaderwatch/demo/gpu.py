"""The demo's simulated GPUs: the stand-in for NVIDIA's library, and the marks that tell it when a rank computes."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator


class BusyMarker:
    """Marks when this rank computes, so that the simulated GPU's utilization is the rank's true duty."""

    def __init__(self, local_rank: int) -> None:
        self.path = os.environ.get("LOADERWATCH_DEMO_BUSY")

    @contextlib.contextmanager
    def busy(self) -> Iterator[None]:
        """The GPU is busy inside the block."""
        yield
