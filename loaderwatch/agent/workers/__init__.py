"""Watching DataLoader workers from inside: the probe that starts it, and the timing of each fetch."""
