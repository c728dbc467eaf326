"""What other settings would give, as the API says it."""

from __future__ import annotations

import pytest

from loaderwatch.server.queries.settings import what_if_of
from tests.unit.advise.test_whatif import starved
from tests.unit.detect.build import RankBuilder, loader, run


def test_the_loaders_of_the_lowest_rank_that_trains() -> None:
    evaluates = RankBuilder(rank=0, world_size=2, loaders=[loader(role="eval")])
    trains = starved(0.05)
    trains.rank, trains.world_size = 1, 2
    for rows in trains.rows.values():
        for row in rows:
            row["rank"] = 1
    (found,) = what_if_of(run(evaluates, trains, cpus=4), None)
    assert (found.rank, found.loader, found.name) == (1, 0, "train_loader")
    assert found.measured_per_s == pytest.approx(1 / 0.06, rel=0.02)
    assert (found.today.num_workers, found.knee, found.cpus) == (2, 6, 2.0)
    (knee,) = [one for one in found.workers if one.num_workers == found.knee]
    assert knee.least_per_s <= knee.steps_per_s <= knee.most_per_s
    assert knee.steps_per_s == pytest.approx(50, rel=0.02)
    assert what_if_of(run(evaluates, trains), 0) == []
    assert what_if_of(run(evaluates, trains), 7) == []
