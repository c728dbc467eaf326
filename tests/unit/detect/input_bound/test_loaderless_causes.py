"""S01 where no loader is known: what a script does between two steps."""

from __future__ import annotations

import re

import numpy as np
import pytest

from loaderwatch.core.facts import BETWEEN_STEPS, Call
from loaderwatch.detect.detectors import detect
from loaderwatch.detect.evidence import RunEvidence
from loaderwatch.detect.finding import Finding
from loaderwatch.detect.incidents.verdict import watched
from tests.unit.detect import stacks
from tests.unit.detect.build import RankBuilder, S, loader, run

STUCK_S = 45.0
LINE = "train.py:61 in get_batch"


def trained(wait_s: float = 0.06, step_s: float = 0.03, steps: int = 600, acts: bool = False) -> RankBuilder:
    alone = loader(
        name="training loop",
        class_name="no DataLoader",
        num_workers=None,
        batches=None,
        between_steps=True,
        acts=acts,
    )
    builder = RankBuilder(loaders=[alone])
    builder.add("epoch_begins", loader=0, epoch=0, iter_ns=-1, first_wait_ns=S // 50)
    builder.has_optimizer = True
    for _ in range(steps):
        builder.step(wait_s, step_s, optimizer_steps=1)
    builder.calls = [Call(file="/home/me/project/train.py", function="main", line=40, loop=(30, 70))]
    return builder


def told(builder: RankBuilder) -> list[Finding]:
    return [finding for finding in detect(RunEvidence(run(builder))) if finding.severity != "info"]


def test_where_the_script_is_between_two_steps() -> None:
    builder = trained().stack(-1, 100, stacks.main_in(user="get_batch"), why=BETWEEN_STEPS)
    (finding,) = told(builder)
    assert (finding.scenario, finding.severity, finding.rank) == ("S01", "critical", 0)
    assert re.search(r"spends \d+ % of \d+ s between two steps: ", finding.title)
    assert finding.title.endswith(f": 11 iterations/s, the model could take 33; seen at {LINE}.")
    assert "DataLoader with num_workers" in finding.advice
    assert finding.gain_ceiling_ratio == pytest.approx(2 / 3, abs=0.02)
    assert len(finding.stacks) == 1


def test_nobody_has_looked_yet() -> None:
    (finding,) = told(trained())
    assert finding.title.endswith(": 11 iterations/s, the model could take 33.")
    (quickest,) = told(trained(step_s=0.0))
    assert quickest.title.endswith("iterations/s, the model could take any number.")
    assert "seen at" not in finding.title


@pytest.mark.parametrize(
    ("stack", "advice"),
    [(stacks.QUEUE, "Fill the queue from several processes"), (stacks.SAVE, "Save less often")],
)
def test_the_advice_fits_what_it_does(stack: str, advice: str) -> None:
    (finding,) = told(trained().stack(-1, 100, stack, why=BETWEEN_STEPS))
    assert finding.advice.startswith(advice)


@pytest.mark.parametrize(
    ("calls", "acting", "aside", "alerts"),
    [
        *((False, 3, 2, 0), (False, 2, 3, 1), (False, 1, 0, 1), (False, 0, 1, 1), (False, 1, 1, 0)),
        *((True, 0, 0, 0), (True, 0, 2, 0), (True, 1, 5, 0), (True, 0, 3, 1)),
    ],
)
def test_a_model_that_acts_between_its_steps_does_not_stand_still(
    calls: bool, acting: int, aside: int, alerts: int
) -> None:
    """By its stacks; few settle nothing where they disagree, or where the agent counted the model's calls."""
    builder = trained(acts=calls)
    for text in [stacks.main_in("_call_impl", user="act")] * acting + [stacks.main_in(user="play")] * aside:
        builder.stack(-1, 100, text, why=BETWEEN_STEPS)
    assert len(told(builder)) == alerts


def test_passes_that_take_longer_than_what_lies_between_are_signals_that_came_late() -> None:
    builder = trained()
    for row in builder.rows["steps"]:
        row["forward_ns"] = int(0.07 * S)
    for _ in range(3):
        builder.stack(-1, 100, stacks.main_in("_call_impl", user="main"), why=BETWEEN_STEPS)
    assert len(told(builder)) == 1


def test_what_does_not_answer_is_named() -> None:
    builder = trained().stack(-1, 100, stacks.SOCKET, why=BETWEEN_STEPS, wchan="wait_woken")
    (finding,) = told(builder)
    assert finding.cause.endswith("The script waits for the network.")
    assert finding.advice.startswith("Move this call to a background thread, make it less often")


def test_a_stack_that_came_late_tells_nothing() -> None:
    """Two of four signals came in the optimizer, at one line. Two came in the save, at two lines."""
    flushed = "".join(line for line in stacks.SAVE.splitlines(True) if "/torch/" not in line)
    optimizer = stacks.main_in("step", user="main").replace(
        "/torch/nn/parallel/distributed.py", "/torch/optim/adam.py"
    )
    builder = trained()
    for text in (stacks.SAVE, optimizer, flushed.replace("line 61", "line 63"), optimizer):
        builder.stack(-1, 100, text, why=BETWEEN_STEPS)
    (finding,) = told(builder)
    assert finding.title.endswith("; seen at train.py:63 in save.")
    assert finding.advice.startswith("Save less often")


def test_a_collection_between_all_steps() -> None:
    builder = trained(wait_s=0.01)
    for _ in range(200):
        builder.add("collections", worker=-1, request_ns=builder.now_ns + S // 100, duration_ns=S // 10)
        builder.step(0.12, 0.03)
    builder.stack(-1, 100, stacks.main_in(user="free_memory"), why=BETWEEN_STEPS)
    (finding,) = told(builder)
    assert (finding.scenario, finding.severity) == ("S25", "critical")
    assert "garbage collection takes 100 ms of the 120 ms wait before each step" in finding.title
    assert finding.title.endswith(", seen at train.py:61 in free_memory.")
    assert finding.gain_ceiling_ratio == pytest.approx(0.67, abs=0.05)
    assert len(finding.stacks) == 1


def test_a_collection_now_and_then_is_no_cause_of_it() -> None:
    builder = trained()
    for number in range(200):
        if not number % 20:
            builder.add("collections", worker=-1, request_ns=builder.now_ns + S // 100, duration_ns=S // 50)
        builder.step(0.06, 0.03)
    assert [finding.scenario for finding in told(builder)] == ["S01"]


def test_little_between_the_steps_is_well() -> None:
    builder = trained(wait_s=0.001).stack(-1, 100, stacks.main_in(user="get_batch"), why=BETWEEN_STEPS)
    assert told(builder) == []


@pytest.mark.parametrize(("function", "alerts"), [("main", False), ("schedule", False), ("get_batch", True)])
def test_a_sleep_of_the_loop_itself_is_meant_to_be(function: str, alerts: bool) -> None:
    """Or of a loop around it, which waits until its time has come."""
    builder = trained()
    builder.calls.insert(
        0, Call(file="/home/me/project/train.py", function="schedule", line=90, loop=(80, 99))
    )
    builder.stack(-1, 100, stacks.main_in(user=function), why=BETWEEN_STEPS, wchan="hrtimer_nanosleep")
    assert bool(told(builder)) is alerts


@pytest.mark.parametrize(
    ("period_s", "wchan", "alerts"),
    [(0.1, "hrtimer_nanosleep", False), (None, "hrtimer_nanosleep", True), (0.1, "futex_wait_queue", True)],
    ids=["it sleeps until a tick", "each sleep is as long", "whoever makes the batches is as steady"],
)
def test_a_loop_that_goes_by_a_clock(period_s: float | None, wchan: str, alerts: bool) -> None:
    random, late_s = np.random.default_rng(3), 0.0
    builder = trained(steps=0)
    for _ in range(300):
        step_s, jitter_s = random.uniform(0.010, 0.012), random.exponential(0.002)
        if period_s is None:
            builder.step(0.08 + jitter_s, step_s)
        else:
            builder.step(period_s - step_s - late_s + jitter_s, step_s)
            late_s = jitter_s
    builder.stack(-1, 100, stacks.main_in(user="wait"), why=BETWEEN_STEPS, wchan=wchan)
    assert bool(told(builder)) is alerts


def test_a_queue_that_nobody_fills_any_more() -> None:
    """The limit is learned from the time between steps. There is no loader to be named as not the cause."""
    builder = trained().open("outside", STUCK_S, os_state="S", wchan="futex_wait_queue")
    for second in range(int(STUCK_S)):
        builder.process(
            worker=-1, pid=100, cpu=0.0, t_ns=builder.now_ns - second * S, voluntary_switches=5000.0
        )
    builder.rows["processes"].reverse()
    in_loop = stacks.QUEUE.replace('prefetch.py", line 26 in __iter__', 'train.py", line 41 in main')
    builder.stack(-1, 100, in_loop)
    (finding,) = told(builder)
    assert (finding.scenario, finding.code, finding.severity) == ("S41", "hung", "critical")
    assert "not the data loader" not in finding.title
    assert "It is between two optimizer steps." in finding.cause
    limit = next(each.value for each in finding.evidence if each.label == "limit learned for this phase")
    assert limit == 30.0


def test_once_a_loader_trains_it_is_between_two_passes() -> None:
    """The loop without a loader has ended then, though it is still known."""
    builder = trained()
    builder.loaders.append(loader(loader=1))
    builder.open("outside", 12.0, os_state="S").stack(-1, 100, stacks.main_in(user="main"))
    verdict = watched(run(builder))
    assert verdict is not None
    assert verdict.title.startswith("Training has been between two epochs of its loader for 12 s")


def test_what_goes_on_is_watched_from_the_first_seconds() -> None:
    builder = trained().open("outside", 6.0, os_state="S")
    builder.stack(-1, 100, stacks.main_in(user="main"))
    verdict = watched(run(builder))
    assert verdict is not None
    assert verdict.title == (
        "Training has been between two steps for 6.0 s, at train.py:61 in main;"
        " longer than usual, not yet an alert."
    )
