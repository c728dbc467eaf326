"""Loaders that are iterated in place of the one that was attached, as frameworks make them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.utils.data import BatchSampler, DataLoader, IterableDataset, TensorDataset

import loaderwatch
from loaderwatch.agent.guard import guard
from loaderwatch.agent.loaders import substitutes
from loaderwatch.core.records import RecordKind
from tests.conftest import RingFolder

pytestmark = pytest.mark.usefixtures("data_dir", "no_streamer")


class Stream(IterableDataset[int]):
    """Ten numbers."""

    def __iter__(self) -> Iterator[int]:
        return iter(range(10))


class Part(IterableDataset[int]):
    """Every second one of a stream's."""

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset

    def __iter__(self) -> Iterator[int]:
        return (number for number in self.dataset if number % 2)


class Half(BatchSampler):
    """The first batches of a sampler's."""

    def __init__(self, batch_sampler: Any) -> None:
        self.batch_sampler = batch_sampler

    def __iter__(self) -> Iterator[list[int]]:
        return iter(list(self.batch_sampler)[:3])

    def __len__(self) -> int:
        return 3


def epochs(rings: RingFolder) -> list[tuple[int, int]]:
    """Loader and batches of every epoch that ended."""
    return [(one["loader"], one["batches"]) for one in rings.main().of(RecordKind.EPOCH_END)]


def numbers(**how: Any) -> DataLoader[Any]:
    return DataLoader(TensorDataset(torch.arange(12)), **{"batch_size": 2, **how})


def test_one_that_draws_from_the_same_batch_sampler(rings: RingFolder) -> None:
    loader = loaderwatch.attach(numbers(), name="mine")
    made = numbers(batch_size=1, batch_sampler=Half(loader.batch_sampler), num_workers=1)
    del loader
    assert len(list(made)) == len(list(made)) == 3
    assert epochs(rings) == [(0, 3), (0, 3)]
    assert len(rings.workers()) == 2
    (info,) = rings.processes()
    assert [one.name for one in info.loaders] == ["mine"]


def test_one_that_reads_the_same_stream(rings: RingFolder) -> None:
    loader = loaderwatch.attach(DataLoader(Stream(), 2))
    assert len(list(DataLoader(Part(loader.dataset), 1))) == 5
    assert epochs(rings) == [(0, 5)]


def test_one_that_is_made_by_calling_its_class(rings: RingFolder) -> None:
    """As Lightning does to give each rank its part. It is described anew."""
    loader = loaderwatch.attach(numbers(), name="mine")
    for _ in range(2):
        made = type(loader)(loader.dataset, 4, sampler=range(8))
        assert len(list(made)) == 2
    assert epochs(rings) == [(0, 2), (0, 2)]
    assert len(rings.main().of(RecordKind.STEP)) == 4
    (info,) = rings.processes()
    assert [(one.name, one.batch_size, one.sampler_class) for one in info.loaders] == [("mine", 4, "range")]


def test_others_are_left_alone(rings: RingFolder) -> None:
    """Of the same dataset, or of a stream that the attached one reads itself."""
    loader, stream = loaderwatch.attach(numbers()), loaderwatch.attach(DataLoader(Stream(), 2))
    other = DataLoader(loader.dataset, 3)
    assert (len(list(other)), len(list(loader)), len(list(stream))) == (4, 6, 5)
    assert len(list(DataLoader(stream.dataset, 5))) == 2
    assert epochs(rings) == [(0, 6), (1, 5)]
    assert type(other) is DataLoader


def test_attached_anew_in_every_epoch(rings: RingFolder) -> None:
    """What is remembered of loaders that are gone does not add up."""
    data = TensorDataset(torch.arange(12))
    for _ in range(5):
        assert len(list(loaderwatch.attach(DataLoader(data, 4)))) == 3
    assert epochs(rings) == [(0, 3)] * 5
    assert len(substitutes._attached) <= 2


def test_a_dataset_that_cannot_be_asked(rings: RingFolder) -> None:
    class Secretive(DataLoader[Any]):
        def __getattribute__(self, name: str) -> Any:
            if name in ("dataset", "batch_sampler") and hidden:
                raise RuntimeError("not yours")
            return super().__getattribute__(name)

    loaderwatch.attach(numbers())
    hidden = False
    other = Secretive(TensorDataset(torch.arange(4)), 2, sampler=range(4))
    iterator = iter(other)
    hidden = True
    with pytest.raises(RuntimeError, match="not yours"):
        iter(other)  # PyTorch asks, too
    hidden = False
    assert (len(list(iterator)), len(list(other))) == (2, 2)
    assert rings.main().of(RecordKind.STEP) == []


def test_detached_with_the_one_they_stand_for(rings: RingFolder) -> None:
    before = DataLoader.__iter__
    loader = loaderwatch.attach(numbers())
    made = numbers(batch_size=1, batch_sampler=loader.batch_sampler)
    list(made)
    loaderwatch.detach(loader)
    assert type(made) is type(loader) is DataLoader
    assert DataLoader.__iter__ is before
    list(made)
    assert epochs(rings) == [(0, 6)]


def test_detached_before_it_was_iterated(rings: RingFolder) -> None:
    loader = loaderwatch.attach(numbers())
    made = type(loader)(loader.dataset, 4)
    loaderwatch.detach(made)
    assert type(made) is DataLoader
    assert len(list(loader)) == 6
    assert epochs(rings) == [(0, 6)]


def test_an_optimizer_by_name_only(rings: RingFolder) -> None:
    """accelerate's: a subclass that never called its parent, around the one that steps."""

    class Outer(torch.optim.Optimizer):
        def __init__(self, optimizer: torch.optim.Optimizer) -> None:
            self.optimizer = optimizer

        def step(self, closure: Any = None) -> Any:
            return self.optimizer.step(closure)

    weight = torch.nn.Parameter(torch.ones(1))
    optimizer = Outer(torch.optim.SGD([weight], lr=0.1))
    for (x,) in loaderwatch.attach(numbers(), optimizer=optimizer):
        (weight * x.sum()).backward()
        optimizer.step()
    steps = rings.main().of(RecordKind.STEP)
    assert [step["optimizer_steps"] for step in steps] == [1] * 6


def test_a_fault_with_the_optimizer_does_not_cost_the_loader(
    rings: RingFolder, capfd: pytest.CaptureFixture[str]
) -> None:
    class Broken:
        def step(self) -> None:
            pass

        def register_step_pre_hook(self, hook: Any) -> Any:
            raise RuntimeError("no hooks here")

    list(loaderwatch.attach(numbers(), optimizer=Broken()))
    assert epochs(rings) == [(0, 6)]
    (fault,) = guard.reset()
    assert "no hooks here" in str(fault)
    assert "cannot watch all that attach was given" in capfd.readouterr().err
