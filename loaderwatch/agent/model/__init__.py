"""Watching model and optimizer: phases of a step, from PyTorch's hooks, and how long the GPU starved."""
