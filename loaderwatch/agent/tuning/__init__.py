"""Trying a loader's settings: reading the same samples with other numbers of workers, without training."""
