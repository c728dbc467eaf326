"""Advice beyond findings: the gain of a change, computed from measurements."""
