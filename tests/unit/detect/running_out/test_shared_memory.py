"""S39: /dev/shm, before it is full."""

from __future__ import annotations

import pytest

from loaderwatch.detect.detectors import detect
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
    finding = of_scenario(detect(window), "S39")
    assert (finding.severity if finding else None) == severity
    if finding is not None:
        values = {item.label: item.value for item in finding.evidence}
        assert values["/dev/shm needed at most"] == ranks * (workers * prefetch + 1) * 10 * MB
        assert "--shm-size" in finding.advice


def test_an_unknown_size_or_an_unseen_batch_says_nothing() -> None:
    assert detect(run(keeps_up(num_workers=8))) == []
    builder = RankBuilder(loaders=[loader(num_workers=8)]).step(0.1, 0.1)
    assert of_scenario(detect(run(builder, host={"shm_total_bytes": 1e6})), "S39") is None
