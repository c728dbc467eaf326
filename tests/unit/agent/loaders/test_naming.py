"""What loaders are called, and what the names say."""

from __future__ import annotations

import pytest
from torch.utils.data import DataLoader

from loaderwatch.agent.loaders.naming import name_of, names_evaluation, unique
from tests.unit.detect.build import loader as info


def make() -> DataLoader[int]:
    return DataLoader([1, 2, 3])  # type: ignore[arg-type]


class Trainer:
    def __init__(self) -> None:
        self.valid_loader = make()

    def name(self) -> str:
        return name_of(self.valid_loader)


def test_the_outermost_name_an_attribute_or_a_key() -> None:
    def inner(loader: DataLoader[int]) -> str:
        return name_of(loader)

    mine = make()
    assert inner(mine) == "mine"
    assert Trainer().name() == "valid_loader"
    by_phase = {"train": make(), "val": make()}
    assert inner(by_phase["val"]) == "by_phase['val']"


def test_a_loader_nobody_holds_is_called_by_its_dataset() -> None:
    assert [name_of(one) for one in (make(),)] == ["one"]
    called = name_of(make())
    assert called == "list"


@pytest.mark.parametrize(
    "name", ["val", "val_loader", "validLoader", "testloader", "TestSet", "eval_2", "dev", "loaders['dev']"]
)
def test_names_of_evaluation(name: str) -> None:
    assert names_evaluation(name)


@pytest.mark.parametrize(
    "name",
    ["train_loader", "retrieval_stream", "latest", "device_batches", "key_values", "interval", "DataLoader"],
)
def test_names_of_anything_else(name: str) -> None:
    assert not names_evaluation(name)


def test_names_are_unique() -> None:
    assert unique("a", [info(name="a"), info(name="a-2")]) == "a-3"
