"""Trainings without a loader: what the ring holds of the time between two optimizer steps."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

import loaderwatch
from loaderwatch.core.facts import LoaderInfo
from loaderwatch.core.records import UNKNOWN, EndedBy, Phase, RecordKind
from tests.conftest import RingFolder
from tests.timed_models import is_timed
from tests.waiting import Stopwatch

pytestmark = pytest.mark.usefixtures("data_dir", "no_streamer")

STEPS = 40
SETTLED = 12
"""Steps after which the model has been found."""
READ_S = 0.01


class Training:
    """A model, its optimizer, and batches that somebody makes by hand."""

    def __init__(self, parameters: Callable[[nn.Module], Any] = nn.Module.parameters) -> None:
        self.model = nn.Linear(4, 1)
        self.optimizer = torch.optim.SGD(parameters(self.model), lr=0.1)
        self.reads = Stopwatch()

    def batch(self) -> Tensor:
        with self.reads():
            time.sleep(READ_S)
        return torch.ones(2, 4)

    def learn(self, batch: Tensor) -> None:
        self.model(batch).sum().backward()

    def step(self) -> None:
        self.optimizer.step()
        self.optimizer.zero_grad()


def loop_of(rings: RingFolder) -> LoaderInfo:
    (process,) = rings.processes()
    (found,) = (one for one in process.loaders if one.between_steps)
    return found


def steps_of(rings: RingFolder, begin: int = SETTLED) -> list[dict[str, int]]:
    number = loop_of(rings).loader
    return [step for step in rings.main().of(RecordKind.STEP) if step["loader"] == number][begin:]


def total(steps: list[dict[str, int]], column: str) -> int:
    return sum(step[column] for step in steps if step[column] != UNKNOWN)


@pytest.mark.parametrize("given", [False, True], ids=["found", "given"])
def test_the_wait_reaches_from_a_step_to_the_next_call_of_the_model(rings: RingFolder, given: bool) -> None:
    one, whole = Training(), Stopwatch()
    if given:
        loaderwatch.attach(model=one.model, optimizer=one.optimizer)
    else:
        loaderwatch.attach()
    for _ in range(STEPS):
        with whole():
            one.learn(one.batch())
            one.step()
    steps = steps_of(rings)
    assert len(steps) >= STEPS - SETTLED - 6  # the first ones tell that it trains without a loader
    read_ns, all_ns = (sum(each.taken_ns[-len(steps) :]) for each in (one.reads, whole))
    assert (
        read_ns
        <= total(steps, "wait_ns")
        <= total(steps, "wait_ns") + total(steps, "step_ns")
        <= all_ns * 1.05
    )
    assert all(step["optimizer_steps"] == 1 and step["forward_ns"] > 0 for step in steps)
    assert loop_of(rings).role == "train"
    span = rings.main().span
    assert span is not None
    assert (span.phase, span.steps) == (Phase.OUTSIDE, STEPS)


def test_batches_whose_gradients_are_accumulated_are_waited_for_as_well(rings: RingFolder) -> None:
    one = Training()
    loaderwatch.attach()
    for _ in range(STEPS):
        for _ in range(3):
            one.learn(one.batch())
        one.step()
    steps = steps_of(rings)
    assert total(steps, "wait_ns") >= sum(one.reads.taken_ns[-3 * len(steps) :])
    assert total(steps, "step_ns") < total(steps, "wait_ns")


def test_from_where_the_model_is_called_is_noted_once(rings: RingFolder) -> None:
    """The streamer tells by it which statements of the loop make the model's input."""
    one = Training()
    loaderwatch.attach(model=one.model, optimizer=one.optimizer)
    for _ in range(STEPS):
        one.learn(one.batch())
        one.step()
    (process,) = rings.processes()
    places = {call.function: call.line for call in process.model_calls}
    line = one.learn.__func__.__code__.co_firstlineno + 1  # type: ignore[attr-defined]
    assert places["learn"] == line
    assert "test_from_where_the_model_is_called_is_noted_once" in places
    assert len(process.model_calls) == len({(call.file, call.line) for call in process.model_calls})


def test_an_evaluation_is_no_wait(rings: RingFolder) -> None:
    one, evaluations = Training(), Stopwatch()
    loaderwatch.attach()
    for number in range(STEPS):
        if number % 5 == 4:
            with evaluations(), torch.no_grad():
                one.model(torch.ones(2, 4))
                time.sleep(20 * READ_S)
        one.learn(one.batch())
        one.step()
    steps = steps_of(rings, 0)
    assert total(steps, "step_ns") >= sum(evaluations.taken_ns[1:])
    assert max(step["wait_ns"] for step in steps) < min(evaluations.taken_ns)


