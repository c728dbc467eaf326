"""A training on a virtual GPU or a real one: ``python -m tests.gpu.train --load-ms 95 --step-ms 90 --seconds 15``.

A worker delivers a batch every ``load-ms``, and a step takes the device ``step-ms``. What else the loop does is told by the
other arguments. In one JSON line it prints how long the device was idle, which it knows exactly, and in which part of the loop:
``idle`` has the shares of the time since the first batch was there, by part.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

import loaderwatch
from loaderwatch.demo.gpu import busy_file
from tests.gpu.devices import Device, RealDevice, VirtualDevice

KERNELS: Final = 30
"""How many kernels a step launches; 34 steps fit into the launch queue."""
QUEUED_S: Final = 0.002
"""What the loop itself takes to launch them."""


class Slow(Dataset[Tensor]):
    """Samples that take as long as they are told to, and no CPU."""

    def __init__(self, load_s: float, length: int) -> None:
        self.load_s = load_s
        self.length = length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> Tensor:
        time.sleep(self.load_s)
        return torch.zeros(4)


class Backward(torch.autograd.Function):
    """Launches the kernels of the backward pass."""

    @staticmethod
    def forward(ctx: Any, loss: Tensor, net: Net) -> Tensor:
        ctx.net = net
        return loss.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        ctx.net.launch(2 * KERNELS // 3)
        return gradients[0], None


class Net(nn.Module):
    """A model whose kernels take the device a third of a step in forward and two thirds in backward."""

    def __init__(self, device: Device, step_s: float, launch_s: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(4, device=device.name))
        self.device, self.kernel_s, self.launch_s = device, step_s / KERNELS, launch_s

    def forward(self, batch: Tensor) -> Tensor:
        self.launch(KERNELS // 3)
        loss: Tensor = Backward.apply(self.weight.sum(), self)  # type: ignore[no-untyped-call]
        return loss

    def launch(self, kernels: int) -> None:
        """Queue kernels, each of which takes the loop ``launch_s`` of its CPU."""
        for _ in range(kernels):
            until = time.perf_counter() + self.launch_s
            while time.perf_counter() < until:
                pass
            self.device.launch(self.kernel_s)


class OnTheHost(torch.optim.SGD):
    """An optimizer that waits for the gradients and then computes without the device."""

    def __init__(self, device: Device, takes_s: float, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.device, self.takes_s = device, takes_s

    def step(self, closure: Any = None) -> Any:
        """Take the time."""
        if self.takes_s:
            self.device.synchronize()
            time.sleep(self.takes_s)
        return super().step(closure)


class SlowToSave:
    """What a checkpoint writes to a slow disk."""

    def __init__(self, takes_s: float) -> None:
        self.takes_s = takes_s

    def __reduce__(self) -> tuple[Any, ...]:
        time.sleep(self.takes_s)
        return SlowToSave, (self.takes_s,)


class Parts:
    """In which part of the loop the device was idle."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.of: list[tuple[str, float, float]] = []

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """What is idle inside is of this part."""
        began = time.monotonic()
        yield
        self.of.append((name, began, time.monotonic()))

    def shares(self, began: float, ended: float) -> dict[str, float]:
        """The share of a time that the device was idle, by part."""
        found: dict[str, float] = {}
        for name, begin, end in self.of:
            if end > began:
                idle_s = self.device.idle_s(max(begin, began), end)
                found[name] = found.get(name, 0.0) + idle_s / (ended - began)
        return found


