"""The script that circulates for "training stalls every few steps", with its four settings.

Samples are random 3×256×256 float arrays, scaled to bytes and back: 20 to 40 ms of CPU each. One in a
hundred also sleeps 0.15 s. Two convolutions, batches of 64, a warm-up epoch and two more.

    python -m tests.scenarios.repro_every_few_steps A|B|C|D
        [--samples 5000] [--epochs 2] [--batch 64] [--threads N] [--cpus N]
A: num_workers=0. B: 4 workers, prefetch_factor=4, persistent_workers. C: persistent_workers with
num_workers=0, which PyTorch refuses. D: 8 workers, each with one torch and BLAS thread per CPU of the
machine, or four (all others: one, as with OMP_NUM_THREADS=1).
"""

from __future__ import annotations

import argparse
import functools
import os
import time
from typing import Any

import numpy as np
import torch
from threadpoolctl import threadpool_limits
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

import loaderwatch

SAMPLE_CPU_S = 0.025


class Frames(Dataset[tuple[Tensor, int]]):
    """Random pictures that cost what decoding one costs."""

    def __init__(self, length: int) -> None:
        self.length = length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        generator = np.random.default_rng(index)
        pixels = generator.random((3, 256, 256))
        until = time.thread_time() + SAMPLE_CPU_S
        while time.thread_time() < until:
            pixels = (255.0 * pixels).astype(np.uint8).astype(np.float64) / 255.0
        mixed = pixels @ pixels.transpose(0, 2, 1)  # BLAS, as augmentations use it
        if index % 100 == 99:
            time.sleep(0.15)
        return torch.from_numpy((pixels + 1e-9 * mixed).astype(np.float32)), index % 10


def use_threads(count: int, worker: int) -> None:
    """What setting D adds: every worker computes with as many threads as it can get."""
    torch.set_num_threads(count)
    threadpool_limits(count)


SETTINGS: dict[str, dict[str, Any]] = {
    "A": {"num_workers": 0},
    "B": {"num_workers": 4, "prefetch_factor": 4, "persistent_workers": True},
    "C": {"num_workers": 0, "persistent_workers": True},
    "D": {"num_workers": 8, "persistent_workers": True},
}


def main() -> None:
    """One warm-up epoch, then the epochs that count; prints their time."""
    parser = argparse.ArgumentParser()
    parser.add_argument("setting", choices=sorted(SETTINGS))
    parser.add_argument("--samples", type=int, default=5000)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument(
        "--threads", type=int, default=max(4, os.cpu_count() or 1), help="of each of D's workers"
    )
    parser.add_argument("--cpus", type=int, help="run on so few of them")
    args = parser.parse_args()
    if args.cpus:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: args.cpus])
    options = SETTINGS[args.setting]
    if args.setting == "D":
        options["worker_init_fn"] = functools.partial(use_threads, args.threads)
    else:
        threadpool_limits(1)
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, stride=4),
        nn.ReLU(),
        nn.Conv2d(8, 10, 3, stride=4),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    train_loader = DataLoader(Frames(args.samples), batch_size=args.batch, shuffle=True, **options)
    loaderwatch.attach(train_loader, model=model, optimizer=optimizer)
    for epoch in range(args.epochs + 1):
        began = time.perf_counter()
        for images, labels in train_loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(images), labels).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        took_s = time.perf_counter() - began
        name = "warm-up" if epoch == 0 else f"epoch {epoch}"
        print(f"{args.setting} {name}: {took_s:.2f} s, {args.samples / took_s:.1f} samples/s", flush=True)


if __name__ == "__main__":
    main()
