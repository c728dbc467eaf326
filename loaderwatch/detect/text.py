"""Numbers as people read them, and the small words of a verdict."""

from __future__ import annotations

import math
from collections.abc import Sequence


def percent(ratio: float) -> str:
    """0.62 as "62 %"; small shares keep one digit."""
    value = ratio * 100
    return f"{value:.1f} %" if 0 < value < 2 else f"{value:.0f} %"


def duration(seconds: float) -> str:
    """Seconds as "0.4 ms", "118 ms", "2.4 s", "3 min 20 s", "2 h 5 min"."""
    if not math.isfinite(seconds):
        return "an unknown time"
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


def rate(per_second: float) -> str:
    """A rate with two or three digits that matter: "0.42", "9.1", "24", "1,240"."""
    if per_second < 1:
        return f"{per_second:.2f}"
    if per_second < 10:
        return f"{per_second:.1f}"
    return f"{per_second:,.0f}"


def cpu_count(number: float, noun: str = "CPU") -> str:
    """A number of CPUs, which may be a part of one: "1 CPU", "0.40 CPUs", "7.5 CPUs"."""
    if not math.isfinite(number):
        return f"an unknown number of {noun}s"
    whole = round(number)
    return count(whole, noun) if abs(number - whole) < 0.05 and whole else f"{rate(number)} {noun}s"


def size(number: float) -> str:
    """Bytes as "640 B", "12 kB", "3.1 MB", "1.8 GB" (powers of 1000, as volumes and their limits are sold)."""
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if number >= 0.9995 * scale:
            return f"{rate(number / scale)} {unit}"
    return f"{number:.0f} B" if math.isfinite(number) else "an unknown number of bytes"


def count(number: int, noun: str, plural: str | None = None) -> str:
    """ "1 worker", "2 workers", "3 batches"."""
    if number == 1:
        return f"1 {noun}"
    return f"{number} {plural or noun + ('es' if noun.endswith(('ch', 's', 'x')) else 's')}"


def listing(items: Sequence[str], limit: int = 4) -> str:
    """ "a", "a and b", "a, b and c"; the rest as a number."""
    if len(items) > limit:
        items = [*items[: limit - 1], f"{len(items) - limit + 1} more"]
    if len(items) <= 1:
        return "".join(items)
    return f"{', '.join(items[:-1])} and {items[-1]}"


def sample_name(index: int, iterable: bool | None) -> str:
    """ "dataset[18432]"; a sample of a stream has no index, only its place in what its worker read."""
    return f"sample {index} of its stream" if iterable else f"dataset[{index}]"


def ranks_phrase(ranks: Sequence[int], world_size: int) -> str:
    """Who it is about, as the beginning of a sentence: "Training", "Rank 3", "Ranks 0 and 2", "All 8 ranks"."""
    if world_size <= 1:
        return "Training"
    if len(ranks) == world_size:
        return f"All {world_size} ranks" if world_size > 2 else "Both ranks"
    if len(ranks) == 1:
        return f"Rank {ranks[0]}"
    return f"Ranks {listing([str(rank) for rank in ranks])}"


def singular(ranks: Sequence[int], world_size: int) -> bool:
    """Whether ``ranks_phrase`` takes a singular verb."""
    return world_size <= 1 or len(ranks) == 1


def folded_phrase(title: str, warned_s: float | None) -> str:
    """A finding that lies under another: what else was seen of the same cause."""
    if warned_s is None:
        return f"Also seen, same cause: {title}"
    return f"Warned {duration(warned_s)} before: {title}"
