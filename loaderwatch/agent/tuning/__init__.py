"""Trying a loader's settings: the same samples read with other numbers of workers, without training."""
