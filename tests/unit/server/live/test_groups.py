"""The ranks of a run as groups."""

from __future__ import annotations

from typing import Any

import pytest

from loaderwatch.core.answers import RankRow
from loaderwatch.server.live.groups import MOST_GROUPS, MOST_ROWS, NAMED, groups_of, in_group
from tests.fakes.summaries import rank_row

RANKS = 1024


def ranks(**odd: dict[int, Any]) -> list[RankRow]:
    """Ranks that go on and differ by a hair; ``odd`` changes fields of some."""
    rows = []
    for rank in range(RANKS):
        facts = {"data_wait_ratio": 0.02 + rank % 7 / 1000, "step_s": 0.1 + rank % 5 / 1000}
        facts.update({name: values[rank] for name, values in odd.items() if rank in values})
        rows.append(rank_row(rank, **facts))
    return rows


def told(rows: list[RankRow]) -> list[tuple[int, str, list[int]]]:
    return [(one.count, one.group, one.ranks[:2]) for one in groups_of(rows)]


def test_ranks_that_are_alike_are_one_group() -> None:
    (group,) = groups_of(ranks())
    assert (group.count, group.hosts, group.ranks) == (RANKS, RANKS // 8, list(range(NAMED)))
    assert (group.state, group.phase, group.differs_in, group.higher) == ("live", None, None, None)
    assert group.data_wait_ratio == pytest.approx(0.023)
    assert (group.steps_per_s, group.gpu_utilization_ratio) == (10.0, 0.9)


def test_who_differs_comes_first_and_says_in_what() -> None:
    rows = ranks(
        data_wait_ratio={517: 0.6}, step_s={517: 0.04, 30: 0.2, 31: 0.2}, gpu_utilization_ratio={7: 0.2}
    )
    assert told(rows) == [
        (1, "live//gpu_utilization_ratio/less", [7]),
        (1, "live//data_wait_ratio/more", [517]),  # though its steps are shorter, too
        (2, "live//step_s/more", [30, 31]),
        (1020, "live///", [0, 1]),
    ]


def test_who_stands_or_ended_is_a_group_of_its_own() -> None:
    phase = {**dict.fromkeys(range(RANKS), "backward"), 9: "wait"}
    ages = {n: 12.0 + n for n in range(RANKS)}
    rows = ranks(state={3: "crashed", 4: "lost", 5: "lost"}, phase=phase, phase_age_s=ages)
    assert told(rows) == [
        (1, "crashed///", [3]),
        (1, "live/wait//", [9]),
        (2, "lost///", [4, 5]),
        (1020, "live/backward//", [0, 1]),
    ]
    last = groups_of(rows)[-1]
    assert (last.phase, last.phase_age_s) == ("backward", 12.0 + RANKS - 1)


def test_what_a_dead_rank_did_before_makes_no_group() -> None:
    rows = ranks(state={3: "crashed", 8: "crashed"}, data_wait_ratio={3: 0.9, 8: None})
    first = groups_of(rows)[0]
    assert (first.count, first.group, first.data_wait_ratio) == (2, "crashed///", None)


def test_a_small_run_is_read_row_by_row() -> None:
    assert groups_of([rank_row(n) for n in range(MOST_ROWS)]) == []
    assert len(groups_of([rank_row(n, data_wait_ratio=0.1) for n in range(MOST_ROWS + 1)])) == 1
    assert groups_of([]) == []


def test_of_very_many_groups_the_smallest_and_the_largest_are_told() -> None:
    places = {n: f"phase-{n % 40}" for n in range(400)}
    found = groups_of(ranks(phase=places, phase_age_s=dict.fromkeys(range(400), 60.0)))
    assert len(found) == MOST_GROUPS
    assert (found[-1].group, found[-1].count) == ("live///", RANKS - 400)


def test_the_ranks_of_a_group_are_found_by_its_id() -> None:
    rows = ranks(data_wait_ratio={517: 0.6}, state={3: "lost", 700: "lost"})
    for group in groups_of(rows):
        found = in_group(rows, group.group)
        assert [row.rank for row in found][:NAMED] == group.ranks
        assert len(found) == group.count
    assert in_group(rows, "crashed///") == []
    assert in_group(rows[:MOST_ROWS], "live///") == []
