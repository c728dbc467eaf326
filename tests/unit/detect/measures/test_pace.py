"""The pace of a loader: what is measured of the settings that it has now."""

from __future__ import annotations

import numpy as np
import pytest

from loaderwatch.detect.detectors import detect
from loaderwatch.detect.measures.pace import pace_of, paces, paces_kept, workers_changed_ns
from tests.unit.detect.build import RankBuilder, loader, run


def trained(*epochs: tuple[int, float]) -> RankBuilder:
    """Epochs of so many workers and so much wait per step."""
    builder = RankBuilder(loaders=[loader(num_workers=epochs[-1][0])])
    for number, (workers, wait) in enumerate(epochs):
        builder.add("epoch_begins", loader=0, epoch=number, workers=workers)
        builder.epoch[0], builder.batch[0] = number, 0
        for batch in range(60):
            builder.fetch(batch % workers, 0.1, cpu=0.02)
            builder.step(wait, 0.02)
    return builder


def test_what_other_workers_did_is_no_pace_of_these() -> None:
    rank = run(trained((1, 0.08), (4, 0.005))).ranks[0]
    pace = pace_of(rank, rank.process.loaders[0])
    assert set(pace.epoch.tolist()) == {1}
    assert pace.share == pytest.approx(0.2, abs=0.02)
    assert set(np.unique(pace.fetches.worker).tolist()) == {0, 1, 2, 3}
    assert pace.fetches.began_ns.min() >= workers_changed_ns(rank, pace.loader)


@pytest.mark.parametrize("workers", [(2, 2, 2), (4, 2, 2)])
def test_epochs_with_as_many_workers_belong_together(workers: tuple[int, ...]) -> None:
    rank = run(trained(*((count, 0.05) for count in workers))).ranks[0]
    epochs = {number for number, count in enumerate(workers) if count == 2}
    assert set(pace_of(rank, rank.process.loaders[0]).epoch.tolist()) == epochs


def test_a_stall_that_more_workers_ended_is_not_told_of_them() -> None:
    assert [one.scenario for one in detect(run(trained((1, 0.08))))] == ["S02"]
    assert detect(run(trained((1, 0.08), (8, 0.0002)))) == []


def test_paces_are_made_once_while_a_window_is_judged_and_let_go_then() -> None:
    window = run(trained((2, 0.01)))
    rank = window.ranks[0]
    assert paces(rank) is not paces(rank)
    with paces_kept(window):
        assert paces(rank) is paces(rank)
        assert paces(rank)[0].rank is rank
    assert paces(rank) is not paces(rank)
    detect(window)
    assert not rank.shared
