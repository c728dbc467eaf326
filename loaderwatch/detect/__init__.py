"""Detectors: pure functions from a window of a run to findings. No I/O, no clock of their own."""
