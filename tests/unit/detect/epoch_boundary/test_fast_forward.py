"""A resume that reads and throws away: progress with an ETA, not a slow loader and not a hang."""

from __future__ import annotations

from typing import Literal

import msgspec
import pytest

from loaderwatch.core.facts import Call
from loaderwatch.core.records import EndedBy
from loaderwatch.detect.detectors import detect
from loaderwatch.detect.evidence import RunEvidence
from loaderwatch.detect.finding import Finding
from loaderwatch.detect.incidents.explained_findings import explains
from tests.unit.detect.build import RankBuilder, loader, run, verdict_now


def resumed(
    skipped: int, wait: float, trained: int = 0, *, optimizer: bool = False, body: float = 0.00001
) -> RankBuilder:
    builder = RankBuilder(loaders=[loader(batches=10_000)])
    builder.has_optimizer = optimizer
    for number in range(skipped):
        builder.fetch(number % 2, 2 * wait, cpu=0.1)
        builder.step(wait, body, optimizer_steps=0 if optimizer else -(2**63))
    for number in range(trained):
        builder.fetch(number % 2, 2 * wait, cpu=0.1)
        builder.step(0.001, 0.05, optimizer_steps=1 if optimizer else -(2**63))
    return builder


HICCUPS = (6, 9, 51, 58, 430, 598, 599)


@pytest.mark.parametrize("trained", [0, 40])
def test_a_hiccup_is_no_training_step(trained: int) -> None:
    builder = RankBuilder()
    for number in range(600):
        builder.fetch(number % 2, 0.04, cpu=0.1)
        builder.step(0.02, 0.03 if number in HICCUPS else 0.00001)
    for number in range(trained):
        builder.fetch(number % 2, 0.04, cpu=0.1).step(0.001, 0.05)
    finding = remark(detect(RunEvidence(run(builder))))
    assert (finding.ended_ns is not None) == bool(trained)


def remark(findings: list[Finding]) -> Finding:
    (finding,) = findings
    assert (finding.scenario, finding.severity) == ("S34", "info")
    return finding


@pytest.mark.parametrize("optimizer", [False, True])
@pytest.mark.parametrize(("skipped", "wait"), [(400, 0.02), (3000, 0.004), (60, 0.5)])
def test_skipping_is_a_remark_and_no_slow_loader(skipped: int, wait: float, optimizer: bool) -> None:
    window = run(resumed(skipped, wait, optimizer=optimizer))
    finding = remark(detect(RunEvidence(window)))
    assert verdict_now(window, [finding]).title == finding.title
    assert f"{skipped:,} batches" in finding.title
    values = {item.label: item.value for item in finding.evidence}
    eta = values["at most until the end of the epoch"]
    assert isinstance(eta, float)
    assert eta == pytest.approx((10_000 - skipped) * wait, rel=0.05)


def test_the_first_training_steps_are_not_blamed_for_it() -> None:
    finding = remark(detect(RunEvidence(run(resumed(800, 0.02, 40)))))
    assert finding.ended_ns is not None
    assert "fast-forwarded" in finding.title


@pytest.mark.parametrize(("trained", "body"), [(0, 0.00008), (40, 0.0002), (40, 0.0008)])
def test_a_body_that_a_busy_machine_slows_down_still_does_nothing(trained: int, body: float) -> None:
    finding = remark(
        detect(RunEvidence(run(resumed(800, 0.02, trained, body=body), host={"psi_cpu_some_ratio": 0.9})))
    )
    assert (finding.ended_ns is not None) == bool(trained)
    assert "it read and dropped 800 batches" in finding.title


def test_long_after_it_nothing_is_left() -> None:
    assert detect(RunEvidence(run(resumed(400, 0.01, 700)))) == []


@pytest.mark.parametrize("step", [0.001, 0.02])
def test_training_on_a_slow_loader_is_no_skipping(step: float) -> None:
    builder = RankBuilder()
    for number in range(300):
        builder.fetch(number % 2, 0.2, cpu=0.1)
        builder.step(0.1, step)
    (finding,) = detect(RunEvidence(run(builder)))
    assert finding.scenario == "S02"


def test_an_optimizer_that_steps_is_training_however_short() -> None:
    builder = RankBuilder()
    builder.has_optimizer = True
    for number in range(300):
        builder.fetch(number % 2, 0.2, cpu=0.1)
        builder.step(0.1, 0.00005, optimizer_steps=1)
    assert [finding.scenario for finding in detect(RunEvidence(run(builder)))] == ["S02"]


def test_a_loader_that_feeds_another_one_is_used() -> None:
    """The loop reads a generator that takes two batches per item and reports none of its own time."""
    rank = RankBuilder(loaders=[loader(), loader(loader=1, name="made", num_workers=None)])
    for _ in range(200):
        rank.step(0.03, 0.00001).step(0.03, 0.00001)
        rank.step(0.061, 0.02, loader=1)
    assert "S34" not in {finding.scenario for finding in detect(RunEvidence(run(rank)))}


@pytest.mark.parametrize("optimizer", [False, True])
@pytest.mark.parametrize("together", [4, 16, 50])
def test_a_loop_that_makes_a_step_of_many_batches_skips_none(together: int, optimizer: bool) -> None:
    """As with ``batch_size=None`` and a list that is stacked; its waits are reported as elsewhere."""
    builder = RankBuilder(loaders=[loader(num_workers=1, batches=100_000)])
    builder.has_optimizer = optimizer
    for number in range(1000):
        last = number % together == together - 1
        builder.fetch(0, 0.05, cpu=0.1)
        builder.step(0.05, 0.02 if last else 0.00001, optimizer_steps=int(last) if optimizer else -(2**63))
    assert "S34" not in {finding.scenario for finding in detect(RunEvidence(run(builder)))}


