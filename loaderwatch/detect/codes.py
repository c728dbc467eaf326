"""The codes of the families of findings: alerts, pages and docs/detectors.md name a family by its code."""

from __future__ import annotations

from typing import Final

HUNG: Final = "hung"
CRASHED: Final = "crashed"
CAUGHT_ERROR: Final = "caught-error"
FAST_FORWARD: Final = "fast-forward"
EPOCH_BOUNDARY: Final = "epoch-boundary"
INPUT_BOUND: Final = "input-bound"
SLOW_EVALUATION: Final = "slow-evaluation"
SLOW_STEP: Final = "slow-step"
GPU_SAWTOOTH: Final = "gpu-sawtooth"
HEADROOM: Final = "headroom"
RUNNING_OUT: Final = "running-out"
SAMPLE_TIMEOUT: Final = "sample-timeout"
