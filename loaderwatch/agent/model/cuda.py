"""CUDA events around each wait, which tell how long the GPU itself starved. They are read later and never waited for.

An event recorded at the request completes when the GPU has finished what was queued before; one recorded at delivery
completes at once if the GPU is idle by then. The time between the two is the GPU's own idle time for this batch.
"""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Final, Protocol

from loaderwatch.core.records import UNKNOWN, RecordKind
from loaderwatch.core.ring import RingWriter

MAX_PENDING: Final = 256
"""How many batches may have events that the GPU has not reached yet; beyond that the oldest is given up."""


class Event(Protocol):
    """The part of ``torch.cuda.Event`` that we use."""

    def record(self) -> None:
        """Put the event on the current stream."""

    def query(self) -> bool:
        """Whether the GPU has reached it."""

    def elapsed_time(self, end_event: Any) -> float:
        """Milliseconds from this event to another."""


@dataclass(slots=True)
class Batch:
    """The events of a batch that the GPU has not reached yet."""

    requested: Event
    delivered: Event | None = None
    left: Event | None = None  # the next request
    loader: int = UNKNOWN
    epoch: int = UNKNOWN
    number: int = UNKNOWN
    request_ns: int = UNKNOWN


class CudaClock:
    """Records and reads the events of one loader's batches."""

    def __init__(
        self, ring: RingWriter, make_event: Callable[[], Event], is_capturing: Callable[[], bool]
    ) -> None:
        self._ring = ring
        self._make_event = make_event
        self._is_capturing = is_capturing
        self._pool: list[Event] = []
        self._pending: deque[Batch] = deque()
        self._current: Batch | None = None

    def request(self) -> None:
        """Note that ``next(loader)`` was entered."""
        if self._is_capturing():  # an event would become part of the user's CUDA graph
            self._current = None
            return
        event = self._record()
        before = self._current
        if before is not None and before.delivered is not None:
            before.left = event
            self._pending.append(before)
            if len(self._pending) > MAX_PENDING:
                self._pending.popleft()  # the GPU may still reach its events, so they are not used again
        self._current = Batch(event)
        self._collect()

    def deliver(self, loader: int, epoch: int, batch: int, request_ns: int) -> None:
        """Note that a batch was delivered."""
        current = self._current
        if current is None or self._is_capturing():
            return
        current.delivered = self._record()
        current.loader, current.epoch, current.number = loader, epoch, batch
        current.request_ns = request_ns

    def _record(self) -> Event:
        event = self._pool.pop() if self._pool else self._make_event()
        event.record()
        return event

    def _collect(self) -> None:
        pending = self._pending
        while pending:
            batch = pending[0]
            delivered, left = batch.delivered, batch.left
            if delivered is None or left is None or not left.query():
                return
            pending.popleft()
            self._ring.append(
                RecordKind.GPU_WAIT,
                batch.loader,
                batch.epoch,
                batch.number,
                batch.request_ns,
                int(batch.requested.elapsed_time(delivered) * 1e6),
                int(delivered.elapsed_time(left) * 1e6),
            )
            self._pool += (batch.requested, delivered)  # ``left`` belongs to the next batch


class _ElsewhereClock(CudaClock):
    """A clock for a device that is not the current one: events on the current one would open a context and time nothing."""

    def __init__(self, ring: RingWriter, cuda: Any, device: int) -> None:
        super().__init__(ring, lambda: cuda.Event(enable_timing=True), cuda.is_current_stream_capturing)
        self._on_device: Callable[[], AbstractContextManager[None]] = lambda: cuda.device(device)

    def request(self) -> None:
        with self._on_device():
            super().request()

    def deliver(self, loader: int, epoch: int, batch: int, request_ns: int) -> None:
        with self._on_device():
            super().deliver(loader, epoch, batch, request_ns)


def cuda_clock(ring: RingWriter) -> CudaClock | None:
    """Return a clock for the device that computes; None while this process does not use CUDA or the device is not known."""
    cuda: Any = sys.modules.get("torch.cuda")
    if cuda is None or not cuda.is_initialized():
        return None
    device = computing_device(cuda, os.environ)
    if device is None:
        return None
    if device != cuda.current_device():
        return _ElsewhereClock(ring, cuda, device)
    return CudaClock(ring, lambda: cuda.Event(enable_timing=True), cuda.is_current_stream_capturing)


def computing_device(cuda: Any, environ: Mapping[str, str]) -> int | None:
    """Return the CUDA device that holds this process's tensors, else the one it chose; None in doubt.

    The current device does not tell: ``.to(rank)`` leaves it at 0. ``cuda`` is ``torch.cuda``, initialized.
    """
    count: int = cuda.device_count()
    current: int = cuda.current_device()
    held: dict[int, int] = {}
    if cuda.get_allocator_backend() == "native":  # asking another allocator may open a context on each device
        held = {device: cuda.memory_reserved(device) for device in range(count)}
    if any(held.values()) and not (current and held[current]):
        return max(held, key=lambda device: (held[device], device == current))
    return current if current or count == 1 or environ.get("LOCAL_RANK") == "0" else None