def main() -> None:
    """Train for some seconds."""
    options = arguments()
    device: Device = (
        RealDevice() if options.real else VirtualDevice(busy_file(int(os.environ.get("LOCAL_RANK", 0))))
    )
    parts = Parts(device)
    if options.collective:
        dist.init_process_group("gloo")
    loader = DataLoader(
        Slow(options.load_ms / 1e3, options.epoch or 1_000_000),
        batch_size=1,
        num_workers=options.workers,
        pin_memory=options.real and not options.pageable,
    )
    valid = DataLoader(
        Slow(options.validate_ms / 1e3 / 10, 10),
        batch_size=1,
        num_workers=options.validate_workers,
        persistent_workers=options.validate_workers > 0,
    )
    net = Net(device, options.step_ms / 1e3, options.launch_us / 1e6)
    optimizer = OnTheHost(device, options.optimizer_ms / 1e3, net.parameters(), lr=0.1)
    loaderwatch.attach(loader, name="train_loader", model=net, optimizer=optimizer)
    loaderwatch.attach(valid, name="valid_loader", role="eval")
    began = time.monotonic()  # the first batch is waited for as well
    number, first_at, synchronized = 0, 0.0, 0
    done = False
    while not done:
        batches = iter(loader)
        while True:
            with parts.part("data"):
                batch = next(batches, None)
            if batch is None:
                break
            first_at = first_at or time.monotonic()
            number += 1
            if options.pageable:  # the driver waits for the stream before it stages pageable memory
                with parts.part("copy"):
                    device.synchronize()
                    synchronized += 1
                    time.sleep(options.copy_ms / 1e3)
            optimizer.zero_grad()
            with parts.part("step"):
                loss = net(device.batch(batch))
                loss.backward()
                time.sleep(QUEUED_S)
            with parts.part("optimizer"):
                synchronized += bool(options.optimizer_ms)
                optimizer.step()
            if options.collective:
                with parts.part("collective"):
                    device.synchronize()
                    synchronized += 1
                    time.sleep(options.collective_ms / 1e3 * dist.get_rank())
                    stop = torch.tensor([float(time.monotonic() - first_at >= options.seconds)])
                    dist.all_reduce(stop)
                done = bool(stop)  # all ranks leave the loop after the same step
            with parts.part("own"):
                if options.item_every and number % options.item_every == 0:
                    device.synchronize()
                    synchronized += 1
                if options.own_ms and number % options.own_every == 0:
                    device.synchronize()
                    synchronized += 1
                    time.sleep(options.own_ms / 1e3)
            if options.save_ms and number % options.save_every == 0:
                with parts.part("checkpoint"):
                    device.synchronize()
                    synchronized += 1
                    torch.save(SlowToSave(options.save_ms / 1e3), io.BytesIO())
            if options.validate_ms and number % options.validate_every == 0:
                with parts.part("validation"), torch.no_grad():
                    device.synchronize()
                    synchronized += 1
                    for _ in valid:
                        pass
            if not options.collective:
                done = time.monotonic() - first_at >= options.seconds
            if done:
                break
    device.synchronize()  # what was queued ahead is no step that was made
    synchronized += 1
    ended = time.monotonic()
    truth = {
        "idle_ratio": device.idle_s(began, ended) / (ended - began),
        "later_idle_ratio": device.idle_s(first_at, ended) / (ended - first_at),
        "idle": parts.shares(first_at, ended),
        "elapsed_s": ended - began,
        "steps_per_s": number / (ended - began),
        "synchronized_by_us": device.synchronized - synchronized,
    }
    print(json.dumps(truth))


def arguments() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--load-ms", type=float, required=True)
    parser.add_argument("--step-ms", type=float, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--epoch", type=int, default=0, help="batches of an epoch; 0: it never ends")
    parser.add_argument(
        "--item-every", type=int, default=0, help="synchronize each so many steps, as loss.item() does"
    )
    parser.add_argument(
        "--own-ms", type=float, default=0.0, help="what the loop does itself, such as logging"
    )
    parser.add_argument("--own-every", type=int, default=1, help="after how many steps it does that")
    parser.add_argument(
        "--launch-us", type=float, default=0.0, help="CPU time that the launch of a kernel takes"
    )
    parser.add_argument(
        "--optimizer-ms", type=float, default=0.0, help="what the optimizer computes without the device"
    )
    parser.add_argument("--pageable", action="store_true", help="copy batches from memory that is not pinned")
    parser.add_argument("--copy-ms", type=float, default=0.0, help="what such a copy takes")
    parser.add_argument("--save-ms", type=float, default=0.0, help="what a checkpoint takes")
    parser.add_argument("--save-every", type=int, default=1)
    parser.add_argument("--validate-ms", type=float, default=0.0, help="what a validation takes")
    parser.add_argument("--validate-every", type=int, default=1)
    parser.add_argument("--validate-workers", type=int, default=0)
    parser.add_argument(
        "--collective", action="store_true", help="reduce over the ranks of torchrun in each step"
    )
    parser.add_argument(
        "--collective-ms", type=float, default=0.0, help="by how much rank 1 comes to it later"
    )
    parser.add_argument(
        "--real", action="store_true", help="on CUDA's first device instead of the virtual one"
    )
    return parser.parse_args()


if __name__ == "__main__":
    main()
