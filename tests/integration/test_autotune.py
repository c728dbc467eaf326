"""``attach(loader, autotune=True)`` with real DataLoaders: settings change between epochs, batches do not."""

from __future__ import annotations

import contextlib
import itertools
import random
import time
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, IterableDataset

import loaderwatch
from tests.conftest import RingFolder

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("data_dir", "no_streamer")]

EPOCHS = 4


class Latency(Dataset[Tensor]):
    """Samples that wait, as for storage, and are augmented: index, and two numbers of each generator."""

    def __init__(self, sleep_s: float = 0.01) -> None:
        self.sleep_s = sleep_s

    def __len__(self) -> int:
        return 120

    def __getitem__(self, index: int) -> Tensor:
        time.sleep(self.sleep_s)
        return torch.tensor([index, torch.rand(()).item(), random.random()])


class Stream(IterableDataset[int]):
    """Does not deal its rows out among workers."""

    def __iter__(self) -> Iterator[int]:
        for number in range(60):
            time.sleep(0.005)
            yield number


def made(workers: int, **more: Any) -> DataLoader[Tensor]:
    torch.manual_seed(1)
    random.seed(1)
    return DataLoader(Latency(), batch_size=4, shuffle=True, num_workers=workers, **more)


@contextlib.contextmanager
def many_workers_allowed() -> Iterator[None]:
    """Without PyTorch's warning of more workers than CPUs."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def settings(loader: DataLoader[Any]) -> tuple[int, int | None]:
    return loader.num_workers, loader.prefetch_factor


def test_batches_are_those_of_a_run_that_has_these_settings(rings: RingFolder) -> None:
    loader = loaderwatch.attach(made(1), autotune=True)
    got, used = [], []
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # PyTorch's of more workers than CPUs among them
        for _ in range(EPOCHS):
            got.append(torch.cat(list(loader)))
            used.append(settings(loader))
    assert used[0] == (1, 2)
    assert max(workers for workers, _ in used) > 1  # a pass that others held up is taken back
    assert all(after <= 2 * before for (before, _), (after, _) in itertools.pairwise(used))
    loaderwatch.detach(None)

    with many_workers_allowed():
        bare = made(1)
        for batches, (workers, prefetch) in zip(got, used, strict=True):
            bare.num_workers, bare.prefetch_factor = workers, prefetch
            assert torch.equal(torch.cat(list(bare)), batches)

    told = rings.processes()[0].loaders[0]
    assert (told.num_workers, told.prefetch_factor) == used[-1]
    assert told.autotuned is not None
    assert told.autotuned.startswith("before epoch ")
    assert "num_workers" in told.autotuned


def test_kept_workers_start_anew_and_the_order_stays(rings: RingFolder) -> None:
    loader = loaderwatch.attach(made(1, persistent_workers=True), autotune=True)
    got, pids, used = [], [], []
    for _ in range(EPOCHS):
        got.append(torch.cat(list(loader))[:, 0])
        used.append(loader.num_workers)
        kept: Any = loader._iterator
        pids.append({worker.pid for worker in kept._workers})
        assert len(pids[-1]) == loader.num_workers
    assert max(used) > 1
    assert loader.generator is None
    loaderwatch.detach(None)
    assert all(before == after or not before & after for before, after in itertools.pairwise(pids))

    with many_workers_allowed():
        bare = made(loader.num_workers, persistent_workers=True)
        for order in got:
            assert torch.equal(torch.cat(list(bare))[:, 0], order)


def test_without_workers_some_are_started() -> None:
    loader = loaderwatch.attach(made(0), autotune=True)
    used = []
    for _ in range(3):
        list(loader)
        used.append(settings(loader))
    assert max(workers for workers, _ in used) >= 2
    assert all((prefetch is not None) == (workers > 0) for workers, prefetch in used)


def test_a_stream_that_does_not_deal_its_rows_out_keeps_its_worker() -> None:
    loader: DataLoader[int] = loaderwatch.attach(DataLoader(Stream(), num_workers=1), autotune=True)
    for _ in range(3):
        assert [int(row) for row in loader] == list(range(60))
    assert loader.num_workers == 1


def test_a_loader_that_is_made_anew_for_each_epoch_gets_the_settings_again(rings: RingFolder) -> None:
    def epoch() -> int:
        loader = loaderwatch.attach(made(1), autotune=True)
        list(loader)
        return loader.num_workers

    assert max(epoch() for _ in range(EPOCHS)) > 1
    assert len(rings.processes()[0].loaders) == 1


def test_what_the_script_sets_is_measured_before_it_is_moved() -> None:
    loader = loaderwatch.attach(made(1), autotune=True)
    list(loader)
    loader.num_workers = 2
    list(loader)
    assert loader.num_workers == 2


def test_while_another_pass_goes_on_nothing_is_moved() -> None:
    loader = loaderwatch.attach(made(1, persistent_workers=False), autotune=True)
    outer = iter(loader)
    for _ in range(2):
        list(loader)
        assert loader.num_workers == 1
    assert len(list(outer)) == len(loader)


def test_a_loader_that_is_fed_is_left_alone() -> None:
    loader = loaderwatch.attach(
        DataLoader(Latency(0.0), batch_size=8, num_workers=1, prefetch_factor=4), autotune=True
    )
    for _ in range(3):
        for _ in loader:
            time.sleep(0.15)  # so long that a worker which others hold up keeps up as well
    assert settings(loader) == (1, 4)


def test_only_a_dataloader_can_be_tuned() -> None:
    with pytest.raises(ValueError, match="autotune needs a PyTorch DataLoader"):
        loaderwatch.attach([1, 2], autotune=True)
    with pytest.raises(ValueError, match="autotune needs a PyTorch DataLoader"):
        loaderwatch.attach(autotune=True)
    with pytest.raises(TypeError, match="autotune is 'yes'"):
        loaderwatch.attach(made(0), autotune="yes")  # type: ignore[arg-type]
