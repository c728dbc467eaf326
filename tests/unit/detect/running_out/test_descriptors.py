"""S40: file descriptors, before they run out."""

from __future__ import annotations

import pytest

from loaderwatch.detect.detectors import detect
from loaderwatch.detect.evidence import RunEvidence
from tests.unit.detect.build import RankBuilder, S, keeps_up, of_scenario, run


def with_fds(fds: list[float], limit: float, every_s: float = 5.0) -> RankBuilder:
    """Counted now and then, and repeated in the rows in between."""
    builder = keeps_up()
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
    finding = of_scenario(detect(RunEvidence(run(with_fds(fds, limit)))), "S40")
    assert (finding.severity if finding else None) == severity
    if finding is not None:
        assert f"{fds[-1]:.0f} of {limit:.0f}" in finding.title
        assert ".clone()" in finding.advice


def test_a_worker_that_closes_nothing() -> None:
    """Its own files, which no batch holds."""
    builder = keeps_up()
    for number, fds in enumerate([50, 150, 250, 350]):
        for second in range(5):
            builder.now_ns = builder.now_ns + S if number or second else builder.now_ns
            builder.process(worker=1, pid=201, cpu=0.5, fds=fds, fd_limit=400)
            builder.step(0.0, 0.0)
    builder.worker(1, "fetch", 0.1)
    finding = of_scenario(detect(RunEvidence(run(builder))), "S40")
    assert finding is not None
    assert (finding.severity, finding.worker, finding.pid) == ("warning", 1, 201)
    assert finding.title.startswith("Worker 1 will run out of file descriptors in about")
    assert "with open(…)" in finding.advice
