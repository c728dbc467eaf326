"""A training on the virtual GPU: ``python -m tests.gpu.train --load-ms 95 --step-ms 90 --seconds 15``.

A worker delivers a batch every ``load-ms``, and a step takes the device ``step-ms``. Prints in one JSON line how long the
device was idle since the first batch was asked for, and since it was there, which it knows exactly, and how many steps it did a second.
"""

from __future__ import annotations

import argparse
import json
import time

import torch
from torch.utils.data import DataLoader, Dataset

import loaderwatch
from loaderwatch.demo.gpu import busy_file
from tests.fakes.virtual_gpu import VirtualGpu

KERNELS = 30
"""How many kernels a step launches; 34 steps fit into the launch queue."""
QUEUED_S = 0.002
"""What the loop itself takes to launch them."""


class Slow(Dataset[torch.Tensor]):
    """Samples that take as long as they are told to, and no CPU."""

    def __init__(self, load_s: float) -> None:
        self.load_s = load_s

    def __len__(self) -> int:
        return 1_000_000

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(self.load_s)
        return torch.zeros(4)


def main() -> None:
    """Train for some seconds."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--load-ms", type=float, required=True)
    parser.add_argument("--step-ms", type=float, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument(
        "--item-every", type=int, default=0, help="synchronize each so many steps, as loss.item() does"
    )
    parser.add_argument(
        "--own-ms", type=float, default=0.0, help="what the loop does itself after each step, such as logging"
    )
    args = parser.parse_args()
    gpu = VirtualGpu()
    busy = busy_file(0)
    if busy is not None:
        gpu.show(busy)
    gpu.install(lambda name, new: setattr(torch.cuda, name, new))
    loader = DataLoader(Slow(args.load_ms / 1e3), batch_size=1, num_workers=1)
    loaderwatch.attach(loader, name="train_loader")
    batches = iter(loader)
    began = time.monotonic()  # the first batch is waited for as well
    number, first_at = 0, 0.0
    for number, _ in enumerate(batches, 1):
        first_at = first_at or time.monotonic()
        for _ in range(KERNELS):
            gpu.launch(args.step_ms / 1e3 / KERNELS)
        time.sleep(QUEUED_S)
        if args.item_every and number % args.item_every == 0:
            gpu.synchronize()
        time.sleep(args.own_ms / 1e3)
        if time.monotonic() - first_at >= args.seconds:
            break
    ended = time.monotonic()
    ours = gpu.synchronized - (number // args.item_every if args.item_every else 0)
    truth = {
        "idle_ratio": gpu.idle_ratio(began, ended),
        "later_idle_ratio": gpu.idle_ratio(first_at, ended),
        "elapsed_s": ended - began,
        "steps_per_s": number / (ended - began),
        "synchronized_by_us": ours,
    }
    print(json.dumps(truth))


if __name__ == "__main__":
    main()
