"""What helps when ranks wait for each other for ever: PyTorch's own record of their collectives."""

from __future__ import annotations

from loaderwatch.advise.facts import Facts
from loaderwatch.core.answers import Advice
from loaderwatch.detect.hang.flight_recorder import SWITCHES


def check(facts: Facts) -> list[Advice]:
    """Find a run on NCCL whose ranks write no dump when a collective times out."""
    blind = sorted(
        rank
        for rank, process in facts.processes.items()
        if "nccl" in (process.backend or "") and process.world_size > 1 and not process.flight_dump
    )
    if not blind:
        return []
    return [
        Advice(
            check="flight-recorder",
            severity="info",
            what="NCCL is in use, and no flight recorder's dump is written when a collective times out.",
            why="After a hang it names the collective that one rank did not come to; loaderwatch reads the dumps of all ranks.",
            change=f"{SWITCHES}.",
            ranks=blind,
        )
    ]
