"""The pace of a loader: what is measured of the settings that it has now."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

from loaderwatch.detect.detectors import detect
from loaderwatch.detect.evidence import RunEvidence
from loaderwatch.detect.measures.pace import pace_of, paces_of, recent, workers_changed_ns
from loaderwatch.detect.shared_thresholds import Limits
from tests.unit.detect.build import RankBuilder, S, loader, run, verdict_now
from tests.unit.detect.workers import watch


def trained(*epochs: tuple[int, float]) -> RankBuilder:
    """Epochs of so many workers and so much wait per step."""
    builder = RankBuilder(loaders=[loader(num_workers=epochs[-1][0])])
    for number, (workers, wait) in enumerate(epochs):
        builder.add("epoch_begins", loader=0, epoch=number, workers=workers)
        builder.epoch[0], builder.batch[0] = number, 0
        for batch in range(60):
            builder.fetch(batch % workers, 0.1, cpu=0.02)
            builder.step(wait, 0.02)
    return builder


def test_what_other_workers_did_is_no_pace_of_these() -> None:
    rank = run(trained((1, 0.08), (4, 0.005))).ranks[0]
    pace = pace_of(rank, rank.process.loaders[0])
    assert set(pace.epoch.tolist()) == {1}
    assert pace.share == pytest.approx(0.2, abs=0.02)
    assert set(np.unique(pace.fetches.worker).tolist()) == {0, 1, 2, 3}
    assert pace.fetches.began_ns.min() >= workers_changed_ns(rank, pace.loader)


@pytest.mark.parametrize("workers", [(2, 2, 2), (4, 2, 2)])
def test_epochs_with_as_many_workers_belong_together(workers: tuple[int, ...]) -> None:
    rank = run(trained(*((count, 0.05) for count in workers))).ranks[0]
    epochs = {number for number, count in enumerate(workers) if count == 2}
    assert set(pace_of(rank, rank.process.loaders[0]).epoch.tolist()) == epochs


def test_a_stall_that_more_workers_ended_is_not_told_of_them() -> None:
    assert [one.scenario for one in detect(RunEvidence(run(trained((1, 0.08)))))] == ["S02"]
    assert detect(RunEvidence(run(trained((1, 0.08), (8, 0.0002))))) == []


def test_evidence_makes_paces_once_and_is_gone_when_it_is_let_go() -> None:
    evidence = RunEvidence(run(trained((2, 0.01))))
    rank = evidence.ranks[0]
    assert rank.paces is rank.paces
    assert rank.paces[0].rank is rank.rows
    detect(evidence)
    evidence.let_go()
    assert evidence.ranks[0] is not rank, "the evidence of a rank is let go, and measured again for who asks"
    gone = weakref.ref(rank.paces[0])
    gc.disable()
    try:
        del evidence, rank
        assert (
            gone() is None
        )  # nothing refers to itself: memory is not held until the garbage collector comes
    finally:
        gc.enable()


def plays_and_trains(
    *, play_s: float = 4.0, wait: float = 0.01, step: float = 0.03, cycles: int = 4, **info: object
) -> RankBuilder:
    """A script that simulates, goes over the recorded data three times, and repeats. It simulates now."""
    builder = RankBuilder(loaders=[loader(**{"num_workers": 0, **info})])
    ended_ns, epoch = None, 0
    for _ in range(cycles):
        for _ in range(3):
            gap: dict[str, int] = {} if ended_ns is None else {"gap_ns": builder.now_ns - ended_ns}
            builder.epoch[0], builder.batch[0] = epoch, 0
            builder.add("epoch_begins", loader=0, epoch=epoch, workers=0, iter_ns=0, **gap)
            for _ in range(30):
                builder.step(wait, step)
                builder.fetch(
                    -1,
                    wait,
                    cpu=1.0,
                    samples=512,
                    bytes=512 * 100,
                    request_ns=builder.now_ns - int((wait + step) * S),
                )
            builder.add("epoch_ends", loader=0, epoch=epoch, teardown_ns=0)
            ended_ns, epoch = builder.now_ns, epoch + 1
        builder.open("outside", play_s)
    return builder


def test_work_between_two_passes_is_time_of_the_run() -> None:
    rank = run(plays_and_trains()).ranks[0]
    (pace,) = paces_of(rank)
    assert pace.loop_share == pytest.approx(0.25)
    assert pace.share == pytest.approx(0.25 * 3.6 / 7.6, abs=0.005)
    assert pace.in_pass_ratio == pytest.approx(3.6 / 7.6, abs=0.01)
    now = recent(pace, Limits())
    assert now is not None
    assert now.share == pytest.approx(0.25 * 3.6 / 7.6, abs=0.02)


def test_a_pass_over_another_loader_is_no_own_work() -> None:
    builder = plays_and_trains(cycles=1, play_s=0.0)
    builder.loaders.append(loader(loader=1, role="eval", name="validation"))
    ended_ns = builder.now_ns
    builder.add("epoch_begins", loader=1, epoch=0, iter_ns=0)
    for _ in range(20):
        builder.step(0.05, 0.05, loader=1)
    builder.epoch[0], builder.batch[0] = 3, 0
    builder.add("epoch_begins", loader=0, epoch=3, workers=0, iter_ns=0, gap_ns=builder.now_ns - ended_ns)
    for _ in range(30):
        builder.step(0.01, 0.03)
    assert paces_of(run(builder).ranks[0])[0].share == pytest.approx(0.25, abs=0.005)


def test_a_loop_that_plays_and_trains_alerts_nobody() -> None:
    """Its data lies in memory. No alert in the first passes either, when the pauses are not yet known."""
    for cycles in (1, 2, 4):
        for play_s in (0.0, 2.0, 4.0):
            builder = plays_and_trains(cycles=cycles, play_s=play_s, wait=0.008)
            watch(builder, 0, cpu=0.0, main_cpu=1.0, main_read_chars=0.0)
            if play_s or cycles == 1:
                assert not [one.title for one in detect(RunEvidence(run(builder))) if one.severity != "info"]


def test_the_share_that_is_told_is_that_of_the_run() -> None:
    builder = plays_and_trains(cycles=6, wait=0.1, step=0.03)
    for row in builder.rows["fetches"]:
        row["cpu_ns"] = 0  # it waits for something
    (finding,) = [one for one in detect(RunEvidence(run(builder))) if one.code == "input-bound"]
    assert finding.gain_ceiling_ratio is not None
    assert finding.gain_ceiling_ratio <= 9 / (11.7 + 4) + 0.02
    values = {item.label: item.value for item in finding.evidence}
    assert values["data wait"] == pytest.approx(9 / (11.7 + 4), abs=0.1)


def test_the_verdict_watches_no_share_that_the_run_does_not_lose() -> None:
    """A sixth of each step is data wait, and a twelfth of the time."""
    window = run(plays_and_trains(wait=0.006))
    assert verdict_now(window, []).title.startswith("Healthy: data wait takes 17 % of each iteration")
