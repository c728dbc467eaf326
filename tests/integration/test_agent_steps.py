"""Phases of real training steps: forward, backward, optimizer; accumulation; what is left unknown."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

import loaderwatch
from loaderwatch.core.records import UNKNOWN, Phase, RecordKind
from tests.conftest import RingFolder
from tests.timed_models import is_timed
from tests.waiting import Stopwatch

pytestmark = pytest.mark.usefixtures("data_dir", "no_streamer")


class Slow(torch.autograd.Function):
    """Takes its time in both directions."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        time.sleep(0.02)
        return x * 2

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> torch.Tensor:
        time.sleep(0.03)
        return gradients[0] * 2


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 2)
        self.spans: list[Any] = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        slow: torch.Tensor = Slow.apply(self.linear(x))  # type: ignore[no-untyped-call]
        return slow


class SlowSgd(torch.optim.SGD):
    def step(self, closure: Any = None) -> Any:
        time.sleep(0.01)
        return super().step(closure)


def loader(batches: int = 4) -> DataLoader[Any]:
    return DataLoader(TensorDataset(torch.randn(batches * 2, 4)), batch_size=2)


def steps_of(rings: RingFolder, number: int = 0) -> list[dict[str, int]]:
    return [step for step in rings.main().of(RecordKind.STEP) if step["loader"] == number]


def test_phases_add_up(rings: RingFolder) -> None:
    model = Model()
    optimizer = SlowSgd(model.parameters(), lr=0.1)
    train = loaderwatch.attach(loader(), model=model, optimizer=optimizer)
    loaderwatch.attach(train, model=model, optimizer=optimizer)  # a second time is a no-op
    around = Stopwatch()
    for (x,) in train:
        optimizer.zero_grad()
        with around():
            model(x).sum().backward()
            optimizer.step()
    for step, all_ns in zip(steps_of(rings), around.taken_ns, strict=True):
        assert step["forward_ns"] >= 20e6
        assert step["backward_ns"] >= 30e6
        assert step["optimizer_ns"] >= 10e6
        total = step["forward_ns"] + step["backward_ns"] + step["optimizer_ns"]
        assert total <= all_ns <= step["step_ns"]
        assert (step["h2d_ns"], step["optimizer_steps"]) == (UNKNOWN, 1)
    assert [step["step"] for step in steps_of(rings)] == [1, 2, 3, 4]
    (info,) = rings.processes()
    assert (info.has_model, info.has_optimizer) == (True, True)
    main = rings.main()
    assert main.span is not None
    assert (main.span.steps, main.span.batches) == (4, 4)


def test_gradient_accumulation(rings: RingFolder) -> None:
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for number, (x,) in enumerate(loaderwatch.attach(loader(6), model=model, optimizer=optimizer)):
        model(x).sum().backward()
        if number % 3 == 2:
            optimizer.step()
            optimizer.zero_grad()
    assert [step["optimizer_steps"] for step in steps_of(rings)] == [0, 0, 1, 0, 0, 1]
    assert [step["step"] for step in steps_of(rings)] == [0, 0, 1, 1, 1, 2]


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_the_way_to_the_device(device: str, rings: RingFolder) -> None:
    """PyTorch's meta device stands for a GPU: what it is handed does not lie in the host's memory."""
    model = torch.nn.Linear(4, 2, device=device)
    train = loaderwatch.attach(loader(), model=model)
    for (x,) in train:
        time.sleep(0.02)
        x = x.to(device)
        model(x)
        time.sleep(0.03)
        model(x)  # a second call is no second copy
    for step in steps_of(rings):
        if device == "cpu":
            assert step["h2d_ns"] == UNKNOWN
        else:
            assert 20e6 <= step["h2d_ns"] < step["step_ns"] - 30e6


def test_open_spans_of_phases(rings: RingFolder) -> None:
    seen: list[Phase] = []

    def look() -> None:
        span = rings.main().span
        assert span is not None
        seen.append(span.phase)

    class Looking(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(4))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            look()
            inner = x * self.weight
            inner.register_hook(lambda _: look())  # type: ignore[no-untyped-call]
            return inner * 1

    model = Looking()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    optimizer.register_step_post_hook(lambda *_: look())
    for (x,) in loaderwatch.attach(loader(1), model=model, optimizer=optimizer):
        look()
        model(x).sum().backward()
        look()
        optimizer.step()
        look()
    assert seen == [
        Phase.STEP,
        Phase.FORWARD,
        Phase.BACKWARD,
        Phase.STEP,
        Phase.OPTIMIZER,
        Phase.STEP,
    ]


def test_validation_is_not_training(rings: RingFolder) -> None:
    model = Model()
    train = loaderwatch.attach(loader(1), model=model)
    evaluate = loaderwatch.attach(loader(2), role="eval", model=model)
    around = Stopwatch()
    for (x,) in train:
        with around():
            loss = model(x)
        loss.sum().backward()
        with torch.no_grad():
            for (y,) in evaluate:
                model(y)
    (step,) = steps_of(rings)
    assert 20e6 <= step["forward_ns"] <= around.total_ns
    assert {one["forward_ns"] for one in steps_of(rings, 1)} == {UNKNOWN}


def test_closure_is_not_counted_twice(rings: RingFolder) -> None:
    model = Model()
    optimizer = SlowSgd(model.parameters(), lr=0.1)
    around = Stopwatch()
    for (x,) in loaderwatch.attach(loader(2), model=model, optimizer=optimizer):

        def closure(x: torch.Tensor = x) -> torch.Tensor:
            loss: torch.Tensor = model(x).sum()
            loss.backward()  # type: ignore[no-untyped-call]
            return loss

        with around():
            optimizer.step(closure)
    for step, all_ns in zip(steps_of(rings), around.taken_ns, strict=True):
        assert step["forward_ns"] + step["backward_ns"] + step["optimizer_ns"] <= all_ns <= step["step_ns"]
        assert step["optimizer_ns"] >= 10e6


