"""The device's own clock, in Python: events around each data wait show how long the GPU itself starved.

Events are read later and never waited for. They are CUDA's or another accelerator's (the page says GPU).

The event recorded at the request completes when the GPU has finished all earlier work. The event recorded at
delivery completes at once if the GPU is idle by then. The time between the two is the GPU's idle time.

The same events show how far the loop runs ahead of the GPU, its *slack*: the time from the request until the
GPU reaches the request's event. The slack needs the offset between the two clocks. No API gives the offset,
but the queries of events give bounds for it.

In closely observed steps, events between the parts of a step show how long the GPU spent in each phase.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import monotonic_ns
from typing import Any, Final, Protocol

from loaderwatch.agent.hot.layout import (
    DRIFT_PPM,
    JUMP_NS,
    MAX_MARKS,
    MAX_PENDING,
    PARTS,
    READ_TOGETHER,
    READ_WITHIN_NS,
    Part,
)
from loaderwatch.core.records import RECORD_FIELDS, UNKNOWN, RecordKind
from loaderwatch.core.ring import RingWriter

_PART_FIELDS: Final = RECORD_FIELDS[RecordKind.GPU_WAIT][-PARTS:]


class Event(Protocol):
    """The part of ``torch.cuda.Event`` and ``torch.Event`` that we use."""

    def record(self) -> None:
        """Put the event on the current stream."""

    def query(self) -> bool:
        """Whether the GPU has reached the event."""

    def elapsed_time(self, end_event: Any) -> float:
        """Milliseconds from this event to another."""


Marks = Sequence[tuple[int, Event]]
PartsOf = Callable[[Event, Event, Marks], tuple[int, ...]]
"""Computes the device time of a batch's parts from its delivery, the next request and the marks between."""


@dataclass(slots=True)
class Batch:
    """The events of a batch before they are read."""

    requested: Event
    delivered: Event | None = None
    left: Event | None = None  # the next request
    loader: int = UNKNOWN
    epoch: int = UNKNOWN
    number: int = UNKNOWN
    request_ns: int = UNKNOWN
    unreached_ns: float = -math.inf  # the last query at which the GPU had not reached ``left``
    reached_ns: int = UNKNOWN  # the first query at which the GPU had reached ``left``
    marks: list[tuple[int, Event]] = field(default_factory=list)


class Offset:
    """Bounds for the loop's clock minus the device's clock, in ns.

    The device reaches an event after the loop recorded it and after every query that found it pending. It
    reaches the event before the first query that found it complete. Each of these times is a bound. The
    bounds nearly meet if the device idles or a query comes close to the event. Bounds loosen as clocks drift.
    """

    def __init__(self) -> None:
        self.least = -math.inf
        self._most = math.inf
        self._at_ns = 0

    def narrow(self, least: float, most: float, now_ns: int) -> None:
        """Apply new bounds; if they contradict the old ones by far, a clock jumped and only they count."""
        loose_ns = DRIFT_PPM * 1e-6 * (now_ns - self._at_ns)
        self._at_ns = now_ns
        self.least = max(self.least - loose_ns, least)
        self._most = min(self._most + loose_ns, most)
        if self.least > self._most + JUMP_NS:
            self.least, self._most = least, most


