"""S01's sibling: no workers; the stream unpacks a row group at a time: a burst of CPU, then quick batches."""

import zlib
from collections.abc import Iterator

import torch
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset

import loaderwatch
from tests.scenarios.training import burn, train, vary

rows, unpack_s = vary(240, 320), vary(1.5, 1.2)
packed = zlib.compress(bytes(range(256)) * 64)


class RowGroups(IterableDataset[Tensor]):
    """Rows of a file whose groups are unpacked as a whole."""

    def __iter__(self) -> Iterator[Tensor]:
        for _group in range(200):
            burn(unpack_s)
            values = zlib.decompress(packed)
            for row in range(rows):
                yield torch.full((16,), float(values[row]))


loader = loaderwatch.attach(DataLoader(RowGroups(), batch_size=8))
train(loader, step_s=0.03)
