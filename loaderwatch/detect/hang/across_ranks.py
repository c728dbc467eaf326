"""The finding about ranks that wait for each other: where they stand, since when, and for how much longer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from loaderwatch.core.answers import Evidence, Param, Text
from loaderwatch.detect.finding import Finding, observed
from loaderwatch.detect.hang.rank_positions import (
    Position,
    patience,
    place_evidence,
    places_of,
    whereabouts,
    without_line,
)

CODE = "hung"


def finding_of(
    *,
    scenario: str,
    confidence: float,
    odd: Position,
    positions: list[Position],
    age_s: float,
    rule: str,
    params: Mapping[str, Param] | None = None,
    frame: Text | None = None,
    also: Sequence[Text] = (),
    evidence: Sequence[Evidence] = (),
) -> Finding:
    """Return a finding about ``odd``, with the stacks of all these positions; it has lasted for ``age_s``.

    The finding says where the ranks stand, unless its title does (a parameter of ``frame`` or of the rule).
    """
    distinct = list({position.number: position for position in positions}.values())
    places, left = places_of(distinct, odd.number), patience(positions)
    known = dict(params or {})
    in_title = list((known if frame is None else frame.params).values())
    seen: list[Text | None] = [*also]
    if stands := whereabouts(places):
        titled = stands in in_title or (len(places) == 1 and places[0].position.called_at in in_title)
        seen += [None if titled else Text("ranks-stand-there", {"stands": stands}), without_line(distinct)]
    seen.append(left.text if left else None)
    return Finding(
        key=f"{CODE}:collective",
        aspect="collective",
        code=CODE,
        scenario=scenario,
        severity="critical",
        confidence=confidence,
        began_ns=max(
            position.rank.made_ns - int(position.age_s * 1e9)
            for position in positions
            if position.age_s <= age_s
        ),
        rule=rule,
        params=known,
        frame=frame,
        also=[text for text in seen if text is not None],
        evidence=[
            observed("no-progress-for", age_s, "s"),
            *([observed("until-the-collective-is-given-up", max(0.0, left.left_s), "s")] if left else []),
            *(item for item in evidence if item.value is not None),
            *place_evidence(places),
        ],
        rank=odd.number,
        host=odd.rank.host,
        pid=odd.rank.process.pid,
        lost_s=age_s,
        stacks=[place.dump for place in places[:8] if place.dump is not None],
    )


def waits_for(waiting: Sequence[Position], gone: Sequence[Position], one: Position) -> dict[str, Param]:
    """Return the parameters that say which ranks wait for which, and where ``one`` of them waits."""
    return {
        "waits": len(waiting),
        "waiting": sorted(position.number for position in waiting),
        "place": one.called_at,
        "leaves": len(gone),
        "gone": sorted(position.number for position in gone),
    }
