"""What the early warnings of a loader share: one finding for each loader, of the rank that is nearest to running out.

Looking closely at a loader costs, and most of a thousand ranks are well. So each warning sorts the ranks by a cheap measure,
and only the first of them are looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, TypeVar

from loaderwatch.detect.evidence import RunEvidence
from loaderwatch.detect.measures.pace import Pace

CODE: Final = "headroom"
MOST_ANALYSED: Final = 16
"""Ranks looked at closely, those that are nearest to running out first."""
HALVED: Final = 0.5
"""Part of what there was before that is left, at most, where it is said to shrink."""
SOON_S: Final = 120.0
"""Time until it is used up from which it is worth a remark, in s, where only the recent past tells."""
LATER_S: Final = 1800.0
"""The same where the course over the run tells, and no longer than the run was seen to go there."""

T = TypeVar("T")


def foremost(
    run: RunEvidence,
    near: Iterable[tuple[float, int]],
    look: Callable[[Pace], T | None],
    left: Callable[[T], float],
) -> list[T]:
    """Return what was found of each loader with the least left.

    Args:
        run: the run.
        near: ranks that may have a finding, each behind a number by which the nearest to running out come first.
        look: judges a loader on a rank; None where nothing is wrong.
        left: how much a finding has left, in any unit.
    """
    worst: dict[int, T] = {}
    for _, number in sorted(near)[:MOST_ANALYSED]:
        for pace in run.ranks[number].paces:
            found = look(pace)
            known = worst.get(pace.loader.loader)
            if found is not None and (known is None or left(found) < left(known)):
                worst[pace.loader.loader] = found
    return list(worst.values())
