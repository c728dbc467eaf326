"""What is said before the GPU starves for the first time."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from loaderwatch.detect.detectors import detect
from loaderwatch.detect.evidence import RunEvidence
from loaderwatch.detect.finding import Finding
from tests.unit.detect.build import RankBuilder, S, loader, run
from tests.unit.detect.played import noise, played, read

STEP_S = 0.1


def found(
    slack_s: Callable[[float], float],
    ready: Callable[[float], int] = lambda part: 0,
    *,
    starved_s: float = 0.0,
    steps: int = 300,
    events: bool = True,
    workers: int = 2,
) -> list[Finding]:
    """What is found of headroom; both functions are of the part of the run that is over, 0 to 1."""
    rank = RankBuilder(loaders=[loader(num_workers=workers)])
    for step in range(steps):
        part = step / steps
        if events:
            rank.add(
                "gpu_waits", loader=0, request_ns=rank.now_ns, starved_ns=int(starved_s * S),
                gpu_step_ns=int(STEP_S * S), slack_ns=int(slack_s(part) * S),
            )  # fmt: skip
        rank.step(starved_s, STEP_S, ready=ready(part))
    return [finding for finding in detect(RunEvidence(run(rank))) if finding.code == "headroom"]


def test_headroom_that_shrinks_is_told_with_the_time_that_is_left() -> None:
    (finding,) = found(lambda part: 0.6 * (1 - part) ** 2)
    assert finding.severity == "info"
    assert "The GPU will starve in about" in finding.title
    assert re.search(r" fell from .* to .* in .*\.$", finding.title)
    evidence = {item.label: float(item.value or 0) for item in finding.evidence}
    assert evidence["GPU work and ready batches left"] < evidence["left before"]


def test_batches_that_lie_ready_are_headroom() -> None:
    assert found(lambda part: 0.05, lambda part: 4) == []
    (finding,) = found(lambda part: 0.05, lambda part: round(8 * (1 - part)))
    assert "its queued work and ready batches fell" in finding.title


def test_a_loader_that_only_just_keeps_up_is_told() -> None:
    (finding,) = found(lambda part: 0.04)
    assert finding.title == (
        "The loader barely keeps up: when a batch is requested, the GPU has 40 ms of work left and no batch"
        " is ready."
    )


def test_what_shrinks_for_an_hour_is_told_with_the_time_that_is_left() -> None:
    """It takes an hour: too slow for the recent past, in which it is nearly the same."""
    factor = noise(0.05)
    run = played(
        read(
            3900, lambda at_s: 0.09, lambda at_s: 0.1, workers=1, prefetch=1,
            slack_s=lambda at_s: max(0.02, 0.4 - 0.4 * at_s / 4000) * factor(),
        ),
        every_s=20.0,
    )  # fmt: skip
    at_s, finding = run.first("headroom")
    assert at_s < 3900
    assert "The GPU will starve in about" in finding.title
    assert "min" in finding.title.rsplit(" in ", 1)[1]


@pytest.mark.parametrize(
    "findings",
    [
        found(lambda part: 2.0),  # far ahead
        found(lambda part: 3.0 - 2.0 * part),  # it falls, and is plenty
        found(lambda part: 0.04, starved_s=0.05),  # it starves: told as that
        found(lambda part: 0.04, events=False),  # nobody knows
        found(lambda part: 0.0, workers=0),  # nothing can lie ready
        found(lambda part: 0.04, steps=20),
    ],
    ids=["ahead", "plenty", "starves", "no-device", "no-workers", "short"],
)
def test_what_is_no_news(findings: list[Finding]) -> None:
    assert findings == []
