"""What runs out while training goes on: /dev/shm, file descriptors, memory. Before it does."""

from __future__ import annotations

import numpy as np
import pytest

from loaderwatch.core.facts import SpanInfo
from loaderwatch.detect.detectors import detect
from loaderwatch.detect.finding import Finding
from loaderwatch.detect.measures.statistics import growth
from tests.unit.detect.build import RankBuilder, S, loader, run

GB, MB = 1e9, 1e6


def only(findings: list[Finding], scenario: str) -> Finding | None:
    """The one finding of a scenario."""
    found = [finding for finding in findings if finding.scenario == scenario]
    assert len(found) <= 1
    return found[0] if found else None


def healthy(rank: int = 0, world: int = 1, **fields: object) -> RankBuilder:
    builder = RankBuilder(rank, world, loaders=[loader(**fields)])
    for number in range(100):
        builder.fetch(number % 2, 0.02, bytes=10 * 1000 * 1000)
        builder.step(0.001, 0.05)
    return builder


# ---- /dev/shm


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
    builders = [healthy(rank, ranks, num_workers=workers, prefetch_factor=prefetch) for rank in range(ranks)]
    window = run(*builders, host={"shm_total_bytes": shm, "shm_used_bytes": 1 * MB})
    finding = only(detect(window), "S39")
    assert (finding.severity if finding else None) == severity
    if finding is not None:
        values = {item.label: item.value for item in finding.evidence}
        assert values["/dev/shm needed at most"] == ranks * (workers * prefetch + 1) * 10 * MB
        assert "--shm-size" in finding.advice


def test_an_unknown_size_or_an_unseen_batch_says_nothing() -> None:
    assert detect(run(healthy(num_workers=8))) == []
    builder = RankBuilder(loaders=[loader(num_workers=8)]).step(0.1, 0.1)
    assert only(detect(run(builder, host={"shm_total_bytes": 1e6})), "S39") is None


# ---- file descriptors


def with_fds(fds: list[float], limit: float, every_s: float = 5.0) -> RankBuilder:
    """Counted now and then, and repeated in the rows in between."""
    builder = healthy()
    for number, value in enumerate(fds):
        for second in range(int(every_s)):
            builder.now_ns = builder.now_ns + S if number or second else builder.now_ns
            builder.process(worker=-1, pid=100, cpu=0.5, fds=value, fd_limit=limit)
            builder.step(0.0, 0.0)
    return builder


@pytest.mark.parametrize(
    ("fds", "limit", "severity"),
    [
        ([50, 150, 250, 350], 400, "warning"),
        ([50, 150, 250, 370], 400, "critical"),
        ([50, 150], 256, "warning"),  # close to the limit two counts must do
        ([50, 80, 110], 400, "info"),
        ([50, 150, 250, 350], 100_000, None),  # far away
        ([350, 350, 350, 350], 400, None),
        ([380, 350, 380, 350], 400, None),
        ([300, 301, 301, 302], 400, None),  # in an hour, perhaps
    ],
)
def test_descriptors_on_their_way_to_the_limit(fds: list[float], limit: float, severity: str | None) -> None:
    finding = only(detect(run(with_fds(fds, limit))), "S40")
    assert (finding.severity if finding else None) == severity
    if finding is not None:
        assert f"{fds[-1]:.0f} of {limit:.0f}" in finding.title
        assert ".clone()" in finding.advice


# ---- memory


def with_memory(
    per_s: float, *, seconds: int = 30, workers: int = 2, column: str = "anonymous_bytes", plateau: int = 999
) -> RankBuilder:
    """Workers whose memory grows, once a second."""
    builder = healthy(batches=None)
    for second in range(seconds):
        builder.now_ns += S
        for worker in range(workers):
            value = 3e8 + per_s * min(second, plateau)
            builder.process(worker=worker, pid=200 + worker, cpu=0.5, **{column: value})
    return builder


@pytest.mark.parametrize(
    ("per_s", "available", "severity"),
    [
        (20 * MB, 20 * GB, "warning"),  # 40 MB/s: 500 s
        (20 * MB, 4 * GB, "critical"),
        (20 * MB, 400 * GB, None),  # hours
        (0.5 * MB, 0.5 * GB, None),  # nothing worth a word yet
        (0.0, 1 * GB, None),
    ],
)
def test_workers_that_grow(per_s: float, available: float, severity: str | None) -> None:
    window = run(with_memory(per_s), host={"memory_available_bytes": available})
    finding = only(detect(window), "S24")
    assert (finding.severity if finding else None) == severity
    if finding is not None:
        values = {item.label: item.value for item in finding.evidence}
        eta = values["until it is used up"]
        assert isinstance(eta, float)
        assert eta == pytest.approx(available / (2 * per_s), rel=0.05)


def test_the_containers_limit_counts_when_it_is_tighter() -> None:
    host = {"memory_available_bytes": 100 * GB, "memory_limit_bytes": 8 * GB, "memory_used_bytes": 6 * GB}
    finding = only(detect(run(with_memory(20 * MB), host=host)), "S24")
    assert finding is not None
    assert "the container's memory limit" in finding.title


def test_copy_on_read_shows_in_the_proportional_share_only() -> None:
    finding = only(
        detect(run(with_memory(20 * MB, column="pss_bytes"), host={"memory_available_bytes": 10 * GB})), "S24"
    )
    assert finding is not None
    assert "reference count" in finding.cause


def test_first_touches_level_off_and_are_no_leak() -> None:
    window = run(with_memory(30 * MB, plateau=15), host={"memory_available_bytes": 5 * GB})
    assert only(detect(window), "S24") is None


def test_an_epoch_that_ends_before_is_a_remark() -> None:
    builder = with_memory(20 * MB)
    builder.loaders = [loader(batches=1000, persistent_workers=False)]
    builder.span = SpanInfo(
        rank=0, worker=-1, pid=100, phase="step", since_ns=builder.now_ns, loader=0, epoch=3, batch=900
    )
    finding = only(detect(run(builder, host={"memory_available_bytes": 20 * GB})), "S24")
    assert finding is not None
    assert finding.severity == "info"


def test_the_training_process_itself_may_grow() -> None:
    builder = healthy()
    for second in range(30):
        builder.now_ns += S
        builder.process(worker=-1, pid=100, cpu=0.9, anonymous_bytes=1e9 + second * 40 * MB)
    finding = only(detect(run(builder, host={"memory_available_bytes": 20 * GB})), "S24")
    assert finding is not None
    assert ".item()" in finding.advice


def test_growth_needs_both_halves() -> None:
    t_ns = np.arange(20, dtype=np.int64) * S
    line = np.arange(20, dtype=np.float64)
    steady = growth(t_ns, line, 5.0)
    assert steady is not None
    assert steady.per_s == pytest.approx(1.0)
    assert steady.eta_s(10.0) == pytest.approx(10.0)
    assert growth(t_ns, np.minimum(line, 9.0), 5.0) is None
    assert growth(t_ns, np.maximum(line, 9.0), 5.0) is None
    assert growth(t_ns, -line, 5.0) is None
    assert growth(t_ns, line, 60.0) is None
    assert growth(t_ns, np.full(20, np.nan), 5.0) is None
