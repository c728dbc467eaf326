"""Numbers of things and ranks as people read them, and as messages take them."""

from __future__ import annotations

from collections.abc import Sequence

from loaderwatch.core.answers import Param
from loaderwatch.texts.formats import listing


def count(number: int, noun: str, plural: str | None = None) -> str:
    """Return a number with its noun: "1 worker", "2 workers", "3 batches"."""
    if number == 1:
        return f"1 {noun}"
    return f"{number} {plural or noun + ('es' if noun.endswith(('ch', 's', 'x')) else 's')}"


def ranks_phrase(ranks: Sequence[int], world_size: int) -> str:
    """Return ranks as the beginning of a sentence: "Training", "Rank 3", "Ranks 0 and 2", "All 8 ranks"."""
    if world_size <= 1:
        return "Training"
    if len(ranks) == world_size:
        return f"All {world_size} ranks" if world_size > 2 else "Both ranks"
    if len(ranks) == 1:
        return f"Rank {ranks[0]}"
    return f"Ranks {listing([str(rank) for rank in ranks])}"


def who(ranks: Sequence[int], world_size: int) -> dict[str, Param]:
    """Return the parameters of the message ``who``: "Training", "Rank 3", "Ranks 0 and 2", "All 8 ranks"."""
    several = "both" if len(ranks) == world_size == 2 else "all" if len(ranks) == world_size else "several"
    kind = "training" if world_size <= 1 else "one" if len(ranks) == 1 else several
    return {"who": kind, "ranks": list(ranks), "world": world_size}
