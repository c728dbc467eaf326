"""Numbers, sizes and names as text for people, for the sentences of findings and verdicts."""

from __future__ import annotations

import math
from collections.abc import Sequence

from loaderwatch.core.answers import Param


def percent(ratio: float) -> str:
    """Return a ratio as percent: 0.62 as "62 %"; below 2 % with one digit after the point."""
    value = ratio * 100
    return f"{value:.1f} %" if 0 < value < 2 else f"{value:.0f} %"


def duration(seconds: float) -> str:
    """Return seconds as "12 µs", "0.4 ms", "118 ms", "2.4 s", "3 min 20 s", "2 h 5 min"; NaN as "an unknown time"."""
    if not math.isfinite(seconds):
        return "an unknown time"
    if 0 < seconds < 0.000095:
        return f"{max(1, round(seconds * 1e6))} µs"
    if seconds < 0.0095:
        return f"{seconds * 1000:.1f} ms"
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    if seconds < 119.5:
        return f"{seconds:.0f} s"
    whole = round(seconds)
    if whole < 7200:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def measured(seconds: float) -> str:
    """Return over what time a share was measured, as an aside: "(measured over 15 s)". From 12 s on it is to five seconds."""
    return f"(measured over {5 * round(seconds / 5) if seconds > 12 else max(1, round(seconds))} s)"


def rate(per_second: float) -> str:
    """Return a rate per second with the digits that matter: "0.42", "9.1", "24", "1,240"."""
    if per_second < 1:
        return f"{per_second:.2f}"
    if per_second < 10:
        return f"{per_second:.1f}"
    return f"{per_second:,.0f}"


def size(number: float) -> str:
    """Return bytes as "640 B", "12 kB", "3.1 MB", "1.8 GB": powers of 1000, as volumes are sold."""
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if number >= 0.9995 * scale:
            return f"{rate(number / scale)} {unit}"
    return f"{number:.0f} B" if math.isfinite(number) else "an unknown number of bytes"


def count(number: int, noun: str, plural: str | None = None) -> str:
    """Return a number with its noun: "1 worker", "2 workers", "3 batches"."""
    if number == 1:
        return f"1 {noun}"
    return f"{number} {plural or noun + ('es' if noun.endswith(('ch', 's', 'x')) else 's')}"


def listing(items: Sequence[str], limit: int = 4) -> str:
    """Return items as "a", "a and b" or "a, b and c"; of more than ``limit`` items the rest is a number."""
    if len(items) > limit:
        items = [*items[: limit - 1], f"{len(items) - limit + 1} more"]
    if len(items) <= 1:
        return "".join(items)
    return f"{', '.join(items[:-1])} and {items[-1]}"


def sample_name(index: int, iterable: bool | None) -> str:
    """Return a sample's name: "dataset[18432]", or in a stream its place in what its worker read."""
    return f"sample {index} of its stream" if iterable else f"dataset[{index}]"


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


def singular(ranks: Sequence[int], world_size: int) -> bool:
    """Whether ``ranks_phrase`` takes a singular verb."""
    return world_size <= 1 or len(ranks) == 1


def folded_phrase(title: str, warned_s: float | None) -> str:
    """Return the line about a finding that is folded under another one of the same cause.

    ``warned_s`` is how many seconds it was an alert before the other one came; None if it was none.
    """
    if warned_s is None:
        return f"Also seen, same cause: {title}"
    return f"Warned {duration(warned_s)} before: {title}"
