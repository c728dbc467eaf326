"""The fetches of a loader's workers."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from loaderwatch.detect.measures.fetches import fetches_of
from tests.unit.detect.build import RankBuilder, loader, run


@given(
    workers=st.integers(1, 5),
    batches=st.lists(st.integers(1, 12), min_size=1, max_size=3),
    late=st.lists(st.integers(0, 3), min_size=5, max_size=5),
)
def test_fetches_stand_in_the_order_of_their_batches(
    workers: int, batches: list[int], late: list[int]
) -> None:
    """However far each worker is behind another, and over several lives of the workers."""
    made = [
        (life, number, worker)
        for life, rounds in enumerate(batches)
        for number in range(rounds)
        for worker in range(workers)
    ]
    came = sorted(made, key=lambda one: (one[0], one[1] + late[one[2]]))
    builder = RankBuilder(loaders=[loader(num_workers=workers)])
    for life, number, worker in came:
        builder.fetch(worker, 0.001, ordinal=number, slow_index=made.index((life, number, worker)))
    window = run(builder).ranks[0]
    found = fetches_of(window, window.process.loaders[0])
    assert found.slow_index[found.in_batch_order].tolist() == list(range(len(made)))
