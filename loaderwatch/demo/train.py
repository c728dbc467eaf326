"""The demo's training script: a small CNN on handwritten digits, two ranks, data loaded by worker processes.

What loaderwatch needs is one line, ``loaderwatch.attach(loader, ...)``. Everything odd about this script is
in ``Digits._fetch_from_storage``, which plays slow and silent storage, in ``LargerLayers``, whose kernels run
on a virtual GPU, and in ``save_previews``.

Started by ``loaderwatch demo``; by hand: ``torchrun --nproc-per-node 2 train.py --images DIR``.
"""

from __future__ import annotations

import argparse
import json
import os
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from PIL import Image
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler

import loaderwatch
from loaderwatch.core.message import Param
from loaderwatch.demo.acts import ACTS, Act, acts_to_play
from loaderwatch.demo.virtual_gpu import VirtualGpu, virtual_gpu
from loaderwatch.texts import in_own_language

BATCH_SIZE = 32
SLOW_INDEX = 1690
"""The large file's index. With DistributedSampler's seed it comes in mid-epoch (tests/unit/demo checks)."""
SILENT_INDEX = 511
"""The index of the read without an answer, also in mid-epoch."""

CATCH_UP_S = 0.25
KERNELS = 102
"""Kernels that the larger layers launch per step: ten steps fit into a launch queue."""
STEP_S = 0.06
"""Time of these kernels on the GPU."""
PREVIEW_EVERY = 10


class Digits(Dataset[tuple[Tensor, int]]):
    """The PNG files of ``folder``, ``act.repeats`` times per epoch. Sample: (float32 [1, 32, 32], class)."""

    def __init__(self, folder: Path, act: Act) -> None:
        self.paths = sorted(folder.glob("*/*.png"))
        self.act = act
        self.answer_at = 0.0
        self.answered = folder.parent / "storage-answered"

    def __len__(self) -> int:
        return len(self.paths) * self.act.repeats

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        path = self.paths[index % len(self.paths)]
        self._fetch_from_storage(index)
        with Image.open(path) as image:
            pixels = np.asarray(image, dtype=np.float32)
        return torch.from_numpy(pixels / 255 - 0.5)[None], int(path.parent.name)

    def _fetch_from_storage(self, index: int) -> None:
        """Take as long as remote storage would, and wait if it does not answer."""
        if self.act.read_latency_s:
            # Each connection delivers a fixed number of images per second. A late worker catches up. Else
            # other work of the machine would slow one rank down, which is another scenario.
            now = time.monotonic()
            self.answer_at = max(self.answer_at, now - CATCH_UP_S) + self.act.read_latency_s
            time.sleep(max(0.0, self.answer_at - now))
        if self.act.slow_read_s and index == SLOW_INDEX:
            time.sleep(self.act.slow_read_s)
        if self.act.hang_s and index == SILENT_INDEX and not self.answered.exists():
            answer, server = os.pipe()
            threading.Timer(self.act.hang_s, os.write, (server, b"!")).start()
            os.read(answer, 1)  # no answer comes: the worker hangs here
            self.answered.touch()


