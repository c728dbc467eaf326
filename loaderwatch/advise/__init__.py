"""Advice beyond findings: what a change would give, computed from what was measured."""
