from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from loaderwatch.server.store.sequence_set import SequenceSet


@given(st.lists(st.tuples(st.integers(1, 60), st.integers(0, 5))))
def test_holds_what_a_set_holds(added: list[tuple[int, int]]) -> None:
    seen, truth = SequenceSet(), set[int]()
    for low, more in added:
        seen.add(low, low + more)
        truth.update(range(low, low + more + 1))
    assert {n for n in range(70) if n in seen} == truth
    assert seen.highest == max(truth, default=0)
    intervals = seen.intervals()
    assert all(a[1] + 1 < b[0] for a, b in pairwise(intervals))
    assert {n for low, high in intervals for n in range(low, high + 1)} == truth


def test_a_stream_in_order_is_one_interval() -> None:
    seen = SequenceSet()
    for seq in range(1, 10_001):
        seen.add(seq)
    assert seen.intervals() == [(1, 10_000)]
