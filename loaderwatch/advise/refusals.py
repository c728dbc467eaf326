"""Calls that ``DataLoader`` itself refuses, said before the run in words that tell what to do."""

from __future__ import annotations

from typing import Final

from loaderwatch.advise.facts import Facts
from loaderwatch.core.answers import Advice

_EXPLAINED: Final[tuple[tuple[str, str, str], ...]] = (
    (
        "persistent_workers option needs num_workers > 0",
        "With num_workers=0 there are no workers that could persist: batches are loaded on the training thread.",
        "num_workers of at least 1 to load beside training, or leave persistent_workers out.",
    ),
    (
        "prefetch_factor option could only be specified in multiprocessing",
        "Only workers read ahead; with num_workers=0 there are none.",
        "num_workers of at least 1 to load beside training, or leave prefetch_factor out.",
    ),
    (
        "multiprocessing_context can only be used",
        "The start method is for workers; with num_workers=0 there are none.",
        "num_workers of at least 1, or leave multiprocessing_context out.",
    ),
)
"""A part of PyTorch's message, why it refuses, and the change."""


def check(facts: Facts) -> list[Advice]:
    """Return each rank's refusal as advice; as a rule they are all the same one."""
    found = []
    for rank, report in (facts.reports or {}).items():
        if report.refusal is None:
            continue
        why, change = next(
            ((why, change) for part, why, change in _EXPLAINED if part in report.refusal),
            ("PyTorch does not accept these arguments.", "Change what the message names."),
        )
        found.append(
            Advice(
                check="refused",
                severity="critical",
                what=f"DataLoader raises: {report.refusal}",
                why=why,
                change=change,
                where=report.refused_line,
                ranks=[rank],
            )
        )
    return found
