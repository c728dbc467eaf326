"""A span that may stand still is no evidence of a speed."""

from __future__ import annotations

import msgspec
import pytest

from loaderwatch.detect.detectors import detect
from loaderwatch.detect.evidence import RunEvidence
from loaderwatch.detect.finding import Finding
from loaderwatch.detect.incidents.tracker import Tracker
from loaderwatch.detect.measures.standstill import before_standstill, goes_on
from loaderwatch.detect.shared_thresholds import Limits
from loaderwatch.detect.window import RunWindow
from tests.unit.detect.build import RankBuilder, S, loader, run

LIMITS = Limits(hang_floor_s=6.0)


def evaluates(open_s: float | None) -> RankBuilder:
    """Four epochs with evaluations. The last one waits for its batch, or received it after ``open_s``."""
    rank = RankBuilder(loaders=[loader(), loader(loader=1, name="val_loader", role="eval")])
    for epoch in range(4):
        for number, batches in ((0, 40), (1, 20)):
            rank.epoch[number], rank.batch[number] = epoch, 0
            rank.add(
                "epoch_begins", loader=number, epoch=epoch, iter_ns=int(0.01 * S), first_wait_ns=S // 100
            )
            for _ in range(batches - 4 * (epoch == 3 and number == 1)):
                rank.fetch(0, 0.01, loader=number).step(0.002, 0.05, loader=number)
            if (epoch, number) != (3, 1):
                rank.add("epoch_ends", loader=number, epoch=epoch, batches=batches, teardown_ns=int(0.01 * S))
    if open_s is not None:
        rank.open("wait", open_s, loader=1, epoch=3, batch=16, awaited_worker=1)
        rank.worker(1, "fetch", open_s, loader=1, sample_age=open_s, sample_index=77, wchan="futex_wait")
    return rank


@pytest.mark.parametrize("open_s", [4.0, 20.0, 60.0])
def test_an_evaluation_that_stands_still_is_not_slow(open_s: float) -> None:
    found = detect(RunEvidence(run(evaluates(open_s)), LIMITS))
    assert [one.code for one in found] == (["hung"] if open_s > 6.0 else [])


def shortage(*, seconds: float, open_s: float = 0.0, rank: int = 0, world: int = 1) -> RankBuilder:
    built = RankBuilder(rank, world)
    for number in range(int(seconds / 0.11)):
        built.fetch(number % 2, 0.16).step(0.08, 0.03, awaited_worker=number % 2)
    if open_s:
        built.open("wait", open_s, awaited_worker=1).worker(1, "fetch", open_s, sample_age=open_s)
    return built


def test_what_was_found_before_stays_as_it_was() -> None:
    tracker = Tracker("run")

    def look(window: RunWindow) -> list[Finding]:
        findings = detect(RunEvidence(window, LIMITS))
        tracker.update(findings, window.now_ns)
        return findings

    for seconds in (20.0, 21.0, 22.0, 23.0):
        look(run(shortage(seconds=seconds)))
    (before,) = tracker.incidents
    assert before.finding.code == "input-bound"
    for open_s in (3.5, 4.5, 5.5):
        (past,) = look(run(shortage(seconds=23.0, open_s=open_s)))
        assert past.is_past
    (after,) = tracker.incidents
    assert after == msgspec.structs.replace(before, updated_ns=after.updated_ns)
    look(run(shortage(seconds=23.0, open_s=8.0)))
    hung = [each for each in tracker.incidents if each.key != before.key]
    assert [each.finding.code for each in hung] == ["hung"]
    assert next(each.finding for each in tracker.incidents if each.key == before.key) == before.finding


def test_a_standstill_opens_no_incident_about_a_speed() -> None:
    tracker = Tracker("run")
    for open_s in (3.5, 4.0, 4.5, 5.0, 5.5):
        window = run(shortage(seconds=20.0, open_s=open_s))
        assert [one.is_past for one in detect(RunEvidence(window, LIMITS))] == [True]
        assert not tracker.update(detect(RunEvidence(window, LIMITS)), window.now_ns).opened


def test_ranks_that_wait_for_it_are_cut_with_it() -> None:
    still, waiting, elsewhere = (shortage(seconds=10.0, rank=number, world=3) for number in range(3))
    still.open("wait", 8.0)
    waiting.step(0.0, 0.5).open("backward", 7.5)
    elsewhere.step(0.01, 7.98)
    window = run(still, waiting, elsewhere)
    cut = before_standstill(window)
    assert [cut.ranks[number].span is None for number in range(3)] == [True, True, True]
    assert cut.ranks[2] is window.ranks[2]
    assert (window.ranks[0].made_ns - cut.ranks[0].made_ns) / S == pytest.approx(8.0)
    assert goes_on(window.ranks[0], still.now_ns - 8 * S) == pytest.approx(8.0)
    calm = run(shortage(seconds=5.0))
    assert before_standstill(calm) is calm


def test_what_comes_after_a_span_began_is_left_out() -> None:
    rank = shortage(seconds=5.0, open_s=10.0)
    rank.process(worker=1, pid=201, cpu=0.0)
    cut = before_standstill(run(rank)).ranks[0]
    assert not cut.table("processes")["pid"].size
    assert cut.table("steps")["batch"].size == int(5.0 / 0.11)
