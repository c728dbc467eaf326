"""Ranks as parameters of messages."""

from __future__ import annotations

from collections.abc import Sequence

from loaderwatch.core.answers import Param


def who(ranks: Sequence[int], world_size: int) -> dict[str, Param]:
    """Return the parameters of the message ``who``: "Training", "Rank 3", "Ranks 0 and 2", "All 8 ranks"."""
    several = "both" if len(ranks) == world_size == 2 else "all" if len(ranks) == world_size else "several"
    kind = "training" if world_size <= 1 else "one" if len(ranks) == 1 else several
    return {"who": kind, "ranks": list(ranks), "world": world_size}
