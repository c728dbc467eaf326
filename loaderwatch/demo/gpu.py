"""The demo's simulated GPUs: the stand-in for NVIDIA's library, and the marks that tell it when a rank computes."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Simulation:
    """What the training's environment needs for simulated GPUs, and what to tell the person."""

    environ: Mapping[str, str]
    notice: str


def prepare(folder: Path, ranks: int) -> Simulation:
    """Build the stand-in."""
    return Simulation({}, "GPU charts are off")


def registered_pids(folder: Path) -> list[int]:
    """The ranks that have marked themselves."""
    return []


class BusyMarker:
    """Marks when this rank computes, so that the simulated GPU's utilization is the rank's true duty."""

    def __init__(self, local_rank: int) -> None:
        self.path = os.environ.get("LOADERWATCH_DEMO_BUSY")

    @contextlib.contextmanager
    def busy(self) -> Iterator[None]:
        """The GPU is busy inside the block."""
        yield