def test_what_a_closure_does_with_the_output_is_not_the_optimizers(rings: RingFolder) -> None:
    """Lightning's training_step is one: it computes the loss and logs inside of ``optimizer.step``."""
    model = Model()
    optimizer = SlowSgd(model.parameters(), lr=0.1)
    around, losses = Stopwatch(), Stopwatch()
    for (x,) in loaderwatch.attach(loader(4), model=model, optimizer=optimizer):

        def closure(x: torch.Tensor = x) -> torch.Tensor:
            output: torch.Tensor = model(x)
            with losses():
                time.sleep(0.05)
            loss = output.sum()
            loss.backward()  # type: ignore[no-untyped-call]
            return loss

        with around():
            optimizer.step(closure)
    for step, all_ns, loss_ns in zip(steps_of(rings), around.taken_ns, losses.taken_ns, strict=True):
        assert step["optimizer_ns"] >= 10e6
        # backward may begin a little early, where it is reckoned from the last parameter
        assert step["forward_ns"] + step["optimizer_ns"] <= all_ns - loss_ns


@dataclass
class Output:
    loss: torch.Tensor


class Wrapped(torch.nn.Module):
    def __init__(self, kind: str) -> None:
        super().__init__()
        self.inner = Model()
        self.kind = kind

    def forward(self, x: torch.Tensor) -> Any:
        loss = self.inner(x).sum()
        return {
            "dict": {"n": 1, "loss": loss},
            "list": [x, loss],
            "dataclass": Output(loss),
            "float": loss.item(),
        }[self.kind]


@pytest.mark.parametrize("kind", ["dict", "list", "dataclass", "float"])
def test_outputs_of_all_kinds(kind: str, rings: RingFolder) -> None:
    model = Wrapped(kind)
    for (x,) in loaderwatch.attach(loader(2), model=model):
        output = model(x)
        if kind != "float":
            loss = output.loss if kind == "dataclass" else output["loss"] if kind == "dict" else output[1]
            loss.backward()
    for step in steps_of(rings):
        if kind == "float":
            assert step["backward_ns"] == UNKNOWN
        else:
            assert step["backward_ns"] >= 30e6
        assert step["optimizer_ns"] == step["optimizer_steps"] == UNKNOWN


def test_error_in_the_model_leaves_nothing_open(rings: RingFolder) -> None:
    class Failing(torch.nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if x.sum() > 100:
                raise ValueError("overflow")
            return super().forward(x)

    model = Failing(4, 1)
    data = torch.zeros(6, 4)
    data[2] = 100
    for (x,) in loaderwatch.attach(DataLoader(TensorDataset(data), batch_size=2), model=model):
        try:
            model(x).sum().backward()
        except ValueError:
            continue
    forwards = [step["forward_ns"] > 0 for step in steps_of(rings)]
    assert forwards == [True, False, True]


def _say_and_sleep(fd: int, *_: object) -> None:
    os.write(fd, b".")
    time.sleep(0.3)


def test_a_forked_child_that_uses_the_model_leaves_the_parents_span_alone(rings: RingFolder) -> None:
    """It shares the memory of the ring; what it computes is not what the training process does."""
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    before, during, after = [], [], []
    for (x,) in loaderwatch.attach(loader(1), model=model, optimizer=optimizer):
        ready, at_work = os.pipe()
        before.append(rings.main().span)
        child = os.fork()
        if not child:
            model.linear.register_forward_hook(partial(_say_and_sleep, at_work))
            try:
                model(x).sum().backward()
                optimizer.step()
            finally:
                os._exit(0)
        assert os.read(ready, 1) == b"."
        during.append(rings.main().span)
        os.waitpid(child, 0)
        after.append(rings.main().span)
        os.close(ready)
        os.close(at_work)
    assert before == during == after
    assert before[0] is not None
    assert before[0].phase is Phase.STEP


def test_detach_takes_the_hooks_out() -> None:
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    train = loaderwatch.attach(loader(), model=model, optimizer=optimizer)
    assert is_timed(model)
    loaderwatch.detach()
    assert "_compiled_call_impl" not in vars(torch.nn.Linear)
    assert not optimizer._optimizer_step_pre_hooks
    assert type(train) is DataLoader


def test_to_a_compiler_the_hooks_are_nothing() -> None:
    """One graph, as without us; a hook that it could see into would break it."""
    model = torch.nn.Linear(4, 2)
    loaderwatch.attach(loader(), model=model)
    batch = torch.randn(2, 4)
    expected = model(batch)
    whole = torch.compile(lambda x: model(x), backend="eager", fullgraph=True)
    assert torch.equal(whole(batch), expected)
    torch._dynamo.reset()


def test_a_model_whose_class_takes_no_field_is_timed_by_hooks(rings: RingFolder) -> None:
    """``nn.Module`` itself, with a function put in as its ``forward``: its field is PyTorch's own."""
    model: Any = torch.nn.Module()
    model.weight = torch.nn.Parameter(torch.ones(4))
    model.forward = lambda x: x * model.weight
    for (x,) in loaderwatch.attach(loader(), model=model):
        model(x).sum().backward()
    assert all(min(step["forward_ns"], step["backward_ns"]) > 0 for step in steps_of(rings))
    loaderwatch.detach()
    assert not model._forward_hooks
