"""What other settings would give, as the API says it."""

from __future__ import annotations

import math

import pytest

from loaderwatch.detect.evidence import RunEvidence
from loaderwatch.server.queries.live_answers import what_if_of
from tests.unit.advise.test_whatif import starved
from tests.unit.detect.build import RankBuilder, loader, run


def test_the_loaders_of_the_lowest_rank_that_trains() -> None:
    evaluates = RankBuilder(rank=0, world_size=2, loaders=[loader(role="eval")])
    trains = starved(0.05)
    trains.rank, trains.world_size = 1, 2
    for rows in trains.rows.values():
        for row in rows:
            row["rank"] = 1
    (found,) = what_if_of(RunEvidence(run(evaluates, trains, cpus=4)), None)
    assert (found.rank, found.loader, found.name) == (1, 0, "train_loader")
    assert found.measured_per_s == pytest.approx(1 / 0.06, rel=0.02)
    assert (found.today.num_workers, found.knee, found.cpus) == (2, 6, 2.0)
    (knee,) = [one for one in found.workers if one.num_workers == found.knee]
    assert knee.least_per_s <= knee.steps_per_s <= knee.most_per_s
    assert knee.steps_per_s == pytest.approx(50, rel=0.02)
    assert what_if_of(RunEvidence(run(evaluates, trains)), 0) == []
    assert what_if_of(RunEvidence(run(evaluates, trains)), 7) == []


@pytest.mark.parametrize(
    ("row", "free"),
    [
        (
            {"memory_available_bytes": 8e9, "shm_total_bytes": 4e9, "shm_used_bytes": 1e9},
            (3_000_000_000, "/dev/shm"),
        ),
        (
            {"memory_available_bytes": 8e9, "shm_total_bytes": 64e9, "shm_used_bytes": 1e9},
            (8_000_000_000, "memory"),
        ),
        (
            {"memory_available_bytes": 8e9, "shm_total_bytes": math.nan, "shm_used_bytes": math.nan},
            (8_000_000_000, "memory"),
        ),
    ],
)
def test_batches_lie_where_there_is_least_room(row: dict[str, float], free: tuple[int, str]) -> None:
    """Also on a host that has no /dev/shm, or does not tell."""
    (found,) = what_if_of(RunEvidence(run(starved(0.05), cpus=4, host_rows=[row] * 5)), None)
    assert (found.free_bytes, found.free_in) == free
