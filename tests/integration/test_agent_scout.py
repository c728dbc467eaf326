"""Models and optimizers that nobody named: which are found, which are not, and what is left with them."""

from __future__ import annotations

import copy
import gc
import pickle
import warnings
from functools import partial
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.modules import module as modules
from torch.optim import optimizer as optimizers
from torch.utils.data import DataLoader, TensorDataset

import loaderwatch
from loaderwatch.core.records import UNKNOWN, RecordKind
from tests.conftest import RingFolder
from tests.timed_models import is_timed

OLD = tuple(int(part) for part in torch.__version__.split(".")[:2]) <= (2, 4)

pytestmark = pytest.mark.usefixtures("data_dir", "no_streamer")

WAYS = pytest.mark.parametrize("everywhere", [False, True], ids=["loader", "everything"])


def loader(batches: int = 12) -> DataLoader[Any]:
    return DataLoader(TensorDataset(torch.randn(batches * 2, 4)), batch_size=2)


def attached(everywhere: bool = True, batches: int = 12) -> DataLoader[Any]:
    made = loader(batches)
    loaderwatch.attach(None if everywhere else made)
    return made


def steps_of(rings: RingFolder) -> list[dict[str, int]]:
    return [step for step in rings.main().of(RecordKind.STEP) if step["loader"] == 0]


def total(model: nn.Module, x: torch.Tensor) -> Any:
    return model(x).sum()


def timed(rings: RingFolder) -> list[bool]:
    return [min(step["forward_ns"], step["backward_ns"]) > 0 for step in steps_of(rings)]


def hooked(*roots: nn.Module) -> list[nn.Module]:
    every = [one for root in roots for one in root.modules()]
    return [one for one in every if one._forward_pre_hooks or is_timed(one)]


class Parts(nn.Module):
    """Like a LightningModule: ``training_step`` is called, and the module itself never."""

    def __init__(self, frozen: bool = False) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
        self.encoder.requires_grad_(not frozen)
        self.heads = nn.ModuleList([nn.Linear(4, 2)])
        self.loss = nn.MSELoss()

    def training_step(self, x: torch.Tensor) -> Any:
        out = self.heads[0](self.encoder(x))
        return self.loss(out, torch.zeros_like(out))


@WAYS
def test_a_plain_loop(everywhere: bool, rings: RingFolder) -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
    optimizer = torch.optim.Adam(model.parameters())
    for (x,) in attached(everywhere):
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()
    # the optimizer tells of itself as it steps first, and its model is known from then on
    assert timed(rings) == [False] + [True] * 11
    assert [step["optimizer_steps"] for step in steps_of(rings)] == [1] * 12
    assert min(step["optimizer_ns"] for step in steps_of(rings)) > 0
    assert [step["step"] for step in steps_of(rings)] == [*range(1, 13)]
    assert hooked(model) == [model]
    (info,) = rings.processes()
    assert (info.has_model, info.has_optimizer, info.phases_missing) == (True, True, None)
    span = rings.main().span
    assert span is not None
    assert span.steps == 12


def test_accumulated_gradients(rings: RingFolder) -> None:
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for number, (x,) in enumerate(attached()):
        model(x).sum().backward()
        if number % 3 == 2:
            optimizer.step()
    assert [step["optimizer_steps"] for step in steps_of(rings)][2:] == [1, 0, 0] * 3 + [1]
    assert timed(rings)[3:] == [True] * 9
    assert [step["step"] for step in steps_of(rings)][2:] == [1, 1, 1, 2, 2, 2, 3, 3, 3, 4]


def test_a_gan(rings: RingFolder) -> None:
    """Two models and two optimizers: forward is of both, and a step is one of the first optimizer's."""
    maker, judge = nn.Sequential(nn.Linear(4, 4)), nn.Sequential(nn.Linear(4, 1))
    slow, fast = torch.optim.SGD(maker.parameters(), 0.1), torch.optim.SGD(judge.parameters(), 0.1)
    for (x,) in attached():
        fast.zero_grad()
        (judge(x).sum() - judge(maker(x).detach()).sum()).backward()
        fast.step()
        slow.zero_grad()
        judge(maker(x)).sum().backward()
        slow.step()
    assert timed(rings)[2:] == [True] * 10
    assert [step["optimizer_steps"] for step in steps_of(rings)] == [1] * 12
    assert hooked(maker, judge) == [maker, judge]


@WAYS
@pytest.mark.parametrize("frozen", [False, True], ids=["trained", "frozen"])
def test_a_module_whose_parts_are_called(everywhere: bool, frozen: bool, rings: RingFolder) -> None:
    """The outermost called modules are timed, also a frozen backbone, but not without parameters."""
    model = Parts(frozen)
    optimizer = torch.optim.SGD([one for one in model.parameters() if one.requires_grad], lr=0.1)
    for (x,) in attached(everywhere):
        optimizer.zero_grad()
        model.training_step(x).backward()
        optimizer.step()
    assert timed(rings)[4:] == [True] * 8
    assert hooked(model) == [model.encoder, model.heads[0]]


def test_the_named_model_is_not_called_but_its_parts_are(rings: RingFolder) -> None:
    model = Parts()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for (x,) in loaderwatch.attach(loader(20), model=model, optimizer=optimizer):
        optimizer.zero_grad()
        model.training_step(x).backward()
        optimizer.step()
    assert timed(rings)[-10:] == [True] * 10
    assert [step["optimizer_steps"] for step in steps_of(rings)] == [1] * 20
    assert hooked(model) == [model, model.encoder, model.heads[0]]


