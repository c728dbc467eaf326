"""S22: a corrupt file is read and decoded again and again, without an end."""

import tempfile
import zlib
from pathlib import Path

from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import SlowDataset, built_in, train, vary

BAD = 333
batch, workers = vary(8, 4), vary(2, 3)
built_in(worker=BAD // batch % workers, samples=[BAD])
folder = tempfile.TemporaryDirectory()
good, bad = Path(folder.name) / "good.z", Path(folder.name) / "bad.z"
good.write_bytes(zlib.compress(b"pixels" * 2000))
bad.write_bytes(zlib.compress(bytes(range(256)) * 20_000)[:-5] + b"wrong")


def decode(index: int) -> bytes:
    """Until it succeeds."""
    while True:
        try:
            return zlib.decompress((bad if index == BAD else good).read_bytes())
        except zlib.error:
            continue


loader = DataLoader(SlowDataset(100_000, decode), batch_size=batch, num_workers=workers)
loaderwatch.attach(loader)
train(loader, step_s=0.02)
