"""What the profile adds to a finding about lost time: the line, and what that line is known to cost."""

from __future__ import annotations

from typing import Final

import msgspec

from loaderwatch.core.answers import Text
from loaderwatch.core.records import LEAST_SAMPLES, ProfilePart, ThreadState
from loaderwatch.core.threshold import threshold
from loaderwatch.detect.evidence import RankEvidence, RunEvidence
from loaderwatch.detect.finding import Finding
from loaderwatch.detect.known_costs import costs_of

LINE: Final = "sampled-line"
KNOWN_COST: Final = "sampled-known-cost"
SAMPLED: Final = (LINE, KNOWN_COST)
"""The messages of this module."""
OF_ONE_LOADER: Final = (ProfilePart.FETCH, ProfilePart.EVALUATION)
"""Parts whose samples name the loader of a finding. Between epochs, for example, no loader is iterated."""
LEAST_RATIO = threshold(0.1, "ratio", "chosen: the largest line below this explains next to nothing")


def with_lines(run: RunEvidence, finding: Finding, part: ProfilePart) -> Finding:
    """Add the line where a part of the training spends its time, and what is known of the line's call.

    The samples are those of the finding's rank, or of the rank with most samples if it names none.
    """
    ranks = [rank for rank in run.live_ranks if finding.rank in (None, rank.rank)]
    if not ranks:
        return finding
    loader = finding.loader if part in OF_ONE_LOADER else None
    rank = max(ranks, key=lambda rank: rank.profile(part, loader).samples)
    also = lines_of(rank, part, loader)
    return msgspec.structs.replace(finding, also=[*finding.also, *also]) if also else finding


def lines_of(rank: RankEvidence, part: ProfilePart, loader: int | None) -> list[Text]:
    """Return the messages about the line with most samples; none if the samples are too few."""
    profile = rank.profile(part, loader)
    if profile.samples < LEAST_SAMPLES or profile.lines[0].share < LEAST_RATIO:
        return []
    line = profile.lines[0]
    texts = [
        Text(
            LINE,
            {
                "part": part.name.lower(),
                "share_ratio": line.share,
                "at": line.frame.text,
                "calls": line.calls,
                "state": next(iter(line.states)),
                "state_ratio": next(iter(line.states.values())),
                "samples": profile.samples,
            },
        )
    ]
    counted = [(each.frames, ThreadState[each.state.upper()], each.samples) for each in profile.stacks]
    known = next((share for share in costs_of(counted) if share.is_fault), None)
    if known is not None:
        said = {"meaning": known.cost.meaning, "advice": known.cost.advice}
        texts.append(Text(KNOWN_COST, {"part": part.name.lower(), "share_ratio": known.ratio, **said}))
    return texts


def with_newer_lines(old: Finding, new: Finding) -> Finding:
    """Return a finding with the lines of a newer one of the same incident, if that one has any."""
    lines = [text for text in new.also if text.id in SAMPLED]
    if not lines:
        return old
    return msgspec.structs.replace(old, also=[*(text for text in old.also if text.id not in SAMPLED), *lines])
