"""A recreated loader counts as one loader: its epochs count on, with a gap between them."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

import loaderwatch
from loaderwatch.agent.launcher import ondemand
from loaderwatch.agent.loaders import construction
from loaderwatch.agent.loaders.lineage import MOST_VARIANTS
from loaderwatch.agent.session import current_session
from loaderwatch.core.records import UNKNOWN, IterKind, RecordKind
from tests.conftest import RingFolder

pytestmark = [
    pytest.mark.usefixtures("data_dir", "no_streamer"),
    pytest.mark.filterwarnings("ignore:.*use of fork.*:DeprecationWarning"),
]
DATA = TensorDataset(torch.arange(12))


def epochs(rings: RingFolder) -> list[tuple[int, int, int]]:
    """Loader, number and batches of every epoch that ended."""
    return [(one["loader"], one["epoch"], one["batches"]) for one in rings.main().of(RecordKind.EPOCH_END)]


def names(rings: RingFolder) -> list[str]:
    (info,) = rings.processes()
    return [one.name for one in info.loaders]


def attached() -> Iterator[DataLoader[Any]]:
    while True:
        loader = loaderwatch.attach(DataLoader(DATA, 4))
        yield loader


def found() -> Iterator[DataLoader[Any]]:
    loaderwatch.attach()
    while True:
        loader = DataLoader(DATA, 4)
        yield loader


def run() -> Iterator[DataLoader[Any]]:
    ondemand.install()
    while True:
        loader = DataLoader(DATA, 4)
        yield loader


@pytest.mark.parametrize("made", [attached, found, run])
@pytest.mark.parametrize("held", [False, True])
def test_in_every_epoch(made: Callable[[], Iterator[Any]], held: bool, rings: RingFolder) -> None:
    """Also where something holds on to all of them, as accelerate does."""
    every = []
    makes = made()
    for _ in range(5):
        loader = next(makes)
        assert len(list(loader)) == 3
        if held:
            every.append(loader)
    assert epochs(rings) == [(0, number, 3) for number in range(5)]
    gaps = [one["gap_ns"] for one in rings.main().of(RecordKind.EPOCH_BEGIN)]
    assert gaps[0] == UNKNOWN
    assert all(gap > 0 for gap in gaps[1:])
    assert len(names(rings)) == 1


def test_with_its_data_and_workers(rings: RingFolder) -> None:
    loaderwatch.attach()
    for _ in range(3):
        loader = DataLoader(TensorDataset(torch.arange(12)), 4, num_workers=1)
        for _ in range(2):
            list(loader)
    assert epochs(rings) == [(0, number, 3) for number in range(6)]
    kinds = [one["iter_kind"] for one in rings.main().of(RecordKind.EPOCH_BEGIN)]
    assert kinds == [
        IterKind.STARTED,
        IterKind.STARTED,
        IterKind.REBUILT,
        IterKind.STARTED,
        IterKind.REBUILT,
        IterKind.STARTED,
    ]


def test_two_of_one_line_are_two(rings: RingFolder) -> None:
    loaderwatch.attach()
    pair = [DataLoader(DATA, 4) for _ in range(2)]
    for _ in range(2):
        for loader in pair:
            assert len(list(loader)) == 3
    assert epochs(rings) == [(0, 0, 3), (1, 0, 3), (0, 1, 3), (1, 1, 3)]


def test_two_that_are_attached_on_one_line_are_two(rings: RingFolder) -> None:
    pair = [DataLoader(DATA, 4) for _ in range(2)]
    for _ in range(2):
        for loader in pair:
            assert len(list(loaderwatch.attach(loader))) == 3
    assert epochs(rings) == [(0, 0, 3), (1, 0, 3), (0, 1, 3), (1, 1, 3)]


def test_two_sets_that_are_validated_in_turns_are_two(rings: RingFolder) -> None:
    loaderwatch.attach()
    sets = [TensorDataset(torch.arange(12)) for _ in range(2)]
    for _ in range(3):
        for one in sets:
            with torch.no_grad():
                list(DataLoader(one, 4))
    assert [one[:2] for one in epochs(rings)] == [(0, 0), (1, 0), (0, 1), (1, 1), (0, 2), (1, 2)]


def test_iterators_whose_loaders_are_gone_are_several(rings: RingFolder) -> None:
    loaderwatch.attach()
    pair = [iter(DataLoader(DATA, 4)) for _ in range(2)]
    assert len(list(zip(*pair, strict=True))) == 3
    assert {one[0] for one in epochs(rings)} == {0, 1}


def test_pairs_that_are_made_anew_are_two(rings: RingFolder) -> None:
    loaderwatch.attach()
    for _ in range(3):
        pair = [DataLoader(DATA, 4) for _ in range(2)]
        assert len(list(zip(*pair, strict=True))) == 3
    assert sorted(one[:2] for one in epochs(rings)) == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]


def test_the_one_before_comes_back(rings: RingFolder) -> None:
    """It was taken for gone, and has a number of its own from then on."""
    loaderwatch.attach()
    kept = []
    for _ in range(2):
        kept.append(DataLoader(DATA, 4))
        list(kept[-1])
    list(kept[0])
    list(kept[1])
    assert [one[:2] for one in epochs(rings)] == [(0, 0), (0, 1), (1, 0), (0, 2)]


def test_for_every_step(rings: RingFolder) -> None:
    loaderwatch.attach()
    for _ in range(20):
        next(iter(DataLoader(DATA, 4)))
    assert [one[:2] for one in epochs(rings)] == [(0, number) for number in range(20)]


def test_data_that_grows(rings: RingFolder) -> None:
    """A replay buffer, say. The list of loaders does not grow with it."""
    loaderwatch.attach()
    for size in range(1, 60):
        list(DataLoader(TensorDataset(torch.arange(size)), 4))
        gc.collect(0)
    session = current_session()
    assert session is not None
    assert len(session.info.loaders) <= 1 + MOST_VARIANTS
    assert len(epochs(rings)) == 59


def test_other_iterables(rings: RingFolder) -> None:
    class Pipe:
        def __iter__(self) -> Iterator[int]:
            return iter(range(3))

    for _ in range(4):
        pipe = loaderwatch.attach(Pipe())
        assert list(pipe) == [0, 1, 2]
    assert epochs(rings) == [(0, number, 3) for number in range(4)]


def test_what_the_script_calls_it(rings: RingFolder) -> None:
    loaderwatch.attach()

    def make_val_loader() -> DataLoader[Any]:
        return DataLoader(DATA, 3)

    class Trainer:
        def __init__(self) -> None:
            self.test_loader = DataLoader(DATA, 4)

    class Sub(DataLoader[Any]):
        def __init__(self) -> None:
            super().__init__(DATA, 5)

    trainer = Trainer()
    train_loader = DataLoader(DATA, 2, shuffle=True)
    loaders: dict[str, Any] = {}
    loaders["dev"] = Sub()
    checked = make_val_loader()
    loader = DataLoader(DATA, 6)
    for one in (train_loader, trainer.test_loader, loaders["dev"], checked, loader, make_val_loader()):
        list(one)
    assert names(rings) == [
        "train_loader",
        "test_loader",
        "loaders['dev']",
        "checked",
        "validation loader (TensorDataset)",
        "make_val_loader",
    ]


def test_its_constructor_is_given_back(rings: RingFolder) -> None:
    before = DataLoader.__init__
    loaderwatch.attach()
    assert DataLoader.__init__ is not before
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'dataset'") as caught:
        DataLoader()  # type: ignore[call-arg]
    assert len(caught.traceback) == 1
    loaderwatch.detach()
    assert DataLoader.__init__ is before
    assert not construction._made


def test_from_where_it_is_iterated(rings: RingFolder) -> None:
    """By the innermost calls of the script: those of an evaluation, or of another thread, are not noted."""
    loader, checks = DataLoader(DATA, 4), DataLoader(DATA, 4)
    loaderwatch.attach(loader)
    loaderwatch.attach(checks, role="eval")

    def one_pass(of: DataLoader[Any]) -> None:
        for _batch in of:
            pass

    def noted() -> list[tuple[str, int]]:
        (info,) = rings.processes()
        inner = [call for call in info.calls if call.file == __file__]
        return [(call.function, call.line - first) for call in inner[-2:]]

    first = one_pass.__code__.co_firstlineno
    assert noted() == []
    one_pass(loader)
    at = noted()
    assert at[-1] == ("one_pass", 1)
    assert at[0][0] == "test_from_where_it_is_iterated"
    (info,) = rings.processes()
    assert {call.file for call in info.calls} == {__file__}, "not what runs it, which has loops as well"
    one_pass(checks)
    thread = threading.Thread(target=one_pass, args=(loader,))
    thread.start()
    thread.join()
    assert noted() == at
    one_pass(loader)
    assert noted()[0][1] > at[0][1], "it is called from another line now"
