"""Which accelerator this process computes on, and the clock for it: CUDA's, or that of another one that PyTorch offers."""

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
    """A clock for a device that is not the current one: events on the current one would open a context and time nothing."""

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
    """The kind of device that this process computes on: ``torch.cuda``, or what ``torch.accelerator`` names."""

    module: Any
    make_event: Callable[[], Event]

    @property
    def is_capturing(self) -> Callable[[], bool]:
        """Return the test whether what is launched now becomes part of a graph; not every kind has graphs."""
        found: Callable[[], bool] = getattr(self.module, "is_current_stream_capturing", _never)
        return found


def accelerator_in_use() -> Accelerator | None:
    """Return the accelerator that this process has initialized; None where it has none, or that cannot be told.

    Nothing is asked that would initialize one. Of Apple's nobody can tell, so that its waits are the loop's.
    """
    cuda: Any = sys.modules.get("torch.cuda")
    if cuda is not None and cuda.is_initialized():
        return Accelerator(cuda, lambda: cuda.Event(enable_timing=True))
    torch: Any = sys.modules.get("torch")
    kind = ask(
        lambda: torch.accelerator.current_accelerator().type
    )  # from PyTorch 2.6 on; None in a build for CPUs
    module: Any = None if kind is None else getattr(torch, kind, None)
    if not getattr(module, "is_initialized", _never)():
        return None
    return Accelerator(module, lambda: torch.Event(kind, enable_timing=True))


def _never() -> bool:
    return False


def device_clock(ring: RingWriter) -> DeviceClock | None:
    """Return a clock for the device that computes; None while this process uses no accelerator or the device is not known."""
    accelerator = accelerator_in_use()
    device = None if accelerator is None else computing_device(accelerator.module, os.environ)
    if accelerator is None or device is None:
        return None
    if device != accelerator.module.current_device():
        return _ElsewhereClock(ring, accelerator, device)
    return DeviceClock(ring, accelerator.make_event, accelerator.is_capturing, parts_ns)


def computing_device(module: Any, environ: Mapping[str, str]) -> int | None:
    """Return the device that holds this process's tensors, else the one it chose; None in doubt.

    The current device does not tell: ``.to(rank)`` leaves it at 0. ``module`` is ``torch.cuda`` or that of another
    accelerator, initialized.
    """
    count: int = module.device_count()
    current: int = module.current_device()
    held: dict[int, int] = {}
    reserved = getattr(module, "memory_reserved", None)
    backend = getattr(module, "get_allocator_backend", None)
    if reserved is not None and (backend is None or backend() == "native"):
        # asking another allocator may open a context on each device
        held = {device: reserved(device) for device in range(count)}
    if any(held.values()) and not (current and held[current]):
        return max(held, key=lambda device: (held[device], device == current))
    return current if current or count == 1 or environ.get("LOCAL_RANK") == "0" else None
