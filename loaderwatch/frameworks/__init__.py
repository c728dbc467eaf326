"""Callbacks in the shape of each framework.

One line attaches, and the page says stage, epoch and step as the framework counts.
"""
