"""The search over numbers of workers, on loaders whose speed is a formula."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from loaderwatch.agent.tuning.search import FED_RATIO, OutOfTime, Search, Setting, choose
from loaderwatch.core.facts import LoaderTrial
from loaderwatch.core.message import Text


def trial(setting: Setting, speed: float, wait_ratio: float | None = None) -> LoaderTrial:
    return LoaderTrial(
        num_workers=setting.workers,
        prefetch_factor=setting.prefetch if setting.workers else None,
        batches=100,
        batches_per_s=speed,
        start_s=0.1,
        wait_ratio=wait_ratio,
    )


def search(
    speed: Callable[[int], float],
    *,
    now: int = 0,
    step_s: float = 0.0,
    most: int | None = None,
    waits: Callable[[Setting], float] = lambda _: 0.0,
    room: int = 1000,
    tries: int = 1000,
) -> Search:
    """Search over a loader of ``speed(workers)`` batches/s, with room for workers and time for tries."""

    def attempt(setting: Setting, slept_s: float) -> LoaderTrial:
        if len(made.trials) == tries:
            raise OutOfTime
        if slept_s:
            return trial(setting, 1 / slept_s, waits(setting))
        return trial(setting, speed(setting.workers))

    def refuse(setting: Setting, _: LoaderTrial | None) -> Text | None:
        return Text("no-room-for-files") if setting.workers > room else None

    made = Search(Setting(now), attempt, refuse, step_s=step_s, most=most)
    made.run()
    return made


def advised(made: Search, step_s: float = 0.0) -> Setting | None:
    return choose(made.trials, step_s)


@pytest.mark.parametrize("knee", [1, 2, 3, 5, 6, 11, 24])
def test_it_finds_where_more_workers_bring_no_more(knee: int) -> None:
    made = search(lambda workers: 10.0 * min(max(workers, 1), knee))
    found = advised(made)
    assert found is not None
    assert 0.95 * knee <= max(1, found.workers) <= max(1.13 * knee, 1)
    assert len(made.trials) <= 12


@pytest.mark.parametrize(("step_s", "fewest"), [(0.010, 11), (0.050, 3), (0.2, 1)])
def test_with_steps_it_finds_the_smallest_that_keeps_up(step_s: float, fewest: int) -> None:
    """10 % of the speed are for batches that take longer than others."""
    made = search(lambda workers: 10.0 * max(1, workers), step_s=step_s)
    found = advised(made, step_s)
    assert found is not None
    assert fewest <= found.workers <= fewest + 1
    assert max(one.num_workers for one in made.trials) <= 2 * fewest + 2, "nothing far beyond is tried"


def test_a_deeper_cushion_is_tried_while_it_helps() -> None:
    made = search(
        lambda workers: 30.0 * max(1, workers),
        now=4,
        step_s=0.02,
        waits=lambda setting: 0.3 / setting.prefetch if setting.prefetch < 8 else 0.02,
    )
    assert advised(made, 0.02) == Setting(2, 8)
    assert made.trials[-1].wait_ratio is not None
    assert made.trials[-1].wait_ratio <= FED_RATIO


def test_more_workers_are_tried_where_no_cushion_helps() -> None:
    made = search(
        lambda workers: 30.0 * max(1, workers),
        step_s=0.02,
        waits=lambda setting: 0.3 if setting.workers < 4 else 0.0,
    )
    assert advised(made, 0.02) == Setting(4, 2)


def test_a_setting_without_room_is_not_tried() -> None:
    made = search(lambda workers: 10.0 * max(1, workers), room=5)
    assert max(one.num_workers for one in made.trials) <= 5
    assert made.stopped == Text("no-room-for-files")
    assert advised(made) == Setting(4, 2)


def test_when_the_time_is_up_what_is_known_counts() -> None:
    made = search(lambda workers: 10.0 * max(1, workers), tries=4)
    assert made.stopped == Text("time-was-up")
    assert advised(made) == Setting(4, 2)


def test_a_stream_that_is_not_split_gets_no_second_worker() -> None:
    made = search(lambda workers: 10.0 * max(1, workers), most=1)
    assert {one.num_workers for one in made.trials} == {0, 1}


def test_too_many_workers_are_seen() -> None:
    """Two do what twelve do, and twelve is what the script has."""
    made = search(lambda workers: 10.0 * min(max(workers, 1), 2), now=12)
    assert advised(made) == Setting(2, 2)


def test_of_nothing_nothing_is_chosen() -> None:
    assert choose([]) is None
