"""A loop that takes batches from several loaders: its time is counted once, and so are its steps."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import islice, pairwise

import pytest
import torch
from torch.utils.data import DataLoader, Dataset

import loaderwatch
from loaderwatch.core.records import UNKNOWN, RecordKind
from tests.conftest import RingFolder
from tests.waiting import Stopwatch

pytestmark = pytest.mark.usefixtures("data_dir", "no_streamer")

READ_S, WORK_S = 0.012, 0.02
Loader = DataLoader[torch.Tensor]
Loop = Iterator[None]


class Samples(Dataset[torch.Tensor]):
    def __init__(self, length: int) -> None:
        self.length = length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(READ_S)
        return torch.ones(4)


def loader(batches: int, role: str = "train") -> Loader:
    return loaderwatch.attach(DataLoader(Samples(batches), batch_size=1), role=role)


def zipped() -> Loop:
    """Labelled and unlabelled data, say."""
    for _ in zip(loader(6), loader(6), strict=True):
        yield


def zipped_three() -> Loop:
    for _ in zip(loader(6), loader(6), loader(6), strict=True):
        yield


def fetched_inside() -> Loop:
    """The second loader begins first, and goes on over the epochs of the other."""
    endless = iter(loader(20))
    labelled = loader(3)
    for _ in range(2):
        for _ in labelled:
            next(endless)
            yield


def peeked_at() -> Loop:
    """As in many a tutorial: one batch is looked at, and its iterator lives on."""
    train = loader(6)
    first = iter(train)
    next(first)
    for _ in train:
        yield
    del first


def inner_loop() -> Loop:
    """Two steps for each task."""
    tasks, samples = loader(3), loader(2)
    for _ in tasks:
        for _ in samples:
            yield


def one_after_the_other() -> Loop:
    for one in (loader(3), loader(3)):
        for _ in one:
            yield


def left_and_taken_up() -> Loop:
    for _ in range(2):
        yield from (None for _ in islice(loader(4), 3))


LOOPS: tuple[tuple[Callable[[], Loop], int], ...] = (
    (zipped, 6),
    (zipped_three, 6),
    (fetched_inside, 6),
    (peeked_at, 6),
    (inner_loop, 6),
    (one_after_the_other, 6),
    (left_and_taken_up, 6),
)


@pytest.mark.parametrize(("loop", "rounds"), LOOPS, ids=[loop.__name__ for loop, _ in LOOPS])
def test_time_and_steps_are_counted_once(loop: Callable[[], Loop], rounds: int, rings: RingFolder) -> None:
    worked, around = Stopwatch(), Stopwatch()
    with around():
        for _ in loop():
            with worked():
                time.sleep(WORK_S)
    assert len(worked.taken_ns) == rounds
    main = rings.main()
    rows = main.of(RecordKind.STEP)
    steps_ns = sum(max(0, row["step_ns"]) for row in rows)
    waits_ns = sum(row["wait_ns"] for row in rows)
    assert worked.total_ns <= steps_ns
    assert steps_ns + waits_ns <= around.total_ns  # counted twice it would be more
    for row in rows:
        if row["step_ns"] != UNKNOWN:
            assert row["nested_ns"] >= 0
            assert row["wait_ns"] >= 0.9 * READ_S * 1e9
    counted = sum(1 if row["optimizer_steps"] == UNKNOWN else row["optimizer_steps"] for row in rows)
    assert main.span is not None
    assert counted == main.span.steps == rounds


def test_the_whole_time_between_two_batches_stays_known(rings: RingFolder) -> None:
    """How long a loader has for its next batch, whatever the loop does until then."""
    for _ in zip(loader(4), loader(4), strict=True):
        time.sleep(WORK_S)
    rows = rings.main().of(RecordKind.STEP)
    for number in (0, 1):
        own = [row for row in rows if row["loader"] == number]
        assert len(own) == 4
        for row, following in pairwise(own):
            until_ns = following["request_ns"] - row["request_ns"] - row["wait_ns"]
            assert row["step_ns"] + row["nested_ns"] == until_ns > (WORK_S + READ_S) * 1e9


@pytest.mark.parametrize("first", [True, False])
def test_phases_are_those_of_the_step_with_the_work(first: bool, rings: RingFolder) -> None:
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    one = loaderwatch.attach(DataLoader(Samples(5), batch_size=1), model=model, optimizer=optimizer)
    two = loader(5)  # nobody says again what the model is
    if not first:
        one, two = two, one
    for x, y in zip(one, two, strict=True):
        optimizer.zero_grad()
        model(x + y).sum().backward()
        time.sleep(WORK_S)
        optimizer.step()
    main = rings.main()
    assert main.span is not None
    assert main.span.steps == 5
    rows = main.of(RecordKind.STEP)
    known = [row for row in rows if row["forward_ns"] > 0]
    assert [row["optimizer_steps"] for row in known] == [1] * 5
    assert all(row["step_ns"] >= WORK_S * 1e9 for row in known)
    assert all(
        0 < row["forward_ns"] + row["backward_ns"] + row["optimizer_ns"] <= row["step_ns"] for row in known
    )
    assert sum(max(0, row["optimizer_steps"]) for row in rows) == 5


@pytest.mark.parametrize("first", [True, False])
def test_steps_of_an_optimizer_are_counted_without_a_model(first: bool, rings: RingFolder) -> None:
    weight = torch.nn.Parameter(torch.ones(4))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    one = loaderwatch.attach(DataLoader(Samples(5), batch_size=1), optimizer=optimizer)
    two = loader(5)
    if not first:
        one, two = two, one
    for number, (x, y) in enumerate(zip(one, two, strict=True)):
        (weight * (x + y)).sum().backward()
        if number % 2:
            optimizer.step()
    main = rings.main()
    rows = main.of(RecordKind.STEP)
    assert main.span is not None
    assert main.span.steps == 2
    assert (
        sum(row["optimizer_steps"] for row in rows[:-1]) == 2
    )  # the last one is left in the middle of a zip


def test_validation_inside_a_step_is_not_that_step(rings: RingFolder) -> None:
    train, check = loader(2), loader(3, role="eval")
    around, checked = Stopwatch(), Stopwatch()
    with around():
        for _ in train:
            time.sleep(WORK_S)
            for _ in check:
                with checked():
                    time.sleep(2 * WORK_S)
    mine = [row for row in rings.main().of(RecordKind.STEP) if row["loader"] == 0]
    for row in mine:
        assert row["step_ns"] / 1e9 >= WORK_S
        assert row["nested_ns"] / 1e9 >= 3 * (2 * WORK_S + READ_S)
    assert sum(row["step_ns"] for row in mine) <= around.total_ns - checked.total_ns
    for row in rings.main().of(RecordKind.STEP):
        if row["loader"] != 0:
            assert row["step_ns"] / 1e9 >= 2 * WORK_S


def evaluated_inside() -> Loop:
    train, check = loader(3), loader(4, role="eval")
    for _ in train:
        yield
        for _ in check:
            pass


def evaluated_between() -> Loop:
    """And looked at first, with an iterator that lives on."""
    train, check = loader(3), loader(4, role="eval")
    sanity = iter(check)
    next(sanity)
    for _ in range(2):
        for _ in train:
            yield
        for _ in check:
            pass
    del sanity


def evaluated_beside() -> Loop:
    """A batch of each in every round."""
    for _ in zip(loader(4, role="eval"), loader(4), strict=True):
        yield


@pytest.mark.parametrize(
    ("loop", "steps"), [(evaluated_inside, 3), (evaluated_between, 6), (evaluated_beside, 4)]
)
def test_batches_of_an_evaluation_are_no_steps(
    loop: Callable[[], Loop], steps: int, rings: RingFolder
) -> None:
    for _ in loop():
        pass
    main = rings.main()
    assert main.span is not None
    assert main.span.steps == steps
    rows = [
        row for row in main.of(RecordKind.STEP) if rings.processes()[0].loaders[row["loader"]].role == "train"
    ]
    assert sum(1 if row["optimizer_steps"] == UNKNOWN else row["optimizer_steps"] for row in rows) == steps
