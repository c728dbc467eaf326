"""What the profile adds to findings: the line of most samples, and the known cost of its call."""

from __future__ import annotations

from dataclasses import replace

import pytest

from loaderwatch.core.records import ProfilePart, ThreadState
from loaderwatch.detect.detectors import FAMILIES, PARTS, detect
from loaderwatch.detect.evidence import RunEvidence
from loaderwatch.detect.finding import Finding, text_of
from loaderwatch.detect.rule import Family
from loaderwatch.detect.window import RankWindow
from loaderwatch.texts import say
from tests.fakes.profiles import GET, OPEN, OWN, PICTURE, TEXTS, text
from tests.unit.detect.build import RankBuilder, run, table
from tests.unit.detect.workers import starved

DIRECTORY = 7005
"""A stack of zipfile, which reads the directory of an archive."""
STACKS = TEXTS | {DIRECTORY: text((OPEN[0], 1429, "_RealGetContents"), OPEN, GET)}


def sampled(rank: RankWindow, counts: dict[int, int], **fields: int) -> RankWindow:
    """A rank with so many samples of each stack, in fetches of its loader."""
    rows = [
        {"rank": rank.rank, "loader": 0, "worker": 0, "t_ns": rank.made_ns, "part": ProfilePart.FETCH}
        | {"state": ThreadState.RUNNING, "stack": stack, "samples": samples, "readers": samples}
        | fields
        for stack, samples in counts.items()
    ]
    return replace(rank, tables={**rank.tables, "profile": table("profile", rows)}, profile_texts=STACKS)


def waiting(counts: dict[int, int], number: int = 0, world: int = 1, **fields: int) -> RankWindow:
    """A rank that waits for data."""
    rank = starved(RankBuilder(number, world), workers=2, fetch=0.2, step=0.02, cpu=0.1, seed=number)
    return sampled(rank.build(), counts, **fields)


def found(*ranks: RankWindow) -> Finding:
    """The only alert."""
    window = run(*[RankBuilder(rank.rank, len(ranks)).step(0.1, 0.1) for rank in ranks])
    window = replace(window, ranks={rank.rank: rank for rank in ranks})
    (finding,) = [each for each in detect(RunEvidence(window)) if each.severity != "info"]
    return finding


def cause(finding: Finding, language: str = "en") -> str:
    return say(text_of(finding, "cause"), language)


def test_the_line_of_most_samples_is_named() -> None:
    finding = found(waiting({OWN: 60, PICTURE: 40}))
    assert cause(finding).endswith(
        " 60 % of the fetch time is at faces.py:60 in size: 100 % running (100 samples)."
    )
    assert "读取时间的 60% 在 faces.py:60" in cause(finding, "zh")
    assert "ZipFile" not in finding.advice


def test_each_rule_names_the_lines_of_the_part_that_loses_time() -> None:
    waits = {rule.id for rule in family_of("input-bound").rules}
    assert {PARTS[rule] for rule in waits - {"data-made-in-loop"}} == {ProfilePart.FETCH}
    assert PARTS["data-made-in-loop"] == PARTS["answers-awaited-in-steps"] == ProfilePart.STEP
    assert PARTS["evaluation-waits"] == ProfilePart.EVALUATION
    assert PARTS["workers-restarted-each-epoch"] == ProfilePart.BOUNDARY
    assert PARTS["own-work-in-steps"] is PARTS["gpu-waits-for-loop"] is None


def family_of(code: str) -> Family:
    return next(family for family in FAMILIES if family.code == code)


def test_a_known_cost_brings_its_advice() -> None:
    finding = found(waiting({DIRECTORY: 92, OWN: 8}, state=ThreadState.DISK))
    assert (
        "92 % of the fetch time is at faces.py:48 in __getitem__, in zipfile.__init__: 100 % waiting for"
        in cause(finding)
    )
    assert cause(finding).endswith("It takes 92 % of the fetch time.")
    assert "Open the archive once per worker" in finding.advice


def test_a_small_share_of_a_known_cost_is_not_blamed() -> None:
    finding = found(waiting({DIRECTORY: 5, OWN: 95}))
    assert "ZipFile" not in cause(finding) + finding.advice


@pytest.mark.parametrize(
    ("counts", "fields"),
    [
        ({OWN: 19}, {}),
        ({0: 500}, {}),
        ({OWN: 100}, {"part": ProfilePart.STEP}),
        ({OWN: 100}, {"loader": 7}),
    ],
)
def test_too_few_samples_of_this_loaders_fetches_name_no_line(
    counts: dict[int, int], fields: dict[str, int]
) -> None:
    assert "samples)" not in cause(found(waiting(counts, **fields)))


def test_a_finding_of_all_ranks_takes_the_rank_with_most_samples() -> None:
    ranks = [waiting({OWN: 30}, 0, 2), waiting({PICTURE: 90}, 1, 2)]
    assert "faces.py:48 in __getitem__, in PIL.Image.open" in cause(found(*ranks))
