"""S39: /dev/shm, before it is full."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from loaderwatch.detect.detectors import detect
from loaderwatch.detect.evidence import RunEvidence
from loaderwatch.detect.finding import Finding
from loaderwatch.detect.window import RunWindow
from tests.unit.detect.build import RankBuilder, keeps_up, loader, of_scenario, run

MB = 1e6


@pytest.mark.parametrize(
    ("workers", "prefetch", "ranks", "shm", "severity"),
    [
        (4, 2, 1, 64 * MB, "warning"),  # 9 batches of 10 MB
        (4, 2, 1, 100 * MB, "info"),
        (4, 2, 1, 200 * MB, None),
        (2, 2, 1, 64 * MB, None),
        (2, 2, 2, 64 * MB, "warning"),  # each rank needs as much
        (2, 8, 1, 64 * MB, "warning"),
        (0, 2, 1, 1 * MB, None),  # nothing is handed over
    ],
)
def test_shared_memory_is_reckoned_before_it_is_full(
    workers: int, prefetch: int, ranks: int, shm: float, severity: str | None
) -> None:
    builders = [keeps_up(rank, ranks, num_workers=workers, prefetch_factor=prefetch) for rank in range(ranks)]
    window = run(*builders, host={"shm_total_bytes": shm, "shm_used_bytes": 1 * MB})
    finding = of_scenario(detect(RunEvidence(window)), "S39")
    assert (finding.severity if finding else None) == severity
    if finding is not None:
        values = {item.label: item.value for item in finding.evidence}
        assert values["/dev/shm needed at most"] == ranks * (workers * prefetch + 1) * 10 * MB
        assert "--shm-size" in finding.advice


def test_an_unknown_size_or_an_unseen_batch_says_nothing() -> None:
    assert detect(RunEvidence(run(keeps_up(num_workers=8)))) == []
    builder = RankBuilder(loaders=[loader(num_workers=8)]).step(0.1, 0.1)
    assert of_scenario(detect(RunEvidence(run(builder, host={"shm_total_bytes": 1e6}))), "S39") is None


def filling(*used: float) -> RunWindow:
    """A healthy run beside a /dev/shm of 10 GB, whose use was read each second."""
    rows = [{"shm_total_bytes": 10e9, "shm_used_bytes": value} for value in used]
    builder = keeps_up()
    for _ in used:
        builder.step(0.0, 1.0)
    return run(builder, host_rows=rows)


@pytest.mark.parametrize(
    ("per_s", "severity"), [(4 * MB, None), (5.6 * MB, "info"), (10 * MB, "warning"), (100 * MB, "critical")]
)
def test_what_fills_it_is_told_with_the_time_that_is_left(per_s: float, severity: str | None) -> None:
    finding = of_scenario(detect(RunEvidence(filling(*(second * per_s for second in range(40))))), "S39")
    assert (finding.severity if finding else None) == severity
    if finding is not None:
        assert "/dev/shm is full in about" in finding.title
        (left_s,) = [item.value for item in finding.evidence if item.label == "until it is full"]
        assert left_s == pytest.approx((10e9 - 39 * per_s) / per_s)


@pytest.mark.parametrize(
    "used",
    [
        [min(second, 5) * 10 * MB for second in range(30)],  # the loaders fill their queues
        [second * MB for second in range(30)],  # no more than they read ahead
        [(second % 3) * 900 * MB for second in range(30)],  # comes and goes
    ],
    ids=["queues", "read-ahead", "to-and-fro"],
)
def test_what_does_not_fill_it(used: list[float]) -> None:
    assert of_scenario(detect(RunEvidence(filling(*used))), "S39") is None


def filling_in_steps(step_s: int, used: Callable[[int, int], float]) -> Finding | None:
    """The finding for a 16 GB /dev/shm after 118 s of long steps, with ``used(step, second)`` each second."""
    steps = 118 // step_s
    builder = RankBuilder(loaders=[loader(batches=None)])
    for _ in range(steps):
        builder.fetch(0, 0.02, bytes=100_000_000)
        builder.step(0.0, step_s)
    rows = [
        {"shm_total_bytes": 16e9, "shm_used_bytes": used(second // step_s, second)}
        for second in range(steps * step_s)
    ]
    return of_scenario(detect(RunEvidence(run(builder, host_rows=rows))), "S39")


@pytest.mark.parametrize("step_s", [2, 7, 8, 12, 19, 24, 29])
def test_it_is_told_as_well_where_steps_are_long(step_s: int) -> None:
    found = filling_in_steps(step_s, lambda step, second: step * step_s * 60 * MB + second % 2 * 100 * MB)
    assert found is not None
    assert found.severity == "critical"


@pytest.mark.parametrize("step_s", [8, 12, 24])
def test_what_comes_and_goes_in_long_steps_does_not_fill_it(step_s: int) -> None:
    """Each step is first read a little later, when it holds more. By chance the minimum rises linearly."""
    steps = 118 // step_s

    def used(step: int, second: int) -> float:
        return max((step + 1) / (2 * steps), second % step_s / step_s) * 4e9

    assert filling_in_steps(step_s, used) is None
