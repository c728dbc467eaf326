"""Evaluation, told apart from training and judged by its own share of the run."""
