"""All detectors, in the order in which they decide: what hangs is not slow, and one cause gives one finding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from loaderwatch.detect import (
    crashed,
    descriptors,
    epochs,
    fast_forward,
    h2d,
    hung,
    memory,
    pauses,
    sawtooth,
    shards,
    shared_memory,
    weak_gpu,
)
from loaderwatch.detect.finding import Finding
from loaderwatch.detect.limits import Limits
from loaderwatch.detect.tracker import SEVERITIES
from loaderwatch.detect.window import RunWindow

Detector = Callable[[RunWindow, Limits], list[Finding]]

DETECTORS: Final[tuple[Detector, ...]] = (
    hung.detect,
    crashed.detect,
    fast_forward.detect,
    epochs.detect,
    shards.detect,
    sawtooth.detect,
    weak_gpu.detect,
    h2d.detect,
    pauses.detect,
    shared_memory.detect,
    descriptors.detect,
    memory.detect,
)
"""Every family, the decisive first."""

DEFAULT_LIMITS: Final = Limits()


def detect(window: RunWindow, limits: Limits = DEFAULT_LIMITS) -> list[Finding]:
    """The findings of a window, the worst first.

    A hang ends the question: while it lasts, a long wait of the same rank is the hang and not a slow loader.
    """
    found: list[Finding] = []
    for detector in DETECTORS:
        found += [finding for finding in detector(window, limits) if not _explained(finding, found)]
    return sorted(found, key=lambda f: (-SEVERITIES[f.severity], -(f.lost_s or 0.0)))


def _explained(finding: Finding, found: list[Finding]) -> bool:
    if finding.code == "hung":
        return False
    if any(other.key == finding.key for other in found):
        return True  # an earlier family knows the cause
    if finding.code == "input-bound":
        loader = finding.key.split(":")[1]
        if any(other.key == f"{fast_forward.CODE}:{loader}" for other in found):
            return True
    hangs = any(other.code == "hung" and other.severity == "critical" for other in found)
    return hangs and finding.key.endswith(":spikes")
