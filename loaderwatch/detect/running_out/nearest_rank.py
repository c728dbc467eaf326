"""Code shared by the early warnings: one finding per loader, for the rank that runs out first.

A close look at a loader costs time, and most of a thousand ranks are well. So each warning sorts the ranks by
a cheap measure and looks closely at the first ones only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, TypeVar

from loaderwatch.core.answers import Evidence, Param
from loaderwatch.core.threshold import threshold
from loaderwatch.detect.codes import HEADROOM as CODE
from loaderwatch.detect.evidence import RunEvidence
from loaderwatch.detect.finding import Finding
from loaderwatch.detect.measures.pace import Pace

MOST_NEAR_RANKS: Final = threshold(
    16, "ranks", "chosen: a close look costs, and most of a thousand ranks are well"
)
HALVED_RATIO: Final = threshold(
    0.5, "ratio", "chosen: of what there was before; with more left, it is not reported as shrinking"
)
SOON_S: Final = threshold(
    120.0, "s", "the recent past is two minutes, and no forecast reaches further ahead than was seen"
)
LATER_S: Final = threshold(
    1800.0, "s", "chosen: no forecast reaches beyond half an hour, or further than was seen"
)

T = TypeVar("T")


def foremost(
    run: RunEvidence,
    near: Iterable[tuple[float, int]],
    look: Callable[[Pace], T | None],
    left: Callable[[T], float],
) -> list[T]:
    """Return for each loader the finding with the least left.

    Args:
        run: the run.
        near: ranks that may have a finding, each after a number that sorts the nearest to running out first.
        look: judges a loader on a rank; None if nothing is wrong.
        left: how much a finding has left, in any unit.
    """
    worst: dict[int, T] = {}
    for _, number in sorted(near)[:MOST_NEAR_RANKS]:
        for pace in run.ranks[number].paces:
            finding = look(pace)
            known = worst.get(pace.loader.loader)
            if finding is not None and (known is None or left(finding) < left(known)):
                worst[pace.loader.loader] = finding
    return list(worst.values())


def early_warning(
    rule: str,
    scenario: str,
    pace: Pace,
    *,
    began_ns: int,
    params: Mapping[str, Param],
    evidence: Sequence[Evidence],
) -> Finding:
    """Return the remark that a loader will soon make its rank wait."""
    rank = pace.rank
    return Finding(
        key=f"{CODE}:{pace.loader.loader}",
        loader=pace.loader.loader,
        code=CODE,
        scenario=scenario,
        severity="info",
        confidence=0.7,
        began_ns=began_ns,
        rule=rule,
        params={"rank": rank.rank if rank.process.world_size > 1 else None, **params},
        evidence=list(evidence),
        rank=rank.rank,
        host=rank.host,
    )
