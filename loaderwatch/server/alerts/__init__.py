"""Findings as people are told of them, here and outside the page."""
