"""The two devices of the test trainings: a virtual GPU, and a real one with kernels of known length."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, ClassVar, Final, Protocol

import torch
from torch import Tensor

from loaderwatch.demo.stand_in import BusyFile
from loaderwatch.demo.virtual_gpu import VirtualGpu

CALIBRATED_CYCLES: Final = 50_000_000


class Device(Protocol):
    """What a training uses of its device, and how long it was idle. Times: seconds of ``time.monotonic``."""

    name: str
    backend: str  # of the process group whose collectives it takes part in

    @property
    def synchronized(self) -> int:
        """How often anybody waited for it."""

    def launch(self, seconds: float) -> None:
        """Queue a kernel of that duration."""

    def synchronize(self) -> None:
        """Wait until everything that is queued has run."""

    def batch(self, batch: Tensor) -> Tensor:
        """The batch on the device."""

    def own(self, result: Tensor) -> Tensor:
        """A result of the model, as it lies on the device."""

    def read(self, look: Callable[[], object]) -> None:
        """Look at a value that lies on the device, which waits for it."""

    def idle_s(self, began: float, ended: float) -> float:
        """The seconds of a time in which the device had nothing to do."""


class OnDevice(Tensor):
    """A tensor of the virtual GPU: reading its value waits for that, as with CUDA's."""

    gpu: ClassVar[VirtualGpu]

    def item(self) -> Any:
        """Wait, as ``.item()`` does."""
        self.gpu.synchronize()
        return super().item()

    def cpu(self, *_: Any, **__: Any) -> Tensor:
        """Wait, as ``.cpu()`` does."""
        self.gpu.synchronize()
        return self.as_subclass(Tensor)

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        return f"tensor({self.item()}, device='cuda:0')"


class VirtualDevice:
    """The virtual GPU in place of CUDA. Parameters lie on the CPU, and batches are tensors without data."""

    name = "cpu"
    backend = "gloo"

    def __init__(self, busy: BusyFile | None) -> None:
        self._gpu = VirtualGpu()
        if busy is not None:
            self._gpu.show(busy)
        self._gpu.install(lambda name, new: setattr(torch.cuda, name, new))
        OnDevice.gpu = self._gpu

    @property
    def synchronized(self) -> int:
        """How often anybody waited for it."""
        return self._gpu.synchronized

    def launch(self, seconds: float) -> None:
        """Queue a kernel of that duration."""
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

    def own(self, result: Tensor) -> Tensor:
        """A tensor whose value cannot be seen without waiting."""
        return result.as_subclass(OnDevice)

    def read(self, look: Callable[[], object]) -> None:
        """Look at a value."""
        look()


class RealDevice:
    """One of CUDA's devices. Its kernels spin for a number of clock cycles, so that their length is known."""

    backend = "nccl"

    def __init__(self, number: int) -> None:
        self._cuda: Any = torch.cuda
        self._cuda.set_device(number)
        self.name = f"cuda:{number}"
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
        """Queue a kernel of that duration, between two events."""
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
        return batch.to(self.name, non_blocking=True)

    def own(self, result: Tensor) -> Tensor:
        """It lies there."""
        return result

    def read(self, look: Callable[[], object]) -> None:
        """Look at a value, and count it: CUDA waits for the stream without telling."""
        self._synchronized += 1
        look()

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
