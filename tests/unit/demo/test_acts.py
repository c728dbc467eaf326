"""The acts are what the terminal says they are."""

from __future__ import annotations

import pytest
from torch.utils.data import DistributedSampler

from loaderwatch.demo.acts import ACTS, Act, acts_to_play
from loaderwatch.demo.train import BATCH_SIZE, SILENT_INDEX, SLOW_INDEX

IMAGES = 1797


def batches_of(index: int, act: Act) -> list[tuple[float, int]]:
    """Where in each epoch (0 to 1) and at which batch sample ``index`` comes, on the rank that gets it."""
    images = range(IMAGES * act.repeats)
    found = []
    for epoch in range(act.epochs):
        for rank in range(2):
            sampler: DistributedSampler[int] = DistributedSampler(
                images, 2, rank, drop_last=True,  # type: ignore[arg-type]
            )  # fmt: skip
            sampler.set_epoch(epoch)
            order = list(sampler)
            if index in order:
                found.append((order.index(index) / len(order), order.index(index) // BATCH_SIZE))
    return found


def test_six_acts_in_the_order_of_the_story() -> None:
    assert [(act.key, act.scenarios) for act in ACTS] == [
        ("healthy", ()),
        ("few-workers", ("S02",)),
        ("slow-sample", ("S20",)),
        ("epoch-restart", ("S28",)),
        ("sawtooth", ("S26",)),
        ("hang", ("S36",)),
    ]


@pytest.mark.parametrize("fast", [False, True])
def test_the_slow_sample_comes_in_the_middle_of_every_epoch(fast: bool) -> None:
    (act,) = acts_to_play(["slow-sample"], fast=fast)
    places = batches_of(SLOW_INDEX, act)
    assert len(places) == act.epochs
    assert all(
        0.4 < share < 0.95 and batch > 2 * 4 for share, batch in places
    )  # past the first prefetched ones


@pytest.mark.parametrize("fast", [False, True])
def test_the_silent_read_comes_in_the_middle_of_the_first_epoch(fast: bool) -> None:
    (act,) = acts_to_play(["hang"], fast=fast)
    share, batch = batches_of(SILENT_INDEX, act)[0]
    assert 0.3 < share < 0.6
    assert batch > 2 * 4


def test_an_unknown_act_is_named() -> None:
    with pytest.raises(ValueError, match="no act is named 'helthy'; there are healthy, few-workers"):
        acts_to_play(["helthy"])


def test_chosen_acts_keep_the_order_of_the_story() -> None:
    assert [act.key for act in acts_to_play(["hang", "healthy"])] == ["healthy", "hang"]


def test_fast_acts_are_shorter() -> None:
    def images(acts: list[Act]) -> int:
        return sum(act.epochs * act.repeats for act in acts)

    assert images(acts_to_play(fast=True)) < 0.7 * images(acts_to_play())