def test_accumulated_gradients_are_training() -> None:
    builder = RankBuilder(loaders=[loader(batches=10_000)])
    builder.has_optimizer = builder.has_model = True
    for number in range(200):
        builder.fetch(number % 2, 0.06, cpu=0.1)
        builder.step(0.03, 0.03, optimizer_steps=int(number == 150), forward_ns=10_000_000)
    assert "S34" not in {finding.scenario for finding in detect(RunEvidence(run(builder)))}


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("wait", [0.25, 1.0, 5.0])
@pytest.mark.parametrize("skipped", range(4, 13))
def test_ten_batches_are_enough_and_nobody_is_woken_before(skipped: int, wait: float, workers: int) -> None:
    builder = RankBuilder(loaders=[loader(batches=10_000, num_workers=workers)])
    for number in range(skipped):
        builder.fetch(number % workers if workers else -1, wait, cpu=0.1)
        builder.step(wait, 0.00003)
    findings = detect(RunEvidence(run(builder.open("wait", wait / 2, batch=skipped))))
    assert [one.scenario for one in findings if one.severity != "info"] == []
    if skipped >= 10:
        finding = remark(findings)
        assert f"it read and dropped {skipped} batches" in finding.title
        assert "skip_first_batches" in finding.advice


def test_the_first_batches_of_a_slow_loader_are_judged_as_soon_as_one_trained() -> None:
    builder = RankBuilder(loaders=[loader(num_workers=0)])
    for _ in range(9):
        builder.fetch(-1, 1.0, cpu=0.9).step(1.0, 0.02)
    assert [one.scenario for one in detect(RunEvidence(run(builder.open("wait", 0.5))))] == ["S01"]


@pytest.mark.parametrize(
    ("body", "watched"), [(0.004, True), (0.0001, True), (0.0001, False), (0.05, True)], ids=str
)
def test_work_with_each_batch_is_no_skipping(body: float, watched: bool) -> None:
    """Evaluation without gradients, statistics of the data, gradient accumulation without a watched model."""
    builder = RankBuilder(loaders=[loader(batches=10_000)])
    builder.has_optimizer = watched
    for number in range(60):
        builder.fetch(number % 2, 0.6, cpu=0.1).step(0.3, body, optimizer_steps=0 if watched else -(2**63))
    assert "S34" not in {one.scenario for one in detect(RunEvidence(run(builder)))}


@pytest.mark.parametrize("watched", [False, True])
def test_a_progress_bar_of_a_loop_that_skips_is_no_work(watched: bool) -> None:
    builder = RankBuilder(loaders=[loader(batches=10_000)])
    builder.has_optimizer = watched
    builder.calls = [Call(file="train.py", function="main", line=7, loop=(7, 12), body="skips")]
    for number in range(60):
        builder.fetch(number % 2, 0.6, cpu=0.1)
        builder.step(0.3, 0.0005, optimizer_steps=0 if watched else -(2**63))
    remark(detect(RunEvidence(run(builder, host={"psi_cpu_some_ratio": 0.95}))))


@pytest.mark.parametrize("where", ["gpu", "threads"])
def test_a_loop_that_hands_its_batches_on_is_not_accused(where: str) -> None:
    builder = RankBuilder(loaders=[loader(batches=10_000)])
    for number in range(60):
        builder.fetch(number % 2, 0.6, cpu=0.1).step(0.3, 0.00003)
        if where == "gpu":
            builder.add("gpus", gpu=0, utilization_ratio=0.5)
        else:
            builder.process(worker=-1, pid=100, cpu=1.2, main_cpu_ratio=0.1)
    assert "S34" not in {one.scenario for one in detect(RunEvidence(run(builder)))}


@pytest.mark.parametrize("body", ["nothing", "skips", None])
def test_a_loop_that_does_nothing_fills_a_cache(body: Literal["nothing", "skips"] | None) -> None:
    builder = resumed(60, 0.3).open("wait", 0.1)
    builder.calls = [Call(file="train.py", function="main", line=7, loop=(7, 8), body=body)]
    found = [one.scenario for one in detect(RunEvidence(run(builder)))]
    assert found == ([] if body == "nothing" else ["S34"])


def test_a_pass_that_ends_without_training_was_no_resume() -> None:
    builder = resumed(60, 0.3).epoch_left(EndedBy.EXHAUSTED)
    assert "S34" not in {one.scenario for one in detect(RunEvidence(run(builder)))}
    builder.epoch[0], builder.batch[0] = 1, 0
    for number in range(40):
        builder.fetch(number % 2, 0.06, cpu=0.1).step(0.001, 0.05)
    assert "S34" not in {one.scenario for one in detect(RunEvidence(run(builder)))}


def test_whatever_looks_slow_meanwhile_lies_under_it() -> None:
    (finding,) = [one for one in detect(RunEvidence(run(resumed(60, 0.3)))) if one.code == "fast-forward"]
    for code in ("input-bound", "epoch-boundary", "slow-step", "gpu-sawtooth", "slow-evaluation"):
        effect = msgspec.structs.replace(
            finding, key=f"{code}:0:steady", code=code, severity="critical", folded=[]
        )
        assert explains(finding, effect)
        if code != "input-bound":  # of that loader until it has left the recent past
            assert not explains(msgspec.structs.replace(finding, ended_ns=1), effect)
