"""Errors of a loader that a script catches: by hand-built windows; a real one is scenario s37_caught."""

from __future__ import annotations

import pytest

from loaderwatch.core.records import EndedBy
from loaderwatch.detect.detectors import detect
from loaderwatch.detect.evidence import RunEvidence
from loaderwatch.detect.finding import Finding
from tests.unit.detect.build import RankBuilder, S, run

EVERY_S = 2


def failing(
    times: int, how: EndedBy, *, steps: int = 0, one_pass: bool = False, last: EndedBy | None = None
) -> RankBuilder:
    """A run of 100 steps, whose loader then fails again and again, after so many steps each time."""
    rank = RankBuilder()
    for _ in range(100):
        rank.step(0.001, 0.05, ready=4)
    for number in range(times):
        for _ in range(steps):
            rank.step(0.001, 0.05, ready=4)
        rank.now_ns += EVERY_S * S
        ended_by = last if last is not None and number == times - 1 else how
        epoch = 0 if one_pass else number
        rank.add("epoch_ends", loader=0, epoch=epoch, batches=steps, teardown_ns=0, ended_by=ended_by)
    return rank


def caught(rank: RankBuilder) -> list[Finding]:
    return [finding for finding in detect(RunEvidence(run(rank))) if finding.code == "caught-error"]


@pytest.mark.parametrize(
    ("how", "scenario", "says"),
    [
        (EndedBy.WORKER_DIED, "S37", "a worker of train_loader has died 5 times in a row"),
        (EndedBy.LEFT_AFTER_DEATH, "S37", "a worker of train_loader has died 5 times in a row"),
        (EndedBy.ERROR, "S22", "train_loader has raised an error 5 times in a row"),
    ],
)
@pytest.mark.parametrize("one_pass", [False, True])
def test_a_script_that_tries_again_for_ever_is_told(
    how: EndedBy, scenario: str, says: str, one_pass: bool
) -> None:
    rank = failing(5, how, one_pass=one_pass)
    (finding,) = caught(rank)
    assert (finding.scenario, finding.severity) == (scenario, "critical")
    assert (
        finding.title == f"Training makes no progress: {says}; the script catches the error and tries again."
    )
    assert finding.lost_s == pytest.approx((5 - 1) * EVERY_S, abs=1.0)


def test_passes_that_each_give_some_steps_are_a_warning() -> None:
    (finding,) = caught(failing(5, EndedBy.LEFT_AFTER_DEATH, steps=20))
    assert (finding.scenario, finding.severity, finding.lost_s) == ("S37", "warning", None)
    assert "skips data after errors" in finding.title


@pytest.mark.parametrize(
    "rank",
    [
        pytest.param(lambda: failing(2, EndedBy.WORKER_DIED), id="an accident that was borne"),
        pytest.param(lambda: failing(9, EndedBy.BREAK), id="left early on purpose"),
        pytest.param(
            lambda: failing(6, EndedBy.ERROR, steps=20, one_pass=True), id="batches that are left out"
        ),
        pytest.param(lambda: failing(6, EndedBy.ERROR, last=EndedBy.EXHAUSTED), id="a pass came to its end"),
    ],
)
def test_what_is_no_retry_is_silent(rank) -> None:  # type: ignore[no-untyped-def]
    assert not caught(rank())


def test_a_minute_later_it_is_over() -> None:
    rank = failing(5, EndedBy.WORKER_DIED)
    rank.now_ns += 61 * S
    assert not caught(rank)
