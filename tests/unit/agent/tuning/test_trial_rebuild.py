"""A loader made like another one gives the same batches, with other workers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    IterableDataset,
    SequentialSampler,
    get_worker_info,
)

from loaderwatch.agent.tuning.search import Setting
from loaderwatch.agent.tuning.trial import most_workers, rebuilt, setting_of


class Numbers(Dataset[torch.Tensor]):
    def __len__(self) -> int:
        return 20

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.tensor(float(index))


class Stream(IterableDataset[int]):
    def __iter__(self) -> Iterator[int]:
        yield from range(10)


class SplitStream(IterableDataset[int]):
    def __iter__(self) -> Iterator[int]:
        info = get_worker_info()
        first, step = (info.id, info.num_workers) if info else (0, 1)
        yield from range(first, 10, step)


def doubled(rows: list[torch.Tensor]) -> torch.Tensor:
    return 2 * torch.stack(rows)


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(7)


MADE: dict[str, dict[str, Any]] = {
    "plain": {"batch_size": 3},
    "shuffled": {"batch_size": 3, "shuffle": True, "drop_last": True},
    "collated": {"batch_size": 4, "collate_fn": doubled},
    "sampled": {"batch_sampler": BatchSampler(SequentialSampler(Numbers()), 6, False)},
    "single": {"batch_size": None},
}


@pytest.mark.parametrize("name", MADE)
@pytest.mark.parametrize("workers", [0, 2])
def test_it_gives_the_same_batches(name: str, workers: int) -> None:
    loader: Any = DataLoader(Numbers(), generator=generator(), **MADE[name])
    expected = [batch.tolist() for batch in loader]
    loader.generator.manual_seed(7)
    sampler = getattr(loader.sampler, "generator", None)
    if sampler is not None:
        sampler.manual_seed(7)
    assert [batch.tolist() for batch in rebuilt(loader, Setting(workers, 3))] == expected


def test_the_setting_is_the_one_that_was_asked_for() -> None:
    loader: Any = DataLoader(
        Numbers(), batch_size=2, num_workers=2, prefetch_factor=5, timeout=9, persistent_workers=True
    )
    assert setting_of(loader) == Setting(2, 5)
    made = rebuilt(loader, Setting(1, 7))
    assert (made.num_workers, made.prefetch_factor, made.timeout, made.persistent_workers) == (1, 7, 9, False)
    alone = rebuilt(loader, Setting(0))
    assert (alone.num_workers, alone.timeout) == (0, 0)
    assert setting_of(DataLoader(Numbers())) == Setting(0, 2)


def test_a_stream_that_nobody_splits_has_one_worker_at_most() -> None:
    assert most_workers(DataLoader(Stream())) == 1
    assert most_workers(DataLoader(SplitStream())) is None
    assert most_workers(DataLoader(Numbers())) is None
    made = rebuilt(DataLoader(SplitStream(), batch_size=5, num_workers=0), Setting(2))
    assert sorted(int(row) for batch in made for row in batch) == list(range(10))
