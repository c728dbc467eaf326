"""torchdata's StatefulDataLoader, watched: same batches, same state, and a resume from either."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.utils.data import Dataset, IterableDataset
from torchdata.stateful_dataloader import StatefulDataLoader

import loaderwatch
from loaderwatch.core.records import RecordKind
from tests.conftest import RingFolder

pytestmark = [
    pytest.mark.usefixtures("data_dir", "no_streamer"),
    pytest.mark.filterwarnings("ignore:.*use of fork.*:DeprecationWarning"),
    pytest.mark.filterwarnings(
        "ignore:'set_vital' is deprecated:UserWarning"
    ),  # torchdata 0.11 on torch 2.13
]


class Squares(Dataset[torch.Tensor]):
    """Sixty-four numbers."""

    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.tensor([index * index])


class Counter(IterableDataset[torch.Tensor]):
    """A stream that knows where it stands."""

    def __init__(self) -> None:
        self.at = 0

    def __iter__(self) -> Iterator[torch.Tensor]:
        while self.at < 32:
            self.at += 1
            yield torch.tensor([self.at])

    def state_dict(self) -> dict[str, int]:
        return {"at": self.at}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.at = state["at"]


def mapped(workers: int) -> StatefulDataLoader[torch.Tensor]:
    return StatefulDataLoader(Squares(), batch_size=4, shuffle=True, num_workers=workers)


def streamed(workers: int) -> StatefulDataLoader[torch.Tensor]:
    return StatefulDataLoader(Counter(), batch_size=4, num_workers=workers)


def part(loader: StatefulDataLoader[torch.Tensor], most: int) -> tuple[list[Any], dict[str, Any]]:
    """The first batches, and the state after them."""
    batches = []
    for batch in loader:
        batches.append(batch.tolist())
        if len(batches) == most:
            break
    return batches, loader.state_dict()


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("make", [mapped, streamed])
def test_state_and_resume_are_those_of_the_bare_loader(
    make: Callable[[int], StatefulDataLoader[torch.Tensor]], workers: int, rings: RingFolder
) -> None:
    torch.manual_seed(7)
    bare_batches, bare_state = part(make(workers), 5)
    torch.manual_seed(7)
    watched = make(workers)
    assert loaderwatch.attach(watched) is watched
    batches, state = part(watched, 5)
    assert batches == bare_batches
    assert repr(state) == repr(bare_state)

    resumed, plain = make(workers), make(workers)
    loaderwatch.attach(resumed)
    resumed.load_state_dict(state)
    plain.load_state_dict(bare_state)
    rest = [batch.tolist() for batch in resumed]
    assert rest == [batch.tolist() for batch in plain]
    assert rest
    steps = rings.main().of(RecordKind.STEP)
    # The loader keeps the iterator of an epoch that was left early, so its last step is still open.
    assert [step["loader"] for step in steps] == [0] * (len(batches) - 1) + [1] * len(rest)


def test_workers_are_watched(rings: RingFolder) -> None:
    loader = mapped(2)
    loaderwatch.attach(loader)
    assert len(list(loader)) == 16
    fetches = [fetch for ring in rings.workers() for fetch in ring.of(RecordKind.FETCH)]
    assert len(fetches) == 16


def test_watched_without_being_named(rings: RingFolder) -> None:
    """Its ``__iter__`` never comes to DataLoader's."""
    before = StatefulDataLoader.__iter__
    assert loaderwatch.attach() is None
    assert len(list(mapped(2))) == 16
    assert [one.class_name for one in rings.processes()[0].loaders] == ["StatefulDataLoader"]
    assert len(rings.main().of(RecordKind.STEP)) == 16

    class Later(StatefulDataLoader[torch.Tensor]):  # type: ignore[misc] # torchdata ships no types
        """Defined after that, with a way of its own."""

        def __iter__(self) -> Any:
            yield from super().__iter__()

    assert len(list(Later(Squares(), batch_size=4))) == 16
    assert len(rings.main().of(RecordKind.STEP)) == 32
    loaderwatch.detach()
    assert StatefulDataLoader.__iter__ is before
    assert "__init_subclass__" not in vars(torch.utils.data.DataLoader)
