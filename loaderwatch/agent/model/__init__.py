"""Watching model and optimizer: the phases of a step from PyTorch's public hooks, and how long the GPU starved."""
