"""Trials of real loaders."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset

from loaderwatch.agent.tuning.search import Setting
from loaderwatch.agent.tuning.trial import TrialFailed, tensor_bytes, try_setting
from loaderwatch.core.facts import LoaderTrial
from loaderwatch.core.system import has_proc
from tests.waiting import wait_until

SLEEP_S = 0.01


class Slow(Dataset[torch.Tensor]):
    def __init__(self, length: int = 10_000) -> None:
        self.length = length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(SLEEP_S)
        return torch.zeros(100)


class Broken(Slow):
    def __getitem__(self, index: int) -> torch.Tensor:
        if index >= 8:
            raise KeyError("label")
        return super().__getitem__(index)


class Once(IterableDataset[int]):
    def __init__(self) -> None:
        self.rows = iter(range(6))

    def __iter__(self) -> Iterator[int]:
        return self.rows


def test_speed_and_memory_are_measured() -> None:
    """More workers wait for more samples at a time; how fast exactly depends on the hour."""
    loader = DataLoader(Slow(), batch_size=2)
    alone = try_setting(loader, Setting(0), 0.5)
    assert 0 < alone.batches_per_s <= 1 / (2 * SLEEP_S)

    def faster() -> LoaderTrial | None:
        two = try_setting(loader, Setting(2), 0.5)
        return two if two.batches_per_s > 1.3 * alone.batches_per_s else None

    two = wait_until("two workers are not held up by others", faster)
    assert (alone.prefetch_factor, two.prefetch_factor) == (None, 2)
    assert two.batch_bytes == 2 * 100 * 4
    assert alone.worker_bytes is None
    assert not has_proc() or (two.worker_bytes or 0) > 100_000
    assert alone.wait_ratio is None


def test_with_steps_its_waits_are_measured() -> None:
    loader = DataLoader(Slow(), batch_size=1)

    def waits(workers: int, step_s: float) -> float:
        found = try_setting(loader, Setting(workers), 0.3, step_s=step_s).wait_ratio
        assert found is not None
        return found

    wait_until("neither is held up by others", lambda: waits(2, 5 * SLEEP_S) < 0.5 * waits(0, SLEEP_S))


def test_a_short_epoch_begins_again() -> None:
    found = try_setting(DataLoader(Slow(4), batch_size=2), Setting(0), 0.3)
    assert found.batches > 4
    assert found.batches_per_s <= 1 / (2 * SLEEP_S)


@pytest.mark.parametrize("workers", [0, 1])
def test_what_the_loader_raises_is_told_in_one_line(workers: int) -> None:
    with pytest.raises(TrialFailed, match=rf"num_workers={workers} failed with KeyError: .*label") as caught:
        try_setting(DataLoader(Broken(), batch_size=2), Setting(workers), 5.0)
    assert "\n" not in str(caught.value)


def test_rows_that_come_once_only_cannot_be_compared() -> None:
    with pytest.raises(TrialFailed, match="gives its rows once only"):
        try_setting(DataLoader(Once(), batch_size=2), Setting(0), 5.0)


def test_a_loader_without_batches_is_told_so() -> None:
    with pytest.raises(TrialFailed, match="no batches"):
        try_setting(DataLoader(Slow(3), batch_size=4, drop_last=True), Setting(0), 1.0)


@pytest.mark.parametrize(
    ("batch", "expected"),
    [
        (torch.zeros(3), 12),
        ({"x": torch.zeros(2, 2), "y": [torch.zeros(1), "text"]}, 20),
        ((torch.zeros(1), None), 4),
        ("text", 0),
    ],
)
def test_bytes_of_a_batch(batch: Any, expected: int) -> None:
    assert tensor_bytes(batch) == expected
