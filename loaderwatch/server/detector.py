"""The detectors with the limits that were asked for."""

from __future__ import annotations

from functools import partial

from loaderwatch.detect.detectors import detect
from loaderwatch.detect.limits import Limits
from loaderwatch.server.live.run import Detector


def detector(hang_after_s: float | None) -> Detector:
    """All detectors; ``hang_after_s`` is the least age at which a phase may count as hung, None for the default."""
    return partial(detect, limits=limits_of(hang_after_s))


def limits_of(hang_after_s: float | None) -> Limits:
    """The detectors' limits with that age."""
    return Limits() if hang_after_s is None else Limits(hang_floor_s=hang_after_s)
