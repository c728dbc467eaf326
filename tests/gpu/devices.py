"""The two devices that a training of the tests computes on: a virtual GPU, and a real one with kernels of known length."""

from __future__ import annotations

import time
from typing import Any, Final, Protocol

import torch
from torch import Tensor

from loaderwatch.demo.stand_in import BusyFile
from loaderwatch.demo.virtual_gpu import VirtualGpu

CALIBRATED_CYCLES: Final = 50_000_000


class Device(Protocol):
    """What a training does with its device, and how long that was idle. Times are seconds of ``time.monotonic``."""

    name: str

    @property
    def synchronized(self) -> int:
        """How often anybody waited for it."""

    def launch(self, seconds: float) -> None:
        """Queue a kernel that takes so long."""

    def synchronize(self) -> None:
        """Wait until everything that is queued has run."""

    def batch(self, batch: Tensor) -> Tensor:
        """The batch on the device."""

    def idle_s(self, began: float, ended: float) -> float:
        """The seconds of a time in which the device had nothing to do."""


class VirtualDevice:
    """The virtual GPU in place of CUDA. Parameters lie on the CPU, and batches are tensors without data."""

    name = "cpu"

    def __init__(self, busy: BusyFile | None) -> None:
        self._gpu = VirtualGpu()
        if busy is not None:
            self._gpu.show(busy)
        self._gpu.install(lambda name, new: setattr(torch.cuda, name, new))

    @property
    def synchronized(self) -> int:
        """How often anybody waited for it."""
        return self._gpu.synchronized

    def launch(self, seconds: float) -> None:
        """Queue a kernel that takes so long."""
        self._gpu.launch(seconds)

    def synchronize(self) -> None:
        """Wait until everything that is queued has run."""
        self._gpu.synchronize()

    def idle_s(self, began: float, ended: float) -> float:
        """The seconds of a time in which the device had nothing to do."""
        return self._gpu.idle_s(began, ended)

    def batch(self, batch: Tensor) -> Tensor:
        """A tensor that lies elsewhere than in the host's memory."""
        return batch.to("meta")


class RealDevice:
    """CUDA's first device. Its kernels spin for a number of clock cycles, so that their length is known."""

    name = "cuda"

    def __init__(self) -> None:
        self._cuda: Any = torch.cuda
        self._real = self._cuda.synchronize
        begin, end = self._event(), self._event()
        self._cuda._sleep(CALIBRATED_CYCLES)
        begin.record()
        self._cuda._sleep(CALIBRATED_CYCLES)
        end.record()
        self._real()
        self._cycles_per_s = CALIBRATED_CYCLES / begin.elapsed_time(end) * 1e3
        self._marks: list[tuple[Any, Any]] = []
        self._origin = self._event()
        self._origin.record()
        self._real()
        self._origin_at = time.monotonic()
        self._synchronized = 0
        vars(torch.cuda)["synchronize"] = self._counted

    def _event(self) -> Any:
        return self._cuda.Event(enable_timing=True)

    @property
    def synchronized(self) -> int:
        """How often anybody waited for it."""
        return self._synchronized

    def _counted(self, device: Any = None) -> None:
        self._synchronized += 1
        self._real(device)

    def launch(self, seconds: float) -> None:
        """Queue a kernel that takes so long, between two events."""
        begin, end = self._event(), self._event()
        begin.record()
        self._cuda._sleep(int(seconds * self._cycles_per_s))
        end.record()
        self._marks.append((begin, end))

    def synchronize(self) -> None:
        """Wait for the device."""
        self._counted()

    def batch(self, batch: Tensor) -> Tensor:
        """Copy it."""
        return batch.to("cuda", non_blocking=True)

    def idle_s(self, began: float, ended: float) -> float:
        """By the events around each kernel; waits for the device first."""
        self._real()
        at = self._origin_at
        busy_s = 0.0
        for begin, end in self._marks:
            started = at + self._origin.elapsed_time(begin) / 1e3
            stopped = started + begin.elapsed_time(end) / 1e3
            busy_s += max(0.0, min(stopped, ended) - max(started, began))
        return ended - began - busy_s
