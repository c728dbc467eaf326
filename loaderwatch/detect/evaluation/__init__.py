"""Evaluation: distinguished from training, and judged by its own share of the run."""