def test_what_is_named_is_all_that_is_timed(rings: RingFolder) -> None:
    model, other = nn.Linear(4, 2), nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    another = torch.optim.SGD(other.parameters(), lr=0.1)
    for (x,) in loaderwatch.attach(loader(), model=model, optimizer=optimizer):
        (model(x) + other(x)).sum().backward()
        another.step()
        optimizer.step()
    assert timed(rings) == [True] * 12
    assert [step["optimizer_steps"] for step in steps_of(rings)] == [1] * 12
    assert hooked(model, other) == [model]


def test_the_search_ends_when_what_was_named_trains_and_begins_anew_with_the_next(rings: RingFolder) -> None:
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for (x,) in loaderwatch.attach(loader(), model=model, optimizer=optimizer):
        model(x).sum().backward()
        optimizer.step()
    (scouting,) = optimizers._global_optimizer_post_hooks.values()
    inner: Any = partial.func
    assert inner.__get__(scouting).__name__ == "_nothing"
    parts = Parts()
    second = torch.optim.SGD(parts.parameters(), lr=0.1)
    for (x,) in loaderwatch.attach(loader(20), model=parts, optimizer=second):
        second.zero_grad()
        parts.training_step(x).backward()
        second.step()
    assert hooked(parts) == [parts, parts.encoder, parts.heads[0]]


def test_another_model_is_trained_later(rings: RingFolder) -> None:
    """Folds of a cross-validation, each with its own."""
    train = attached()
    for _ in range(3):
        model = nn.Sequential(nn.Linear(4, 2))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for (x,) in train:
            model(x).sum().backward()
            optimizer.step()
        assert hooked(model) == [model]
        del model, optimizer
        gc.collect()
    assert timed(rings) == ([False] + [True] * 11) * 3
    assert [step["optimizer_steps"] for step in steps_of(rings)] == [1] * 36


def test_an_optimizer_that_steps_elsewhere(rings: RingFolder) -> None:
    """Before the training, with another model."""
    warm = nn.Linear(4, 2)
    heater = torch.optim.SGD(warm.parameters(), lr=0.1)
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    train = attached()
    for _ in range(3):
        warm(torch.ones(1, 4)).sum().backward()
        heater.step()
    for (x,) in train:
        model(x).sum().backward()
        optimizer.step()
    assert [step["optimizer_steps"] for step in steps_of(rings)] == [1] * 12
    assert hooked(warm, model) == [model]


def test_nothing_steps(rings: RingFolder) -> None:
    model = nn.Linear(4, 2)
    for (x,) in attached():
        model(x).sum().backward()
        with torch.no_grad():
            for one in model.parameters():
                one -= 0.1 * one.grad  # type: ignore[operator, misc]
    assert {step["forward_ns"] for step in steps_of(rings)} == {UNKNOWN}
    (info,) = rings.processes()
    assert (info.has_optimizer, info.phases_missing) == (False, "optimizer")
    assert not hooked(model)


def test_parameters_without_a_module(rings: RingFolder) -> None:
    weight = nn.Parameter(torch.ones(4))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    for (x,) in attached(batches=30):
        (x * weight).sum().backward()
        optimizer.step()
    (info,) = rings.processes()
    assert (info.has_model, info.has_optimizer, info.phases_missing) == (False, True, "model")


@pytest.mark.skipif(OLD, reason="this PyTorch runs hooks inside compiled functions, so the model is found")
def test_a_model_inside_a_compiled_function(rings: RingFolder) -> None:
    """Hooks are nothing to a compiler."""
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loss: Any = torch.compile(partial(total, model), backend="eager", fullgraph=True)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*torch.jit.script_method", DeprecationWarning)
        for (x,) in attached(batches=30):
            loss(x).backward()
            optimizer.step()
    (info,) = rings.processes()
    assert (info.has_model, info.has_optimizer, info.phases_missing) == (False, True, "model")
    assert {step["forward_ns"] for step in steps_of(rings)} == {UNKNOWN}
    torch._dynamo.reset()


def test_a_compiled_module(rings: RingFolder) -> None:
    """It warns, and recompiles, for global hooks on modules."""
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))
    made: Any = torch.compile(model, backend="eager")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*torch.jit.script_method", DeprecationWarning)
        for (x,) in attached():
            made(x).sum().backward()
            optimizer.step()
    assert timed(rings)[1:] == [True] * 11
    assert hooked(made) == [made]
    torch._dynamo.reset()


def test_many_modules_side_by_side(rings: RingFolder) -> None:
    class Many(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.parts = nn.ModuleList(nn.Linear(4, 4) for _ in range(20))

    model = Many()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for (x,) in attached(batches=30):
        for part in model.parts:
            x = part(x)
        x.sum().backward()
        optimizer.step()
    (info,) = rings.processes()
    assert (info.has_model, info.has_optimizer, info.phases_missing) == (False, True, "many")
    assert not hooked(model)
    assert {step["forward_ns"] for step in steps_of(rings)[5:]} == {UNKNOWN}
    assert {step["optimizer_steps"] for step in steps_of(rings)} == {1}


def test_copies_that_are_made_meanwhile() -> None:
    model = Parts()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    copies: list[Any] = []
    for (x,) in attached():
        model.training_step(x).backward()
        optimizer.step()
        copies += copy.deepcopy(model), pickle.loads(pickle.dumps(model))
        copies[-1].training_step(x)
    loaderwatch.detach()
    assert not hooked(model)
    for one in copies:
        assert one.training_step(torch.ones(2, 4)).requires_grad


def test_detach_takes_everything_out() -> None:
    model = Parts()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for number, (x,) in enumerate(attached()):
        model.training_step(x).backward()
        optimizer.step()
        if number == 1:
            assert hooked(model)
            loaderwatch.detach()
    assert not hooked(model)
    assert not optimizers._global_optimizer_pre_hooks
    assert not optimizers._global_optimizer_post_hooks
    assert not modules._global_forward_pre_hooks