def test_an_evaluation_from_a_loader_is_no_wait(rings: RingFolder) -> None:
    one, loader = Training(), DataLoader(TensorDataset(torch.ones(8, 4)), batch_size=2)
    loaderwatch.attach()
    evaluations = Stopwatch()
    for number in range(STEPS):
        if number % 5 == 4:
            with evaluations(), torch.no_grad():
                for (batch,) in loader:
                    one.model(batch)
                    time.sleep(5 * READ_S)
        one.learn(one.batch())
        one.step()
    assert max(step["wait_ns"] for step in steps_of(rings, 0)) < min(evaluations.taken_ns)
    (process,) = rings.processes()
    assert sorted(each.role for each in process.loaders) == ["eval", "train"]


def test_what_an_agent_does_before_each_step_is_a_wait(rings: RingFolder) -> None:
    """It calls the model too, without gradients, to make its next batch."""
    one = Training()
    loaderwatch.attach()
    for _ in range(STEPS):
        with torch.no_grad():
            one.model(torch.ones(2, 4))
        one.learn(one.batch())
        one.step()
    steps = steps_of(rings, begin=24)
    assert total(steps, "wait_ns") >= sum(one.reads.taken_ns[-len(steps) :])


@pytest.mark.parametrize(
    ("calls", "gaps", "acts"),
    [(5, (STEPS - 3,), False), (40, (STEPS - 3,), True), (2, range(STEPS), False), (4, range(STEPS), True)],
    ids=["a few once", "many once", "two in each gap", "some in each gap"],
)
def test_an_agent_that_acts_between_steps_is_told(
    rings: RingFolder, calls: int, gaps: Sequence[int], acts: bool
) -> None:
    """Two calls in each gap are a teacher's, or two views of a batch."""
    one = Training()
    loaderwatch.attach()
    for number in range(STEPS):
        if number in gaps:
            with torch.no_grad():
                for _ in range(calls):
                    one.model(torch.ones(2, 4))
        one.learn(one.batch())
        one.step()
    assert loop_of(rings).acts is acts


def test_the_step_of_another_optimizer_is_no_wait(rings: RingFolder) -> None:
    class Slow(torch.optim.SGD):
        def step(self, closure: Any = None) -> Any:
            time.sleep(5 * READ_S)
            return super().step(closure)

    one = Training(lambda model: [model.weight])
    other = Slow([one.model.bias], lr=0.1)
    loaderwatch.attach()
    for _ in range(STEPS):
        one.learn(one.batch())
        one.step()
        other.step()
    steps = steps_of(rings)
    read_ns = sum(one.reads.taken_ns[-len(steps) :])
    assert read_ns <= total(steps, "wait_ns") < read_ns + len(steps) * 5 * READ_S * 1e9 / 2


def test_where_no_module_is_called_nothing_is_taken_for_a_wait(rings: RingFolder) -> None:
    one, whole = Training(), Stopwatch()
    loaderwatch.attach()
    for _ in range(STEPS):
        with whole():
            functional.linear(  # type: ignore[no-untyped-call]
                one.batch(), one.model.weight, one.model.bias
            ).sum().backward()
            one.step()
    steps = steps_of(rings)
    assert total(steps, "wait_ns") == 0
    assert total(steps, "step_ns") >= 0.9 * sum(whole.taken_ns[-len(steps) :])


def test_a_loader_that_trains_ends_it(rings: RingFolder) -> None:
    before, loader = Training(), DataLoader(TensorDataset(torch.ones(24, 4)), batch_size=2, shuffle=True)
    loaderwatch.attach()
    for _ in range(SETTLED):
        before.learn(before.batch())
        before.step()
    one = Training()
    for (batch,) in loader:
        one.learn(batch)
        one.step()
    number, main = loop_of(rings).loader, rings.main()
    (end,) = (each for each in main.of(RecordKind.EPOCH_END) if each["loader"] == number)
    assert end["ended_by"] == EndedBy.BREAK
    others = [step for step in main.of(RecordKind.STEP) if step["loader"] != number]
    assert [step["optimizer_steps"] for step in others] == [1] * 12
    assert is_timed(one.model)
    assert not is_timed(before.model)


def test_steps_after_a_pass_over_a_loader_are_no_such_loop(rings: RingFolder) -> None:
    one, loader = Training(), DataLoader(TensorDataset(torch.ones(24, 4)), batch_size=2)
    loaderwatch.attach()
    for (batch,) in loader:
        one.learn(batch)
        one.step()
    for _ in range(SETTLED):
        one.learn(one.batch())
        one.step()
    (process,) = rings.processes()
    assert [each.between_steps for each in process.loaders] == [False]


def test_hooks_are_gone_after_detach(rings: RingFolder) -> None:
    one = Training()
    loaderwatch.attach()
    for _ in range(SETTLED):
        one.learn(one.batch())
        one.step()
    loaderwatch.detach(None)
    before = len(steps_of(rings, 0))
    one.learn(one.batch())
    one.step()
    assert len(steps_of(rings, 0)) == before
    assert not is_timed(one.model)