class DeviceClock:
    """Records and reads the events of one loader's batches."""

    def __init__(
        self,
        ring: RingWriter,
        make_event: Callable[[], Event],
        is_capturing: Callable[[], bool],
        parts_of: PartsOf,
    ) -> None:
        self._ring = ring
        self._parts_of = parts_of
        self._make_event = make_event
        self._is_capturing = is_capturing
        self._pool: list[Event] = []
        self._pending: deque[Batch] = deque()
        self._reached_batches = 0  # how many of the first pending batches the device has reached
        self._read_ns = 0
        self._current: Batch | None = None
        self._offset = Offset()
        self._gives_up = False
        self._device_ns = 0  # device time of the event below, since the first event
        self._reached: Event | None = None  # the newest event that the device is known to have reached

    def request(self) -> None:
        """Note that ``next(loader)`` was entered.

        If the device is lost or its events have no times, it is not queried again: only loop waits count.
        """
        self._unless_given_up(self._request)

    def read(self) -> None:
        """Read the batches that the device has reached: a pass ends, and another query may never come."""
        self._unless_given_up(self._read_rest)

    def _read_rest(self) -> None:
        if self._reached_batches and not self._is_capturing():  # looking at events may end a capture
            self._read()

    def _unless_given_up(self, call: Callable[[], None]) -> None:
        if self._gives_up:
            return
        try:
            call()
        except RuntimeError:
            self._gives_up = True
            self._current = None
            self._pending.clear()
            self._reached_batches = 0

    def _request(self) -> None:
        if self._is_capturing():  # an event would become part of the user's graph
            self._current = None
            return
        event = self._record()
        previous = self._current
        if previous is not None and previous.delivered is not None:
            previous.left = event
            self._pending.append(previous)
            if len(self._pending) > MAX_PENDING:
                self._pending.popleft()  # the GPU may still reach these events, so they are not reused
                self._reached_batches = max(0, self._reached_batches - 1)
        self._current = Batch(event)
        self._collect()

    def deliver(self, loader: int, epoch: int, batch: int, request_ns: int) -> None:
        """Note that a batch was delivered."""
        current = self._current
        if current is None:  # no request was noted, or a graph was being captured at the request
            return
        current.delivered = self._record()
        current.loader, current.epoch, current.number = loader, epoch, batch
        current.request_ns = request_ns

    def mark(self, part: int) -> None:
        """Note that the loop now begins to launch the work of this part of the step."""
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
        while self._reached_batches < len(pending):
            place = self._reached_batches
            batch = pending[place]
            left = batch.left
            if left is None:
                return
            reached = left.query()
            if self._reached_batches != place or len(pending) <= place or pending[place] is not batch:
                return  # other code has read this batch in the meantime
            if not reached:
                batch.unreached_ns = now_ns
                break
            batch.reached_ns = now_ns
            self._reached_batches += 1
        soon = self._reached_batches < READ_TOGETHER and now_ns - self._read_ns < READ_WITHIN_NS
        if self._reached_batches and not soon:
            self._read_ns = now_ns
            self._read()

    def _read(self) -> None:
        while self._reached_batches:
            self._reached_batches -= 1
            batch = self._pending.popleft()
            delivered, left = batch.delivered, batch.left
            if delivered is None or left is None:
                return
            starved_ns = int(batch.requested.elapsed_time(delivered) * 1e6)
            step_ns = int(delivered.elapsed_time(left) * 1e6)
            self._ring.append(
                RecordKind.GPU_WAIT,
                loader=batch.loader,
                epoch=batch.epoch,
                batch=batch.number,
                request_ns=batch.request_ns,
                starved_ns=starved_ns,
                gpu_step_ns=step_ns,
                slack_ns=self._slack_ns(batch, starved_ns + step_ns),
                **self._parts(delivered, left, batch.marks),
            )
            self._reached = left
            self._pool += (batch.requested, delivered)  # ``left`` belongs to the next batch
            self._pool += (event for _, event in batch.marks)

    def _parts(self, delivered: Event, left: Event, marks: Marks) -> dict[str, int]:
        parts = self._parts_of(delivered, left, marks) if marks else (UNKNOWN,) * PARTS
        return dict(zip(_PART_FIELDS, parts, strict=True))

    def _slack_ns(self, batch: Batch, took_ns: int) -> int:
        """Return the least time from the loop's request until the device reached the request's event."""
        if self._reached is not None and self._reached is not batch.requested:  # an epoch ended in between
            self._device_ns += int(self._reached.elapsed_time(batch.requested) * 1e6)
        requested_ns = self._device_ns
        self._device_ns += took_ns
        least = max(batch.request_ns - requested_ns, batch.unreached_ns - self._device_ns)
        self._offset.narrow(least, batch.reached_ns - self._device_ns, batch.reached_ns)
        return max(0, int(requested_ns + self._offset.least) - batch.request_ns)


def parts_ns(delivered: Event, left: Event, marks: Marks) -> tuple[int, ...]:
    """Return the device time of a batch's h2d, forward, backward and optimizer in ns; UNKNOWN if not marked.

    All are UNKNOWN if the device has not reached a mark: marks are then on another stream than requests.

    If the first mark is the model's call, the work before it is the copy of the batch. Otherwise that work is
    part of the forward pass, whose input came from the host.
    """
    if not all(event.query() for _, event in marks):
        return (UNKNOWN,) * PARTS
    spent_ns = [UNKNOWN] * len(Part)
    part: int = Part.H2D if marks[0][0] == Part.FORWARD else Part.FORWARD
    since = delivered
    for following, event in (*marks, (Part.OTHER, left)):
        spent_ns[part] = max(0, spent_ns[part]) + int(since.elapsed_time(event) * 1e6)
        part, since = following, event
    return tuple(spent_ns[:PARTS])
