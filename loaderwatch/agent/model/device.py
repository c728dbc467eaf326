"""The device's own clock: events around each wait, which tell how long the GPU itself starved. They are read later, never waited for.

They are CUDA's, or those of another accelerator that PyTorch offers; the page's word for all of them is GPU.

An event recorded at the request completes when the GPU has finished what was queued before; one recorded at delivery
completes at once if the GPU is idle by then. The time between the two is the GPU's own idle time for this batch.

The same events tell how far the loop runs ahead of the GPU, its *slack*: how long after the request the GPU reaches the event
recorded there. That needs the GPU's clock in terms of the loop's, which nobody tells, but what is seen of events bounds.

In the steps that are looked at closely, events at the seams of model and optimizer tell how long the GPU spent in each phase.
"""

from __future__ import annotations

import enum
import math
import os
import sys
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from loaderwatch.core.clock import monotonic_ns
from loaderwatch.core.records import UNKNOWN, RecordKind
from loaderwatch.core.ring import RingWriter

MAX_PENDING: Final = 256
"""How many batches may have events that the GPU has not reached yet; beyond that the oldest is given up."""
DRIFT: Final = 1e-4
"""How far two clocks run apart, in seconds a second, at most: the crystals of host and GPU are each within some 5e-5."""
JUMP_NS: Final = 1e6
"""By how much bounds may contradict each other: drift since the device reached what is seen only now, and rounding."""
MAX_MARKS: Final = 32
"""How many seams of a step are marked at most; more are those of closures that call the model again and again."""


class Part(enum.IntEnum):
    """What the loop launches from a mark on until the next one; the first four have columns of their own."""

    H2D = 0
    FORWARD = 1
    BACKWARD = 2
    OPTIMIZER = 3
    OTHER = 4


class Event(Protocol):
    """The part of ``torch.cuda.Event`` and ``torch.Event`` that we use."""

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
    unreached_ns: float = -math.inf  # when a query last found that the GPU had not reached ``left``
    marks: list[tuple[Part, Event]] = field(default_factory=list)


class Offset:
    """The loop's clock less the device's, in ns, between two bounds.

    The device reaches an event after the loop recorded it, after any query that finds it not reached yet, and before one
    that finds it reached. Each of these is a bound; where the device idles or a query comes close, they all but meet.
    Clocks drift, so that a bound loosens with time.
    """

    def __init__(self) -> None:
        self.least = -math.inf
        self._most = math.inf
        self._at_ns = 0

    def narrow(self, least: float, most: float, now_ns: int) -> None:
        """Take in bounds that were seen; where they contradict the older ones by far, a clock has jumped and only they count."""
        loose_ns = DRIFT * (now_ns - self._at_ns)
        self._at_ns = now_ns
        self.least = max(self.least - loose_ns, least)
        self._most = min(self._most + loose_ns, most)
        if self.least > self._most + JUMP_NS:
            self.least, self._most = least, most


class DeviceClock:
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
        self._offset = Offset()
        self._gives_up = False
        self._device_ns = 0  # when the device reached the event below, by its own clock since the first one
        self._reached: Event | None = None  # the newest that it was seen to have reached

    def request(self) -> None:
        """Note that ``next(loader)`` was entered.

        A device whose events tell no time, or that is lost, is not asked again: its waits are the loop's then.
        """
        if self._gives_up:
            return
        try:
            self._request()
        except RuntimeError:
            self._gives_up = True
            self._current = None
            self._pending.clear()

    def _request(self) -> None:
        if self._is_capturing():  # an event would become part of the user's graph
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

    def mark(self, part: Part) -> None:
        """Note that from here on the loop launches the work of a part of the step."""
        current = self._current
        if current is None or current.delivered is None or len(current.marks) >= MAX_MARKS:
            return
        if not self._is_capturing():
            current.marks.append((part, self._record()))

    def _record(self) -> Event:
        event = self._pool.pop() if self._pool else self._make_event()
        event.record()
        return event

    def _collect(self) -> None:
        pending = self._pending
        now_ns = monotonic_ns()
        while pending:
            batch = pending[0]
            delivered, left = batch.delivered, batch.left
            if delivered is None or left is None:
                return
            if not left.query():
                batch.unreached_ns = now_ns
                return
            pending.popleft()
            starved_ns = int(batch.requested.elapsed_time(delivered) * 1e6)
            step_ns = int(delivered.elapsed_time(left) * 1e6)
            self._ring.append(
                RecordKind.GPU_WAIT,
                batch.loader,
                batch.epoch,
                batch.number,
                batch.request_ns,
                starved_ns,
                step_ns,
                self._slack_ns(batch, starved_ns + step_ns, now_ns),
                *_parts_ns(batch),
            )
            self._reached = left
            self._pool += (batch.requested, delivered)  # ``left`` belongs to the next batch
            self._pool += (event for _, event in batch.marks)

    def _slack_ns(self, batch: Batch, took_ns: int, now_ns: int) -> int:
        """Return how long after its request the device reached that point in its work, at least."""
        if self._reached is not None and self._reached is not batch.requested:  # an epoch ended in between
            self._device_ns += int(self._reached.elapsed_time(batch.requested) * 1e6)
        requested_ns = self._device_ns
        self._device_ns += took_ns
        least = max(batch.request_ns - requested_ns, batch.unreached_ns - self._device_ns)
        self._offset.narrow(least, now_ns - self._device_ns, now_ns)
        return max(0, int(requested_ns + self._offset.least) - batch.request_ns)


def _parts_ns(batch: Batch) -> list[int]:
    """Return what the device spent on h2d, forward, backward and optimizer of a batch in ns; UNKNOWN without marks.

    What was launched before the first mark is the copy of the batch where the mark is that of the model's call, else a
    part of the forward pass: its input came from the host.
    """
    spent_ns = [UNKNOWN] * len(Part)
    delivered, left = batch.delivered, batch.left
    if not batch.marks or delivered is None or left is None:
        return spent_ns[: Part.OTHER]
    first = Part.H2D if batch.marks[0][0] is Part.FORWARD else Part.FORWARD
    part, since = first, delivered
    for following, event in (*batch.marks, (Part.OTHER, left)):
        spent_ns[part] = max(0, spent_ns[part]) + int(since.elapsed_time(event) * 1e6)
        part, since = following, event
    return spent_ns[: Part.OTHER]


class _ElsewhereClock(DeviceClock):
    """A clock for a device that is not the current one: events on the current one would open a context and time nothing."""

    def __init__(self, ring: RingWriter, accelerator: Accelerator, device: int) -> None:
        super().__init__(ring, accelerator.make_event, accelerator.is_capturing)
        self._on_device: Callable[[], AbstractContextManager[None]] = lambda: accelerator.module.device(
            device
        )

    def request(self) -> None:
        with self._on_device():
            super().request()

    def deliver(self, loader: int, epoch: int, batch: int, request_ns: int) -> None:
        with self._on_device():
            super().deliver(loader, epoch, batch, request_ns)

    def mark(self, part: Part) -> None:
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
    ask_kind = getattr(
        getattr(torch, "accelerator", None), "current_accelerator", None
    )  # from PyTorch 2.6 on
    found = None if ask_kind is None else ask_kind()
    module: Any = None if found is None else getattr(torch, found.type, None)
    if found is None or not getattr(module, "is_initialized", _never)():
        return None
    return Accelerator(module, lambda: torch.Event(found.type, enable_timing=True))


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
    return DeviceClock(ring, accelerator.make_event, accelerator.is_capturing)


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
