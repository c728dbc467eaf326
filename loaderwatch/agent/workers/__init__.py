"""Inside a DataLoader worker: the probe that watches it, and the timing of each fetch."""
