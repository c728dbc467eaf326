"""What every finding of ranks that wait for each other has: who stands where, since when, and until the collective is given up."""

from __future__ import annotations

from loaderwatch.core.answers import Evidence
from loaderwatch.detect.finding import Finding, Texts
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
    title: str,
    cause: str,
    advice: str,
    evidence: list[Evidence],
) -> Finding:
    """Return a finding about ``odd``, with the stacks of all these positions; it has lasted for ``age_s``."""
    each = list({position.number: position for position in positions}.values())
    found, left = places_of(each, odd.number), patience(positions)
    if stands := whereabouts(found):
        told = stands in title or (len(found) == 1 and found[0].position.where in title)
        cause += "" if told else f" Where they stand: {stands}."
        cause += without_line(each)
    return Finding(
        key=f"{CODE}:collective",
        code=CODE,
        scenario=scenario,
        severity="critical",
        confidence=confidence,
        began_ns=max(
            position.rank.made_ns - int(position.age_s * 1e9)
            for position in positions
            if position.age_s <= age_s
        ),
        texts=Texts(title=title, cause=f"{cause} {left.sentence}" if left else cause, advice=advice),
        evidence=[
            Evidence(label="no progress for", value=age_s, unit="s"),
            *(
                [Evidence(label="until the collective is given up", value=max(0.0, left.left_s), unit="s")]
                if left
                else []
            ),
            *(item for item in evidence if item.value is not None),
            *place_evidence(found),
        ],
        rank=odd.number,
        host=odd.rank.host,
        pid=odd.rank.process.pid,
        lost_s=age_s,
        stacks=[place.dump for place in found[:8] if place.dump is not None],
    )
