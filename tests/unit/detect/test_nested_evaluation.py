"""Evaluation inside a training step: which time counts as the model's."""

from __future__ import annotations

import math

import pytest

from loaderwatch.advise.facts import facts_of
from loaderwatch.advise.whatif import what_if
from loaderwatch.detect.detectors import detect
from loaderwatch.detect.evidence import RunEvidence
from loaderwatch.detect.measures.pace import paces_of
from loaderwatch.detect.slow_step.long_steps import find_pauses
from loaderwatch.server.live.summary import summary_of
from loaderwatch.server.window.totals import RunTotals
from tests.unit.detect.build import RankBuilder, S, loader, run

MODEL_S = 0.002
NO_TOTALS = RunTotals(
    steps={}, eval_batches={}, wait_s={}, step_s={}, epochs={}, boundary_s={}, lost_records=0
)


def two_loaders(**evaluation: object) -> list[object]:
    return [loader(), loader(loader=1, name="val_loader", role="eval", **evaluation)]


def evaluate(rank: RankBuilder, *, batches: int, wait: float, step: float, after: float = 0.0) -> None:
    """A training step that evaluates after the model and then does ``after`` seconds of something else."""
    began_ns = rank.now_ns
    rank.now_ns += int(MODEL_S * S)
    rank.batch[1] = 0
    rank.add("epoch_begins", loader=1, epoch=rank.epoch.setdefault(1, 0), iter_ns=S // 50)
    rank.now_ns += S // 50
    for _ in range(batches):
        rank.step(wait, step, loader=1)
    rank.add("epoch_ends", loader=1, epoch=rank.epoch[1], batches=batches, teardown_ns=S // 100)
    rank.now_ns += S // 100
    rank.epoch[1] += 1
    nested_ns = rank.now_ns - began_ns - int(MODEL_S * S)
    rank.now_ns = began_ns
    rank.step(0.0, MODEL_S + after, nested_ns=nested_ns, ready=2)


def trained(after: float = 0.0, every: int = 50, wait: float = 0.04) -> RankBuilder:
    rank = RankBuilder(loaders=two_loaders(num_workers=0))  # type: ignore[arg-type]
    for number in range(400):
        rank.fetch(number % 2, 0.003, cpu=0.1)
        if number % every == every - 1:
            evaluate(rank, batches=20, wait=wait, step=0.06, after=after)
        else:
            rank.step(0.0, MODEL_S, ready=2)
    return rank


@pytest.mark.parametrize("after", [0.0, 0.5])
def test_evaluation_is_no_part_of_a_step(after: float) -> None:
    window = run(trained(after))
    (pace,) = paces_of(window.ranks[0])
    assert pace.mean_step_s == pytest.approx(MODEL_S, rel=0.02)
    assert pace.iteration_s == pytest.approx(MODEL_S, rel=0.02)
    assert pace.aside_s.max() == pytest.approx(2.03 + after, abs=0.01)
    assert not [finding for finding in detect(RunEvidence(window)) if finding.code == "input-bound"]


@pytest.mark.parametrize("after", [0.0, 0.5])
def test_the_same_number_everywhere(after: float) -> None:
    window = run(trained(after))
    (facts, _) = facts_of(window).loaders
    assert facts.step_s == pytest.approx(MODEL_S, rel=0.02)
    found = what_if(RunEvidence(window), 0, 0)
    assert found is not None
    assert found.step_s == pytest.approx(MODEL_S, rel=0.02)
    row = summary_of(RunEvidence(window), NO_TOTALS, state="live").ranks[0]
    assert row.step_s == pytest.approx(MODEL_S, rel=0.02)


def test_what_comes_with_an_evaluation_is_a_long_step_of_the_loop() -> None:
    rank = trained(0.5).build()
    (pace,) = paces_of(rank)
    pauses = find_pauses(rank, pace)
    assert pauses is not None
    assert pauses.excess_s.max() == pytest.approx(0.5, rel=0.02)
    without = trained(0.0).build()
    assert find_pauses(without, paces_of(without)[0]) is None


def test_a_second_training_loader_inside_a_step_is_part_of_it() -> None:
    rank = RankBuilder(loaders=[loader(), loader(loader=1, name="other")])
    for _ in range(100):
        began_ns = rank.now_ns
        rank.step(0.01, 0.02, loader=1)
        rank.now_ns = began_ns
        rank.step(0.0, 0.005, nested_ns=int(0.03 * S))
    first, _ = paces_of(rank.build())
    assert first.mean_step_s == pytest.approx(0.035)
    assert not first.aside_s.any()


def test_evaluation_beside_two_training_loaders_leaves_their_part() -> None:
    loaders = [loader(), loader(loader=1, name="val", role="eval"), loader(loader=2, name="other")]
    rank = RankBuilder(loaders=loaders)
    for number in range(100):
        began_ns = rank.now_ns
        rank.step(0.01, 0.02, loader=2)
        nested_s = 0.03
        if number % 10 == 9:
            rank.step(0.2, 0.3, loader=1)
            nested_s += 0.5
        rank.now_ns = began_ns
        rank.step(0.0, 0.005, nested_ns=int(nested_s * S))
    first, _ = paces_of(rank.build())
    assert first.mean_step_s == pytest.approx(0.035, rel=0.01)


def test_where_every_step_evaluates_the_own_work_is_the_step() -> None:
    pace = paces_of(trained(0.1, every=1).build())[0]
    assert pace.mean_step_s == pytest.approx(MODEL_S + 0.1, rel=0.02)


def test_a_step_whose_end_nobody_saw_stays_unknown() -> None:
    rank = trained()
    rank.rows["steps"][-1]["step_ns"] = -(2**63)
    rank.rows["steps"][-1]["nested_ns"] = -(2**63)
    pace = paces_of(rank.build())[0]
    assert math.isnan(pace.step_s[-1])
    assert pace.mean_step_s == pytest.approx(MODEL_S, rel=0.02)
