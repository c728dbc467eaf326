"""Callbacks in the shape of each framework: one line attaches, and the page says stage, epoch and step as the framework counts."""
