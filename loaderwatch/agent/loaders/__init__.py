"""Watched loaders: how a loader is recognised, wrapped and described, and how its epochs are recorded."""
