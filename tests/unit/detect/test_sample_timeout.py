"""Samples that took longer than ``attach(sample_timeout=)`` allows stay on the page."""

from __future__ import annotations

import pytest

from loaderwatch.core.records import UNKNOWN, Outcome
from loaderwatch.detect.detectors import detect
from loaderwatch.detect.evidence import RunEvidence
from loaderwatch.detect.sample_timeout import MANY_LATE_SAMPLES
from tests.unit.detect.build import RankBuilder, S, loader, run


def healthy(rank: int = 0, world_size: int = 1) -> RankBuilder:
    builder = RankBuilder(
        rank, world_size, loaders=[loader(), loader(loader=1, name="val_loader", role="eval")]
    )
    for _ in range(20):
        builder.step(0.001, 0.05)
    return builder


def late(
    builder: RankBuilder, *indices: int, outcome: Outcome = Outcome.SKIPPED, worker: int = 1, number: int = 0
) -> RankBuilder:
    for index in indices:
        builder.add(
            "sample_timeouts",
            loader=number,
            worker=worker,
            index=index,
            duration_ns=60 * S,
            limit_ns=60 * S,
            outcome=outcome,
        )
    return builder


def test_which_were_left_out() -> None:
    (finding,) = detect(RunEvidence(run(late(healthy(), 17, 33, 17))))
    assert (finding.code, finding.severity, finding.worker) == ("sample-timeout", "info", 1)
    assert finding.title == "train_loader left out 3 samples that took longer than 60 s: 17 (2 times) and 33."
    assert finding.cause == (
        "attach(sample_timeout=60) interrupted them; they were read by worker 1."
        " Their batches were delivered without them, so the model has not seen them."
    )
    assert finding.sample_indices == [17, 33]


def test_many_wake_somebody() -> None:
    builder = late(late(healthy(), *range(MANY_LATE_SAMPLES)), 99, worker=0)
    (finding,) = detect(RunEvidence(run(builder)))
    assert finding.severity == "warning"
    assert finding.title.endswith(": 0, 1, 2, 3 and 7 more.")
    assert "workers 0 and 1" in finding.cause


def test_each_loader_of_each_rank_has_its_own() -> None:
    ranks = [late(healthy(0, 2), 1), late(healthy(1, 2), 2, number=1, worker=-1)]
    first, second = sorted(detect(RunEvidence(run(*ranks))), key=lambda finding: finding.key)
    assert first.title.startswith("Rank 0: train_loader left out 1 sample ")
    assert second.title.startswith("Rank 1: val_loader left out 1 sample ")
    assert "they were read." in second.cause


@pytest.mark.parametrize("outcome", [Outcome.RAISED, Outcome.ENDED])
def test_errors_that_the_script_survived(outcome: Outcome) -> None:
    (finding,) = detect(RunEvidence(run(late(late(healthy(), 5), UNKNOWN, outcome=outcome))))
    assert finding.title == "train_loader gave up 2 samples that took longer than 60 s: 5."
    assert "1 sample was left out, the others raised SampleTimeout." in finding.cause


def test_a_crash_tells_of_the_others_itself() -> None:
    builder = late(late(healthy(), 5), 6, outcome=Outcome.RAISED)
    builder.state = "crashed"
    (finding,) = [one for one in detect(RunEvidence(run(builder))) if one.code == "sample-timeout"]
    assert finding.title == "train_loader left out 1 sample that took longer than 60 s: 5."
