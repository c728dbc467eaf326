"""Watched loaders: how one is recognised, wrapped and described, and how its epochs are recorded."""
