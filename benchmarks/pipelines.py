"""Training loops whose loader is slow in one way each, for ``benchmarks.predictions`` and ``tuning``.

    python -m benchmarks.pipelines PIPELINE [--workers 2] [--prefetch 2] [--out-of-order]
        [--seconds 10] [--watch]
    python -m benchmarks.pipelines PIPELINE [--workers 1] --epochs 5 [--batches 300] [--autotune]

Steps sleep, as a loop that waits for its GPU. Prints a line of JSON: the number of batches after the first
and the seconds that they took. With ``--epochs``: a line per epoch, with the number of workers.
With ``--watch``: under loaderwatch.
"""

from __future__ import annotations

import argparse
import io
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset, IterableDataset, Subset, get_worker_info

import loaderwatch

WARM_S: Final = 2.0
BATCH: Final = 8
SAMPLES: Final = 1_000_000


class Sleeping(Dataset[torch.Tensor]):
    """Samples that wait for storage, ``sleep_s`` by index. Not random, so every setting reads the same."""

    def __init__(
        self, mean_s: float, spread: float = 0.0, slow_every: int = 0, slow_s: float = 0.0, size: int = 64
    ) -> None:
        self.mean_s, self.spread = mean_s, spread
        self.slow_every, self.slow_s, self.size = slow_every, slow_s, size

    def __len__(self) -> int:
        """Return more samples than any run reads."""
        return SAMPLES

    def __getitem__(self, index: int) -> torch.Tensor:
        """Wait, and return a tensor."""
        time.sleep(self.sleep_s(index))
        return torch.zeros(self.size)

    def sleep_s(self, index: int) -> float:
        """Return how long a sample takes: log-normal of the mean, or of the few that are slow."""
        if self.slow_every and index % self.slow_every == self.slow_every // 2:
            return self.slow_s
        if not self.spread:
            return self.mean_s
        drawn = np.random.default_rng(index).lognormal(-(self.spread**2) / 2, self.spread)
        return float(self.mean_s * drawn)


class Bursts(Sleeping):
    """A storage that gives its best for some batches, and then a tenth of it."""

    def sleep_s(self, index: int) -> float:
        """Return the mean, ten times as long in one batch of twelve."""
        return self.mean_s * (10 if index // BATCH % 12 < 1 else 1)


class Decoding(Dataset[torch.Tensor]):
    """JPEG files in memory, decoded and resized: what image pipelines spend their CPU on."""

    def __init__(self, side: int = 512) -> None:
        noise = np.random.default_rng(0).integers(0, 255, (side // 8, side // 8, 3), dtype=np.uint8)
        file = io.BytesIO()
        Image.fromarray(noise).resize((side, side), Image.Resampling.BICUBIC).save(file, "JPEG", quality=85)
        self.file = file.getvalue()

    def __len__(self) -> int:
        """Return more samples than any run reads."""
        return SAMPLES

    def __getitem__(self, index: int) -> torch.Tensor:
        """Decode, resize, and make a tensor."""
        picture = Image.open(io.BytesIO(self.file)).convert("RGB").resize((224, 224))
        return torch.from_numpy(np.asarray(picture, dtype=np.float32).copy())


class Fetched(Decoding):
    """The same from a storage that takes its time."""

    def __getitem__(self, index: int) -> torch.Tensor:
        """Wait for the file, then decode it."""
        time.sleep(0.006)
        return super().__getitem__(index)


class Stream(IterableDataset[torch.Tensor]):
    """Rows of a source that is split among the workers."""

    def __iter__(self) -> Iterator[torch.Tensor]:
        """Yield this worker's rows."""
        info = get_worker_info()
        first, step = (info.id, info.num_workers) if info else (0, 1)
        for _ in range(first, SAMPLES, step):
            time.sleep(0.008)
            yield torch.zeros(64)


@dataclass(frozen=True)
class Pipeline:
    """A dataset and the seconds of a step."""

    dataset: Any
    step_s: float


PIPELINES: Final[dict[str, Pipeline]] = {
    "latency": Pipeline(Sleeping(0.0075), 0.010),
    "lognormal": Pipeline(Sleeping(0.006, spread=1.2), 0.012),
    "bursts": Pipeline(Bursts(0.003), 0.020),
    "one-slow": Pipeline(Sleeping(0.004, slow_every=41 * BATCH, slow_s=1.2), 0.020),
    "several-slow": Pipeline(Sleeping(0.005, slow_every=23 * BATCH, slow_s=0.5), 0.020),
    "big-batches": Pipeline(Sleeping(0.008, size=250_000), 0.015),
    "decoding": Pipeline(Decoding(), 0.030),
    "decoding-large": Pipeline(Decoding(1024), 0.060),
    "fetched": Pipeline(Fetched(), 0.030),
    "stream": Pipeline(Stream(), 0.015),
}


def _epochs(loader: Any, step_s: float, epochs: int, *, autotune: bool) -> None:
    """Train and print each epoch's speed without its first quarter, in which the queue of batches fills."""
    if autotune:
        loaderwatch.attach(loader, autotune=True)
    for _ in range(epochs):
        warm_s, warm, batches = 0.0, len(loader) // 4, 0
        for batches, _ in enumerate(loader, 1):
            time.sleep(step_s)
            if batches == warm:
                warm_s = time.perf_counter()
        took_s = time.perf_counter() - warm_s
        print(
            json.dumps({"batches": batches - warm, "seconds": took_s, "workers": loader.num_workers}),
            flush=True,
        )


def main() -> int:
    """Train, and print the speed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("pipeline", choices=PIPELINES)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--prefetch", type=int, default=2)
    parser.add_argument("--out-of-order", action="store_true")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--watch", action="store_true")
    parser.add_argument("--epochs", type=int, default=0)
    parser.add_argument("--batches", type=int, default=300)
    parser.add_argument("--autotune", action="store_true")
    given = parser.parse_args()
    torch.set_num_threads(1)
    pipeline = PIPELINES[given.pipeline]
    dataset = Subset(pipeline.dataset, range(given.batches * BATCH)) if given.epochs else pipeline.dataset
    loader: Any = DataLoader(
        dataset,
        batch_size=BATCH,
        num_workers=given.workers,
        prefetch_factor=given.prefetch if given.workers else None,
        in_order=not given.out_of_order,
    )
    if given.watch:
        loader = loaderwatch.attach(loader)
    if given.epochs:
        _epochs(loader, pipeline.step_s, given.epochs, autotune=given.autotune)
        return 0
    began, warm_s, batches = time.perf_counter(), 0.0, 0
    ended = began
    for _ in loader:
        time.sleep(pipeline.step_s)
        ended = time.perf_counter()
        if not warm_s:
            if ended - began >= WARM_S:
                warm_s = ended
            continue
        batches += 1
        if ended - warm_s >= given.seconds:
            break
    print(json.dumps({"batches": batches, "seconds": ended - warm_s}), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
