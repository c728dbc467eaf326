"""Workers of an iterable dataset that have nothing left, and what looks like it."""

from __future__ import annotations

import pytest

from loaderwatch.detect.detectors import detect
from loaderwatch.detect.evidence import RunEvidence
from tests.unit.detect.build import RankBuilder, S, loader, run


def streamed(
    counts: list[int], *, fetch_s: float = 0.1, step_s: float = 0.01, iterable: bool = True
) -> RankBuilder:
    """Workers that read so many batches each, round robin, until only some have any left."""
    workers = len(counts)
    builder = RankBuilder(loaders=[loader(num_workers=workers, iterable_dataset=iterable, batches=None)])
    builder.add("epoch_begins", loader=0, epoch=0, iter_ns=S // 50, first_wait_ns=S // 10)
    left = list(counts)
    last = [builder.now_ns] * workers
    while any(left):
        active = [worker for worker in range(workers) if left[worker]]
        for worker in active:
            left[worker] -= 1
            each_s = max(step_s, fetch_s / len(active))
            builder.step(each_s - step_s, step_s, awaited_worker=worker)
            builder.fetch(worker, fetch_s)
            last[worker] = builder.now_ns
    builder.open("wait", 0.01)
    for worker in range(workers):
        age = (builder.now_ns - last[worker]) / 1e9
        builder.worker(worker, "idle" if age > 1 else "fetch", age)
    return builder


@pytest.mark.parametrize(
    ("counts", "reading"),
    [([24, 24, 24, 312], 1), ([200, 0, 0, 0], 1), ([10, 300], 1), ([40, 40, 200, 200], 2)],
)
def test_workers_without_shards_are_named(counts: list[int], reading: int) -> None:
    (finding,) = detect(RunEvidence(run(streamed(counts))))
    assert (finding.scenario, finding.code) == ("S23", "input-bound")
    assert f"Only {reading} of {len(counts)} workers" in finding.title
    values = {item.label: item.value for item in finding.evidence}
    assert values["workers that read"] == reading
    assert finding.worker == (counts.index(max(counts)) if reading == 1 else None)
    assert finding.gain_ceiling_ratio is not None
    assert 0.3 < finding.gain_ceiling_ratio < 1


def test_equal_shards_are_simply_too_few_workers() -> None:
    assert [
        finding.scenario for finding in detect(RunEvidence(run(streamed([80, 80, 80, 80], fetch_s=0.4))))
    ] == ["S02"]


def test_a_map_style_dataset_cannot_have_it() -> None:
    found = detect(RunEvidence(run(streamed([24, 24, 24, 312], iterable=False))))
    assert "S23" not in {finding.scenario for finding in found}


def test_without_a_wait_it_does_not_matter() -> None:
    assert detect(RunEvidence(run(streamed([24, 24, 24, 312], fetch_s=0.02, step_s=0.05)))) == []


def test_workers_that_are_ahead_are_idle_and_well() -> None:
    """Slow steps: everybody has filled its part of the queue."""
    builder = RankBuilder(loaders=[loader(num_workers=2, iterable_dataset=True, batches=None)])
    for number in range(60):
        builder.fetch(number % 2, 0.05)
        builder.step(0.001, 1.0)
    builder.open("step", 0.5)
    for worker in range(2):
        builder.worker(worker, "idle", 1.5)
    assert detect(RunEvidence(run(builder))) == []


def test_one_that_waits_behind_a_long_sample_has_more_to_give() -> None:
    """Its batches lie ready, and the loop takes none of them until the one before has come."""
    builder = streamed([60, 60])
    builder.fetch(1, 0.1)
    builder.span, builder.workers = None, []
    builder.now_ns += 40 * S
    builder.open("wait", 40.0, awaited_worker=0)
    builder.worker(0, "fetch", 40.0)
    builder.worker(1, "idle", 39.9)
    assert "S23" not in {finding.scenario for finding in detect(RunEvidence(run(builder)))}
