"""Whether a child or another thread of a process works; None where nobody knows."""

from __future__ import annotations

import pytest

from loaderwatch.detect.measures.children import children_work, threads_work
from tests.unit.detect.build import RankBuilder


@pytest.mark.parametrize(
    ("known", "children", "threads"),
    [
        ({}, None, None),
        ({"threads_switches_per_s": 0.5}, None, False),
        ({"threads_switches_per_s": 5.0}, None, True),
        ({"children_cpu_ratio": 0.0, "children_switches_per_s": 0.0}, False, None),
        ({"children_cpu_ratio": 0.2, "children_switches_per_s": 0.0}, True, None),
        ({"children_cpu_ratio": 0.0, "children_switches_per_s": 3.0}, True, None),
    ],
)
def test_who_works(known: dict[str, float], children: bool | None, threads: bool | None) -> None:
    builder = RankBuilder().open("outside", 10.0)
    builder.helpers = known
    rank = builder.half_a_minute().build()
    assert rank.span is not None
    assert children_work(rank, 100, rank.span.since_ns) is children
    assert threads_work(rank, 100, rank.span.since_ns) is threads
    assert threads_work(rank, 4711, rank.span.since_ns) is None


def test_two_readings_are_too_few() -> None:
    builder = RankBuilder()
    for _ in range(2):
        builder.process(worker=-1, pid=100, cpu=0.0, threads_switches_per_s=9.0)
    assert threads_work(builder.build(), 100, 0) is None
