"""Loaders that were not attached by hand: training and evaluation are distinguished."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor
from torch.optim import optimizer as torch_optimizer
from torch.utils.data import DataLoader, TensorDataset

import loaderwatch
from loaderwatch.agent.loaders import roles
from loaderwatch.core.records import RecordKind
from tests.conftest import RingFolder

Data = DataLoader[tuple[Tensor, ...]]


def data(batches: int, *, shuffle: bool = False) -> Data:
    return DataLoader(TensorDataset(torch.rand(batches, 4)), batch_size=1, shuffle=shuffle)


class Training:
    """A model and its optimizer."""

    def __init__(self) -> None:
        self.model = torch.nn.Linear(4, 1)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)

    def step(self, *batches: Tensor) -> None:
        self.optimizer.zero_grad()
        self.model(torch.cat(batches)).sum().backward()
        self.optimizer.step()


@pytest.fixture(autouse=True)
def everything(data_dir: object, no_streamer: object) -> Iterator[None]:
    loaderwatch.attach()
    yield
    loaderwatch.detach(None)
    assert not torch_optimizer._global_optimizer_post_hooks


def found(rings: RingFolder) -> list[str]:
    return [one.role for one in rings.processes()[0].loaders]


@pytest.mark.parametrize("first", [True, False])
def test_a_second_training_loader_need_not_be_shuffled(rings: RingFolder, first: bool) -> None:
    training = Training()
    labelled, unlabelled = data(8, shuffle=True), data(8)
    pair = (labelled, unlabelled) if first else (unlabelled, labelled)
    for (one,), (other,) in zip(*pair, strict=True):
        training.step(one, other)
    assert found(rings) == ["train", "train"]


def test_loaders_that_train_one_after_the_other(rings: RingFolder) -> None:
    """A curriculum, or distillation on other data."""
    training = Training()
    for loader in (data(8), data(6), data(10)):
        for (batch,) in loader:
            training.step(batch)
    assert found(rings) == ["train"] * 3


def test_evaluation_with_gradients_enabled_around_it_stays_evaluation(rings: RingFolder) -> None:
    """A Trainer's: gradients are off for each batch only, and it lies inside a training step."""
    training = Training()
    train_loader, val_loader = data(40, shuffle=True), data(5)
    for number, (batch,) in enumerate(train_loader):
        training.step(batch)
        if number % 10 == 9:
            for (other,) in val_loader:
                with torch.no_grad():
                    training.model(other)
    assert found(rings) == ["train", "eval"]


def test_evaluation_that_is_left_before_its_step_stays_evaluation(rings: RingFolder) -> None:
    training = Training()
    train_loader, val_loader = data(40, shuffle=True), data(5)
    for number, (batch,) in enumerate(train_loader):
        if number % 10 == 9:
            for count, (other,) in enumerate(val_loader):
                training.model(other)
                if count == 2:
                    break
        training.step(batch)
    assert found(rings) == ["train", "eval"]


def test_nothing_stays_hooked_when_no_guess_is_in_doubt(
    rings: RingFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(roles, "PATIENCE", 20)
    training = Training()
    train_loader, val_loader = data(30, shuffle=True), data(2)
    for _ in val_loader, train_loader:
        for (batch,) in train_loader:
            training.step(batch)
        list(val_loader)
        assert (roles._handle is not None) is (_ is val_loader)
    assert found(rings) == ["train", "eval"]


def test_a_second_pass_of_one_that_trains_after_all_is_a_training_pass(rings: RingFolder) -> None:
    training = Training()
    for (batch,) in data(4, shuffle=True):
        training.step(batch)
    second = data(6)
    for _ in range(2):
        for (batch,) in second:
            training.step(batch)
    assert found(rings) == ["train", "train"]
    assert len(rings.main().of(RecordKind.STEP)) == 16
