"""The accelerator that this process computes on (CUDA or another one of PyTorch), and its clock."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from loaderwatch.agent.guard import ask
from loaderwatch.agent.hot import DeviceClock
from loaderwatch.agent.hot.device_clock import Event, parts_ns
from loaderwatch.core.ring import RingWriter


class _ElsewhereClock(DeviceClock):
    """Clock for a device that is not current: events on the current one would only open a context there."""

    def __init__(self, ring: RingWriter, accelerator: Accelerator, device: int) -> None:
        super().__init__(ring, accelerator.make_event, accelerator.is_capturing, parts_ns)
        self._on_device: Callable[[], AbstractContextManager[None]] = lambda: accelerator.module.device(
            device
        )

    def request(self) -> None:
        with self._on_device():
            super().request()

    def read(self) -> None:
        with self._on_device():
            super().read()

    def deliver(self, loader: int, epoch: int, batch: int, request_ns: int) -> None:
        with self._on_device():
            super().deliver(loader, epoch, batch, request_ns)

    def mark(self, part: int) -> None:
        with self._on_device():
            super().mark(part)


@dataclass(frozen=True)
class Accelerator:
    """The kind of device that this process computes on: CUDA, or another kind from ``torch.accelerator``."""

    module: Any
    make_event: Callable[[], Event]

    @property
    def is_capturing(self) -> Callable[[], bool]:
        """Return the check whether the current stream captures a graph; devices without graphs never do."""
        capturing: Callable[[], bool] = getattr(self.module, "is_current_stream_capturing", _never)
        return capturing


def accelerator_in_use() -> Accelerator | None:
    """Return the accelerator that this process has initialized; None if there is none or it is unknown.

    This initializes nothing. For Apple's (MPS), PyTorch does not tell: the loop's waits are used instead.
    """
    cuda: Any = sys.modules.get("torch.cuda")
    if cuda is not None and cuda.is_initialized():
        return Accelerator(cuda, lambda: cuda.Event(enable_timing=True))
    torch: Any = sys.modules.get("torch")
    # Exists since PyTorch 2.6; it gives None in a CPU build.
    kind = ask(lambda: torch.accelerator.current_accelerator().type)
    module: Any = None if kind is None else getattr(torch, kind, None)
    if not getattr(module, "is_initialized", _never)():
        return None
    return Accelerator(module, lambda: torch.Event(kind, enable_timing=True))


def _never() -> bool:
    return False


def device_clock(ring: RingWriter) -> DeviceClock | None:
    """Return a clock for the computing device; None while no accelerator or no certain device is known."""
    accelerator = accelerator_in_use()
    device = None if accelerator is None else computing_device(accelerator.module, os.environ)
    if accelerator is None or device is None:
        return None
    if device != accelerator.module.current_device():
        return _ElsewhereClock(ring, accelerator, device)
    return DeviceClock(ring, accelerator.make_event, accelerator.is_capturing, parts_ns)


def computing_device(module: Any, environ: Mapping[str, str]) -> int | None:
    """Return the device that holds this process's tensors, else the one it selected; None in doubt.

    The current device alone proves nothing: ``.to(rank)`` leaves it at 0. ``module`` is ``torch.cuda`` or
    another accelerator's module, already initialized.
    """
    count: int = module.device_count()
    current: int = module.current_device()
    held_bytes: dict[int, int] = {}
    reserved = getattr(module, "memory_reserved", None)
    backend = getattr(module, "get_allocator_backend", None)
    if reserved is not None and (backend is None or backend() == "native"):
        # Other allocators may open a context on each device that is queried.
        held_bytes = {device: reserved(device) for device in range(count)}
    if any(held_bytes.values()) and not (current and held_bytes[current]):
        return max(held_bytes, key=lambda device: (held_bytes[device], device == current))
    return current if current or count == 1 or environ.get("LOCAL_RANK") == "0" else None
