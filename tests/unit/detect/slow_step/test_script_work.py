"""Work of the script's own that takes much of every step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from loaderwatch.core.facts import BETWEEN_STEPS, SCRIPT_WORK, Call
from loaderwatch.core.records import ProfilePart
from loaderwatch.detect.detectors import detect
from loaderwatch.detect.evidence import RunEvidence
from tests.fakes.profiles import OWN, PICTURE
from tests.unit.detect import stacks
from tests.unit.detect.build import RankBuilder, S, loader, run
from tests.unit.detect.test_lost_time_lines import sampled

DISTANCE = stacks.main_in(user="edit_distance")


def worked(
    script_s: float = 0.1,
    *,
    seconds: float = 60,
    text: str = DISTANCE,
    found: int = 4,
    asleep: float = 0.0,
    timed: bool = True,
    other: str = "",
    rarely: bool = False,
    wchan: str | None = None,
    feeds: bool = False,
    between_steps: bool = False,
    wait_s: float = 0.002,
    calls: Sequence[Call] = (),
) -> RankBuilder:
    """Steps with 80 ms of a model, and stacks taken in the rest; ``asleep`` of the looks find it asleep.

    Every second stack is the ``other`` one, or five of six. ``feeds``: the others make the model's input.
    """
    facts = {"num_workers": None, "between_steps": True} if between_steps else {"num_workers": 2}
    builder = RankBuilder(loaders=[loader(**facts)])
    builder.calls = list(calls)
    builder.add("epoch_begins", loader=0, epoch=0, iter_ns=S // 50, first_wait_ns=S // 50)
    begun, number = builder.now_ns, 0
    phases = {"forward_ns": 0.03 * S, "backward_ns": 0.04 * S, "optimizer_ns": 0.01 * S} if timed else {}
    while builder.now_ns - begun < seconds * S:
        builder.step(wait_s, 0.08 + script_s, **{name: int(value) for name, value in phases.items()})
        if builder.now_ns - begun > number * S:
            number += 1
            sleeps = (number * asleep) % 1 >= 1 - asleep - 1e-9 if asleep else False
            builder.process(worker=-1, pid=100, cpu=0.9, timer_wait=float(sleeps))
    for place in range(found):
        is_other = bool(other) and bool(place % 6 if rarely else place % 2)
        builder.stack(
            -1, 100, other if is_other else text, why=SCRIPT_WORK, wchan=wchan, feeds=feeds and not is_other
        )
    return builder


def told(builder: RankBuilder) -> list[tuple[str, str]]:
    return [(finding.scenario, finding.severity) for finding in detect(RunEvidence(run(builder)))]


def test_the_line_and_what_it_costs() -> None:
    (finding,) = detect(RunEvidence(run(worked())))
    assert (finding.scenario, finding.severity, finding.rank) == ("S26", "warning", 0)
    assert (
        "loses 55 % of the time (over 60 s) to script code, seen at"
        " train.py:61 in edit_distance: 100 ms of each 180 ms step" in finding.title
    )
    assert finding.gain_ceiling_ratio == pytest.approx(0.55, abs=0.01)
    assert finding.lost_s == pytest.approx(33, abs=1)
    assert len(finding.stacks) == 1


def test_many_samples_know_the_line_better_than_a_few_stacks() -> None:
    """The stacks of the model among them do not count, nor do too few samples."""
    window = run(worked())
    counts = {OWN: 70, PICTURE: 30}
    for samples, line in ((1, "faces.py:60 in size"), (8, "train.py:61 in edit_distance")):
        few = {stack: count // samples for stack, count in counts.items()}
        rank = sampled(window.ranks[0], few, part=ProfilePart.STEP, worker=-1)
        (finding,) = detect(RunEvidence(replace(window, ranks={0: rank})))
        assert f"to script code, seen at {line}: 100 ms" in finding.title
        share = "70 % of the loop's own time is at faces.py:60 in size: 100 % running (100 samples)."
        assert finding.cause.endswith(share) == (samples == 1)


def test_stacks_that_came_too_late_do_not_count() -> None:
    """In short steps the loop has gone on to its model meanwhile."""
    assert told(worked(found=6, other=stacks.main_in("forward"))) == [("S26", "warning")]


def test_results_that_are_exchanged_in_each_step() -> None:
    assert told(worked(found=5, other=stacks.main_in("all_gather_object"))) == [("S26", "warning")]


@pytest.mark.parametrize(
    "builder",
    [
        pytest.param(worked(0.03), id="a-quarter-of-the-time"),
        pytest.param(worked(found=1), id="one-stack"),
        pytest.param(
            worked(found=12, other=stacks.main_in("forward"), rarely=True), id="hardly-ever-at-work"
        ),
        pytest.param(worked(seconds=8), id="a-few-seconds"),
        pytest.param(worked(asleep=0.5), id="a-throttle"),
        pytest.param(worked(wchan="hrtimer_nanosleep"), id="a-throttle-that-wakes-late"),
        pytest.param(worked(timed=False), id="a-model-that-is-not-timed"),
        pytest.param(worked(text=stacks.SAVE), id="saving"),
        pytest.param(worked(text=stacks.main_in("forward")), id="a-model-without-gradients"),
        pytest.param(worked(text=stacks.main_in("all_reduce")), id="a-collective"),
    ],
)
def test_others_are_no_work_of_the_script(builder: RankBuilder) -> None:
    assert told(builder) == []


LOSS = stacks.main_in("cross_entropy", user="detection_loss")
TRAINS = [Call(file="/home/me/project/train.py", function="train_epoch", line=61, loop=(60, 70))]


@pytest.mark.parametrize(
    "builder",
    [
        pytest.param(worked(text=LOSS), id="a-loss-of-pytorch"),
        pytest.param(worked(text=LOSS, other=DISTANCE), id="half-of-them-a-loss"),
        pytest.param(worked(calls=TRAINS, wchan="hrtimer_nanosleep"), id="a-sleep-in-a-function-of-its-own"),
        pytest.param(worked(other=LOSS, found=6, feeds=True), id="half-of-them-data"),
    ],
)
def test_a_loss_is_a_remark_with_its_line_and_no_data_wait(builder: RankBuilder) -> None:
    (finding,) = detect(RunEvidence(run(builder)))
    assert (finding.code, finding.scenario, finding.severity) == ("slow-step", "S26", "info")
    assert "train.py:61 in" in finding.title
    assert "not the data loader" in finding.title


def test_a_sleep_of_the_training_loop_itself_is_meant() -> None:
    calls = [msgspec.structs.replace(TRAINS[0], function="edit_distance")]
    assert told(worked(calls=calls, wchan="hrtimer_nanosleep")) == []


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({}, id="it-computes"),
        pytest.param({"text": stacks.main_in("stack", user="get_batch")}, id="it-makes-tensors"),
        pytest.param({"wchan": "hrtimer_nanosleep", "asleep": 0.5}, id="it-sleeps"),
        pytest.param({"found": 6, "other": stacks.main_in("forward")}, id="some-stacks-came-late"),
    ],
)
def test_data_made_within_a_step_of_a_loop_without_a_loader(fields: dict[str, Any]) -> None:
    """nanoGPT calls get_batch between forward and backward: it is what S01 is between two steps."""
    (finding,) = detect(RunEvidence(run(worked(feeds=True, between_steps=True, **fields))))
    assert (finding.code, finding.scenario, finding.severity) == ("input-bound", "S01", "critical")
    assert finding.title.startswith(
        "Training loses 56 % of the time (over 60 s) to making data in the training loop,"
        " seen at train.py:61 in"
    )
    assert "DataLoader with num_workers" in finding.advice
    assert len(finding.stacks) == 1


def test_data_is_told_from_a_tenth_of_the_time_on() -> None:
    assert told(worked(0.012, feeds=True, between_steps=True)) == [("S01", "warning")]
    assert told(worked(0.005, feeds=True, between_steps=True)) == []


def test_the_wait_between_two_steps_is_part_of_it() -> None:
    """Micro-batches are fetched after each backward pass; all but the last lie between two model calls."""
    (finding,) = detect(RunEvidence(run(worked(0.1, feeds=True, between_steps=True, wait_s=0.1))))
    assert (finding.code, finding.scenario) == ("input-bound", "S01")
    assert "loses 71 % of the time" in finding.title
    assert "200 ms of each 280 ms step" in finding.title


def test_the_wait_of_a_loop_that_stands_elsewhere_between_two_steps_is_not() -> None:
    builder = worked(0.1, feeds=True, between_steps=True, wait_s=0.1)
    builder.stack(-1, 100, DISTANCE, why=BETWEEN_STEPS)
    (finding,) = detect(RunEvidence(run(builder)))
    assert "100 ms of each 180 ms step" in finding.title


def test_data_made_beside_a_loader() -> None:
    """A loader that yields paths, say, and the loop reads them."""
    (finding,) = detect(RunEvidence(run(worked(feeds=True))))
    assert (finding.code, finding.scenario, finding.severity) == ("slow-step", "S26", "warning")
    assert "to making data in the training loop" in finding.title


def test_work_now_and_then_is_not_in_every_step() -> None:
    builder = worked(0.01)
    for _ in range(10):
        builder.step(0.002, 3.0, forward_ns=S // 30, backward_ns=S // 25, optimizer_ns=S // 100)
        for _ in range(20):
            builder.step(0.002, 0.09, forward_ns=S // 30, backward_ns=S // 25, optimizer_ns=S // 100)
    titles = [finding.title for finding in detect(RunEvidence(run(builder)))]
    assert len(titles) == 1
    assert "every 21 steps" in titles[0]
