"""A run's recent past in memory: new rows, their sums, and the windows that detectors read."""
