"""Evaluation that waits for its data: what it costs the run, why, and how grave that is."""

from __future__ import annotations

import pytest

from loaderwatch.core.records import EndedBy
from loaderwatch.detect.detectors import detect
from loaderwatch.detect.evaluation.detector import EVALUATION_FLOOR_S, passes_of
from loaderwatch.detect.evidence import RunEvidence
from loaderwatch.detect.finding import Finding
from tests.unit.detect.build import RankBuilder, S, loader, run, verdict_now

VAL = {"loader": 1, "name": "val_loader", "role": "eval"}


def evaluated(
    *,
    train_s: float = 6.0,
    passes: int = 4,
    wait: float = 0.1,
    first_wait: float | None = None,
    ended_by: EndedBy = EndedBy.EXHAUSTED,
    **how: object,
) -> RankBuilder:
    """Rounds of healthy training; after each an evaluation of 20 batches that take ``wait`` to fetch."""
    rank = RankBuilder(loaders=[loader(), loader(**{**VAL, **how})])
    rank.add("epoch_begins", loader=0, epoch=0, iter_ns=S // 100)
    for number in range(passes):
        for _ in range(int(train_s / 0.05)):
            rank.fetch(0, 0.02, cpu=0.1).step(0.0, 0.05, ready=4)
        rank.batch[1], rank.epoch[1] = 0, number
        rank.add("epoch_begins", loader=1, epoch=number, iter_ns=S // 100)
        rank.now_ns += S // 100
        for batch in range(20):
            took = first_wait if first_wait is not None and not batch else wait
            rank.fetch(0, wait, cpu=0.1, loader=1).step(took, 0.01, loader=1)
        ended_ns = rank.now_ns if ended_by is EndedBy.EXHAUSTED else rank.now_ns + int(train_s * S)
        rank.add("epoch_ends", loader=1, epoch=number, batches=20, ended_by=ended_by, request_ns=ended_ns)
    return rank


def told(rank: RankBuilder) -> Finding:
    (finding,) = detect(RunEvidence(run(rank)))
    assert finding.code == "slow-evaluation"
    return finding


def test_it_is_named_with_its_share_of_the_run() -> None:
    finding = told(evaluated(num_workers=0))
    assert finding.title == (
        "Evaluation waits for data 91 % of its time, 24 % of the run (val_loader):"
        " num_workers=0 reads every batch on the training thread, 100 ms each."
    )
    assert (finding.severity, finding.scenario) == ("info", "S55")
    assert "Change the evaluation loader val_loader: Set num_workers=" in finding.advice
    assert "batches/s" in finding.advice
    assert "steps/s" not in finding.advice
    assert "4 evaluations took 8.8 s so far; the loop waited 8.0 s" in finding.cause
    assert finding.lost_s == pytest.approx(8.0, rel=0.02)
    assert finding.gain_ceiling_ratio is not None
    assert finding.gain_ceiling_ratio == pytest.approx(0.243, abs=0.005)
    assert finding.gain_of == "run"


def test_a_remark_that_costs_little_speaks_for_nobody_and_what_costs_much_does() -> None:
    window = run(evaluated(num_workers=0, train_s=20.0))
    assert [finding.severity for finding in detect(RunEvidence(window))] == ["info"]
    assert verdict_now(window, detect(RunEvidence(window))).title.startswith("Healthy")
    much = run(evaluated(num_workers=0, train_s=2.0))
    (finding,) = detect(RunEvidence(much))
    assert finding.severity == "warning"
    assert verdict_now(much, [finding]).title == finding.title
    assert told(evaluated(num_workers=0, train_s=1.0)).severity == "critical"


def test_one_short_pass_wakes_nobody() -> None:
    assert told(evaluated(num_workers=0, train_s=2.0, passes=1)).severity == "info"


def test_workers_of_the_evaluation_are_too_few() -> None:
    finding = told(evaluated(num_workers=2))
    assert "Raise num_workers 2 →" in finding.advice
    assert "val_loader" in finding.advice


def test_workers_that_each_pass_starts_anew() -> None:
    finding = told(evaluated(num_workers=2, wait=0.001, first_wait=2.0, persistent_workers=False))
    assert "each evaluation restarts 2 workers" in finding.title
    assert "persistent_workers=True" in finding.advice
    assert "num_workers=" not in finding.advice


def test_workers_that_stay_start_once() -> None:
    assert not detect(
        RunEvidence(run(evaluated(num_workers=2, wait=0.001, first_wait=2.0, persistent_workers=True)))
    )


@pytest.mark.parametrize("wait", [0.0005, 0.005])
def test_what_costs_little_of_the_run_is_not_worth_a_word(wait: float) -> None:
    assert not detect(RunEvidence(run(evaluated(num_workers=0, wait=wait))))


def test_passes_that_are_left_early_last_as_long_as_their_batches() -> None:
    """Lightning never asks a validation loader to its end, and nobody sees when it has left it."""
    window = run(evaluated(num_workers=0, ended_by=EndedBy.BREAK))
    rank = RunEvidence(window).ranks[0]
    passes = passes_of(rank, rank.process.loaders[1])
    assert passes is not None
    assert passes.evaluating_s == pytest.approx(8.84, rel=0.02)
    assert passes.share == pytest.approx(0.245, rel=0.05)


def test_the_training_after_an_evaluation_that_was_left_is_no_part_of_its_last_step() -> None:
    rank = evaluated(num_workers=0)
    for row in rank.rows["steps"]:
        if row["loader"] == 1 and row["batch"] == 19:
            row["nested_ns"] = 6 * S
    steps = rank.build().steps
    *others, last = steps["nested_ns"][(steps["loader"] == 1) & (steps["batch"] == 19)].tolist()
    assert others == [0, 0, 0]
    assert last == 6 * S  # no training followed


def test_only_an_evaluation_of_which_something_was_seen() -> None:
    rank = evaluated(num_workers=0)
    gone = RunEvidence(run(rank)).ranks[0]
    assert passes_of(gone, loader(loader=2, role="eval")) is None
    rank.state = "finished"
    assert not detect(RunEvidence(run(rank)))


def test_it_needs_a_floor() -> None:
    assert EVALUATION_FLOOR_S > 0
    assert not detect(RunEvidence(run(evaluated(num_workers=0, train_s=0.5, passes=1, wait=0.04))))


def test_evaluation_that_computes_for_much_of_the_run_is_a_remark() -> None:
    def beams(sentence_s: float, rounds: int = 4) -> list[Finding]:
        rank = RankBuilder(loaders=[loader(), loader(**VAL)])
        rank.add("epoch_begins", loader=0, epoch=0, iter_ns=S // 100)
        for number in range(rounds):
            for _ in range(120):
                rank.fetch(0, 0.02, cpu=0.1).step(0.0, 0.05, ready=4)
            rank.batch[1], rank.epoch[1] = 0, number
            rank.add("epoch_begins", loader=1, epoch=number, iter_ns=S // 100)
            for _ in range(10):
                rank.fetch(0, 0.001, cpu=0.1, loader=1).step(0.001, sentence_s, loader=1)
            rank.add("epoch_ends", loader=1, epoch=number, batches=10, ended_by=EndedBy.EXHAUSTED)
        return detect(RunEvidence(run(rank)))

    (finding,) = beams(0.8)
    assert (finding.code, finding.scenario, finding.severity) == ("slow-evaluation", "S55", "info")
    assert finding.title == "Evaluation takes 57 % of the run (val_loader): 4 evaluations of 8.0 s each."
    assert "Evaluate less often" in finding.advice
    assert beams(0.3) == []  # a third of the run
    assert beams(0.8, rounds=2) == []  # it has not gone on for long
