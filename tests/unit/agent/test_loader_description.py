"""What the agent says of a loader's sampler, of its shards, and of the process's thread limits."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch.utils.data import DataLoader, IterableDataset, TensorDataset
from torch.utils.data.distributed import DistributedSampler

import loaderwatch
from loaderwatch.core.facts import LoaderInfo
from tests.conftest import RingFolder

pytestmark = pytest.mark.usefixtures("data_dir", "no_streamer")


def distributed(shuffle: bool = True) -> tuple[DataLoader[tuple[torch.Tensor, ...]], DistributedSampler[int]]:
    dataset = TensorDataset(torch.arange(8))
    sampler: DistributedSampler[int] = DistributedSampler(dataset, num_replicas=2, rank=0, shuffle=shuffle)
    return DataLoader(dataset, batch_size=2, sampler=sampler), sampler


def described(rings: RingFolder) -> LoaderInfo:
    (process,) = rings.processes()
    (info,) = process.loaders
    return info


def test_an_epoch_that_is_never_set_is_noticed(rings: RingFolder) -> None:
    loader, sampler = distributed()
    loaderwatch.attach(loader)
    assert described(rings).distributed is True
    assert described(rings).sampler_class == "DistributedSampler"
    assert described(rings).same_epoch_passes is None
    for passes in (1, 2, 3, 3):
        list(loader)
        assert described(rings).same_epoch_passes == passes
    sampler.set_epoch(1)
    list(loader)
    assert described(rings).same_epoch_passes == 1


def test_an_epoch_that_is_set_is_fine(rings: RingFolder) -> None:
    loader, sampler = distributed()
    loaderwatch.attach(loader)
    for epoch in range(4):
        sampler.set_epoch(epoch)
        list(loader)
    assert described(rings).same_epoch_passes == 1


def test_order_without_shuffling_does_not_depend_on_the_epoch(rings: RingFolder) -> None:
    loader, _ = distributed(shuffle=False)
    loaderwatch.attach(loader)
    list(loader)
    list(loader)
    assert described(rings).same_epoch_passes is None


def test_a_plain_loader_is_not_distributed(rings: RingFolder) -> None:
    loaderwatch.attach(DataLoader(TensorDataset(torch.arange(8))))
    assert described(rings).distributed is False


class Sharded(IterableDataset[int]):
    """Says into how many parts it divides, as Hugging Face's do."""

    num_shards = 6

    def __iter__(self) -> Iterator[int]:
        return iter(range(8))

    def shard(self, num_shards: int, index: int) -> Sharded:
        return self


class Files(IterableDataset[int]):
    """Has files and deals out samples, as mosaicml-streaming: any worker reads any part of any file."""

    num_shards = 6
    shards = ("a.mds",) * 6

    def __iter__(self) -> Iterator[int]:
        return iter(range(8))


class Early(IterableDataset[int]):
    """As Hugging Face's were before they had ``shard``."""

    n_shards = 5

    def __iter__(self) -> Iterator[int]:
        return iter(range(8))


Early.__module__ = "datasets.iterable_dataset"


@pytest.mark.parametrize(("stream", "shards"), [(Sharded, 6), (Files, None), (Early, 5)])
def test_shards_of_a_stream(
    rings: RingFolder, stream: type[IterableDataset[int]], shards: int | None
) -> None:
    loaderwatch.attach(DataLoader(stream()))
    assert described(rings).shards == shards
