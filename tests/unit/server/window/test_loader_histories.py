"""What is kept of each loader beyond the recent past."""

from __future__ import annotations

from loaderwatch.detect.loader_history import MOST_COURSE_SLICES
from loaderwatch.server.window.loader_histories import MOST_LOADERS, Courses
from tests.unit.detect.build import RankBuilder, loader, run


def rank_of(loaders: int, minutes: float = 1.0) -> RankBuilder:
    """A rank that reads its loaders alternately."""
    builder = RankBuilder(loaders=[loader(loader=n, name=f"loader_{n}") for n in range(loaders)])
    for _ in range(int(minutes * 60 / (0.05 * loaders))):
        for number in range(loaders):
            builder.fetch(0, 0.03, loader=number).step(0.001, 0.05, loader=number, ready=4)
    return builder


def test_slices_are_made_as_rows_come_in() -> None:
    courses = Courses()
    ranks = run(rank_of(1)).ranks
    courses.follow(ranks)
    first = courses.of(0)
    assert 30 < first[0].t_ns.size <= MOST_COURSE_SLICES
    assert abs(float(first[0].fetch_s[-1]) - 0.03) < 1e-6
    courses.follow(ranks)  # nothing is new
    assert courses.of(0)[0] is first[0]
    assert courses.of(1) == {}


def test_few_loaders_are_kept() -> None:
    courses = Courses()
    courses.follow(run(rank_of(MOST_LOADERS + 3)).ranks)
    assert 0 < len(courses.of(0)) <= MOST_LOADERS
