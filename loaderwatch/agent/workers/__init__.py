"""Watching DataLoader workers from inside: the probe that starts the watch, and the timing of each fetch."""