class LargerLayers(torch.autograd.Function):
    """The layers of a larger model: kernels of the virtual GPU, a third in forward, two thirds in backward.

    Like CUDA's, they are launched without waiting for them.
    """

    @staticmethod
    def forward(ctx: Any, activations: Tensor, gpu: VirtualGpu) -> Tensor:
        ctx.gpu = gpu
        for _ in range(KERNELS // 3):
            gpu.launch(STEP_S / KERNELS)
        return activations.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        for _ in range(KERNELS - KERNELS // 3):
            ctx.gpu.launch(STEP_S / KERNELS)
        return gradients[0], None


class SmallCnn(nn.Module):
    """A network of two convolutions and a linear layer: images [N, 1, 32, 32] to logits [N, 10]."""

    def __init__(self, gpu: VirtualGpu) -> None:
        super().__init__()
        self.gpu = gpu
        self.features = nn.Sequential(
            nn.Conv2d(1, 8, 3, stride=2), nn.ReLU(), nn.Conv2d(8, 16, 3, stride=2), nn.ReLU(), nn.Flatten()
        )
        self.classify = nn.Linear(16 * 7 * 7, 10)

    def forward(self, images: Tensor) -> Tensor:
        hidden: Tensor = LargerLayers.apply(self.features(images), self.gpu)  # type: ignore[no-untyped-call]
        logits: Tensor = self.classify(hidden)
        return logits


def make_loader(folder: Path, act: Act) -> DataLoader[tuple[Tensor, int]]:
    """Return this rank's loader for one act."""
    digits = Digits(folder, act)
    return DataLoader(
        digits,
        batch_size=BATCH_SIZE,
        sampler=DistributedSampler(digits, drop_last=True),
        num_workers=act.workers,
        persistent_workers=act.persistent,
        multiprocessing_context=act.start_method,
        prefetch_factor=4,
        drop_last=True,
    )


def save_previews(logits: Tensor, gpu: VirtualGpu, takes_s: float) -> None:
    """Wait for the GPU, like ``logits.cpu()``, and write pictures of the results to slow storage."""
    gpu.synchronize()
    time.sleep(takes_s)


def train(
    act: Act, folder: Path, model: nn.Module, optimizer: torch.optim.Optimizer, gpu: VirtualGpu
) -> float:
    """Train through one act and return the share of digits classified right in its last epoch."""
    loader = make_loader(folder, act)
    loaderwatch.attach(loader, name=act.key, model=model, optimizer=optimizer)
    accuracy = 0.0
    for epoch in range(act.epochs):
        assert isinstance(loader.sampler, DistributedSampler)
        loader.sampler.set_epoch(epoch)
        right, seen = torch.zeros((), dtype=torch.int64), 0
        for number, (images, labels) in enumerate(loader, start=1):
            optimizer.zero_grad()
            logits = model(images)
            loss = nn.functional.cross_entropy(logits, labels)
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            right += (logits.argmax(1) == labels).sum()  # stays on the GPU until the epoch is over
            seen += len(labels)
            if act.preview_s and number % PREVIEW_EVERY == 0:
                save_previews(logits, gpu, act.preview_s)
        gpu.synchronize()
        accuracy = int(right) / max(seen, 1)
    return accuracy


def main() -> None:
    """Play the acts on the command line, and append each act's time to the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=Path, required=True)
    parser.add_argument("--acts", nargs="*", default=[act.key for act in ACTS])
    parser.add_argument("--fast", action="store_true")
    parser.add_argument("--report", type=Path, help="append what was played when to this file, as JSON lines")
    options = parser.parse_args()

    dist.init_process_group("gloo")
    torch.manual_seed(0)
    gpu = virtual_gpu(int(os.environ["LOCAL_RANK"]))
    model = DistributedDataParallel(SmallCnn(gpu))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    gpu.install(lambda name, new: setattr(torch.cuda, name, new))
    acts = acts_to_play(options.acts, fast=options.fast)
    for number, act in enumerate(acts, start=1):
        began_at = time.time()
        if dist.get_rank() == 0:
            played: dict[str, Param] = {
                "number": number,
                "acts": len(acts),
                "act": act.title,
                "what": act.what,
            }
            print("\n" + in_own_language("demo-act", **played))
            print(f"      {in_own_language('demo-look', look=act.look)}", flush=True)
        accuracy = train(act, options.images, model, optimizer, gpu)
        if dist.get_rank() == 0:
            result = {"took_s": time.time() - began_at, "right_percent": 100 * accuracy}
            print(f"      {in_own_language('demo-act-played', **result)}", flush=True)
            if options.report:
                with options.report.open("a") as lines:
                    line = {"act": act.key, "began_at": began_at, "ended_at": time.time()}
                    lines.write(json.dumps(line) + "\n")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
