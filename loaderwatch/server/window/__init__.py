"""A run's recent past in memory: rows as they come in, sums of them, and the windows that detectors look at."""
