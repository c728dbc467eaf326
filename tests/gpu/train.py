"""A training on a virtual or real GPU: ``python -m tests.gpu.train --load-ms 95 --step-ms 90 --seconds 15``.

A worker delivers a batch every ``load-ms``, and a step takes the device ``step-ms``. The other arguments say
what else the loop does. Prints one JSON line with the exact idle time of the device. Its ``idle`` has the
share of each part of the loop in the time since the first batch.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any, Final

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

import loaderwatch
from loaderwatch.demo.virtual_gpu import busy_file
from tests.gpu.devices import Device, RealDevice, VirtualDevice

KERNELS: Final = 30
"""How many kernels a step launches; 34 steps fit into the launch queue."""
QUEUED_S: Final = 0.002
"""What the loop itself takes to launch them."""
READS: Final[Mapping[str, Callable[[Tensor], object]]] = {
    "item": lambda loss: loss.item(),
    "cpu": lambda loss: loss.detach().cpu(),
    "print": repr,  # as print(loss) does
}
"""Ways in which a loop looks at its loss; all wait for the device."""


class Slow(Dataset[Tensor]):
    """Samples that take a given time, and no CPU."""

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
        ctx.net.before_reducing()
        return gradients[0], None


class Net(nn.Module):
    """A model whose kernels take the device a third of a step in forward and two thirds in backward."""

    def __init__(
        self,
        device: Device,
        step_s: float,
        launch_s: float,
        think_s: float,
        before_reducing: Callable[[], None],
    ) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(4, device=device.name))
        self.device, self.kernel_s, self.launch_s = device, step_s / KERNELS, launch_s
        self.think_s = think_s  # before it launches anything
        self.before_reducing = before_reducing

    def forward(self, batch: Tensor) -> Tensor:
        time.sleep(self.think_s)
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

    def idle_each_s(self, name: str) -> list[float]:
        """How long the device was idle in each time that the loop was in a part."""
        return [self.device.idle_s(began, ended) for part, began, ended in self.of if part == name]

    def shares(self, began: float, ended: float) -> dict[str, float]:
        """The share of a time that the device was idle, by part."""
        found: dict[str, float] = {}
        for name, begin, end in self.of:
            if end > began:
                idle_s = self.device.idle_s(max(begin, began), end)
                found[name] = found.get(name, 0.0) + idle_s / (ended - began)
        return found


class Training:
    """A loop with all that the command line asks for."""

    def __init__(self, options: argparse.Namespace, device: Device) -> None:
        self.options, self.device = options, device
        self.parts = Parts(device)
        self.synchronized = 0  # by the loop
        self.first_at = 0.0
        self.number = 0
        self.paused = False
        self.loader = DataLoader(
            Slow(options.load_ms / 1e3, options.epoch or 1_000_000),
            batch_size=1,
            num_workers=options.workers,
            pin_memory=options.real and not options.pageable,
            persistent_workers=options.persistent,
            worker_init_fn=lambda _: time.sleep(options.start_ms / 1e3),
        )
        self.valid = DataLoader(
            Slow(options.validate_ms / 1e3 / 10, 10),
            batch_size=1,
            num_workers=options.validate_workers,
            persistent_workers=options.validate_workers > 0,
        )
        self.net = Net(
            device,
            options.step_ms / 1e3,
            options.launch_us / 1e6,
            options.think_ms / 1e3,
            self._before_reducing,
        )
        model = DistributedDataParallel(self.net) if options.ddp else self.net
        self.model: nn.Module = model
        self.optimizer = OnTheHost(device, options.optimizer_ms / 1e3, model.parameters(), lr=0.1)
        self.stream: Any = vars(torch.cuda)["Stream"]() if options.stream else None
        loaderwatch.attach(self.loader, name="train_loader", model=model, optimizer=self.optimizer)
        loaderwatch.attach(self.valid, name="valid_loader", role="eval")

    def run(self) -> None:
        """Train until it is over."""
        done = False
        while not done:
            with self.parts.part("boundary"):
                batches = iter(self.loader)
            while not done:
                with self.parts.part("data"):
                    batch = next(batches, None)
                if batch is None:
                    break
                self.first_at = self.first_at or time.monotonic()
                self.number += 1
                self.step(batch)
                done = self.is_over()
        self.wait()  # what was queued ahead is no step that was made

    def step(self, batch: Tensor) -> None:
        """All that the loop does with a batch."""
        options = self.options
        if options.pageable:  # the driver waits for the stream before it stages pageable memory
            with self.parts.part("copy"):
                self.wait()
                time.sleep(options.copy_ms / 1e3)
        self.optimizer.zero_grad()
        with torch.cuda.stream(self.stream) if self.stream is not None else nullcontext():
            with self.parts.part("step"):
                loss = self.device.own(self.model(self.device.batch(batch)))
                loss.backward()  # type: ignore[no-untyped-call]
                time.sleep(QUEUED_S)
            with self.parts.part("optimizer"):
                self.synchronized += bool(options.optimizer_ms)
                self.optimizer.step()
        with self.parts.part("own"):
            if options.item_every and self.number % options.item_every == 0:
                self.synchronized += 1
                self.device.read(lambda: READS[options.read](loss))
            if options.own_ms and self.number % options.own_every == 0:
                self.wait()
                time.sleep(options.own_ms / 1e3)
            if options.pause_s and not self.paused and time.monotonic() - self.first_at > options.seconds / 3:
                self.paused = True
                time.sleep(options.pause_s)
        if options.save_ms and self.number % options.save_every == 0:
            with self.parts.part("checkpoint"):
                self.wait()
                torch.save(SlowToSave(options.save_ms / 1e3), io.BytesIO())
        if options.validate_ms and self.number % options.validate_every == 0:
            with self.parts.part("validation"), torch.no_grad():
                self.wait()
                for _ in self.valid:
                    pass

    def is_over(self) -> bool:
        """Whether the time is up on all ranks, which then leave the loop after the same step."""
        over: bool = time.monotonic() - self.first_at >= (self.options.leave_after or self.options.seconds)
        if not self.options.collective:
            return over
        with self.parts.part("collective"):
            self.wait()
            stop = torch.tensor([float(over)], device=self.device.name)
            dist.all_reduce(stop)
            return bool(stop)

    def wait(self) -> None:
        """Wait for the device, and count it."""
        self.synchronized += 1
        self.device.synchronize()

    def _before_reducing(self) -> None:
        """Work before the exchange of gradients at the end of backward. Gloo reads them from host memory."""
        if not self.options.ddp:
            return
        if dist.get_rank() == 1:
            time.sleep(self.options.late_ms / 1e3)
        if self.device.backend == "gloo":
            self.wait()


def main() -> None:
    """Train for some seconds."""
    options = arguments()
    local = int(os.environ.get("LOCAL_RANK", 0))
    device: Device = RealDevice(local) if options.real else VirtualDevice(busy_file(local))
    if options.collective:
        dist.init_process_group(device.backend)
    training = Training(options, device)
    began = time.monotonic()  # the first batch is waited for as well
    training.run()
    ended, first_at = time.monotonic(), training.first_at
    truth = {
        "idle_ratio": device.idle_s(began, ended) / (ended - began),
        "later_idle_ratio": device.idle_s(first_at, ended) / (ended - first_at),
        "idle": training.parts.shares(first_at, ended),
        "data_s": training.parts.idle_each_s("data")[1:],  # of each batch but the first
        "trained_s": ended - first_at,
        "elapsed_s": ended - began,
        "steps_per_s": (training.number - 1) / (ended - first_at),
        "synchronized_by_us": device.synchronized - training.synchronized,
    }
    if options.leave_after:  # the process stays, as a notebook's does
        time.sleep(options.seconds - options.leave_after)
    print(json.dumps(truth))


def arguments() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--load-ms", type=float, required=True)
    parser.add_argument("--step-ms", type=float, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--epoch", type=int, default=0, help="batches of an epoch; 0: it never ends")
    parser.add_argument("--start-ms", type=float, default=0.0, help="what a worker takes to start")
    parser.add_argument("--persistent", action="store_true", help="workers are kept for the next epoch")
    parser.add_argument("--item-every", type=int, default=0, help="look at the loss each so many steps")
    parser.add_argument("--read", choices=READS, default="item", help="how the loop looks at it")
    parser.add_argument(
        "--stream", action="store_true", help="compute on another stream than the default one"
    )
    parser.add_argument(
        "--own-ms", type=float, default=0.0, help="what the loop does itself, such as logging"
    )
    parser.add_argument("--own-every", type=int, default=1, help="after how many steps it does that")
    parser.add_argument(
        "--launch-us", type=float, default=0.0, help="CPU time that the launch of a kernel takes"
    )
    parser.add_argument(
        "--think-ms", type=float, default=0.0, help="what a forward pass takes before it launches anything"
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
    parser.add_argument("--ddp", action="store_true", help="exchange gradients, too")
    parser.add_argument("--late-ms", type=float, default=0.0, help="by how much rank 1 comes to that later")
    parser.add_argument("--pause-s", type=float, default=0.0, help="one pause of the loop, a third into it")
    parser.add_argument(
        "--leave-after", type=float, default=0.0, help="leave the loop after so many seconds, and stay"
    )
    parser.add_argument("--real", action="store_true", help="on CUDA's devices instead of the virtual one")
    return parser.parse_args()


if __name__ == "__main__":
    main()
