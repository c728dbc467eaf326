"""A CUDA device behind ``torch.cuda``: one stream with its own clock, and answers about devices."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any


class FakeCuda:
    """Milliseconds pass when the test says so; kernels run one after the other.

    ``install`` puts it into ``torch.cuda``. Attributes that it does not have remain those of torch.
    """

    def __init__(self, reserved: Sequence[int] = (0,), current: int = 0) -> None:
        self.now_ms = 0.0
        self.free_at_ms = 0.0
        self.made = 0
        self.initialized = True
        self.capturing = False
        self.spoiled = 0  # events that became part of a graph
        self.reserved = reserved  # bytes of the caching allocator, by device
        self.current = current
        self.allocator = "native"
        self.recorded_on: set[int] = set()  # devices with an event: each has a context of its own

    def launch(self, kernel_ms: float) -> None:
        """Put a kernel on the stream."""
        self.free_at_ms = max(self.now_ms, self.free_at_ms) + kernel_ms

    def install(self, replace: Callable[[str, Any], None]) -> None:
        """Replace the functions, each by ``replace(name, new)``."""
        replace("is_initialized", lambda: self.initialized)
        replace("is_current_stream_capturing", lambda: self.capturing)
        replace("Event", self.event)
        replace("device_count", lambda: len(self.reserved))
        replace("current_device", lambda: self.current)
        replace("get_allocator_backend", lambda: self.allocator)
        replace("memory_reserved", self._memory_reserved)
        replace("get_device_properties", Properties)
        replace("device", self.device)

    @contextmanager
    def device(self, device: int) -> Iterator[None]:
        """``with torch.cuda.device(n)``."""
        before, self.current = self.current, device
        try:
            yield
        finally:
            self.current = before

    def event(self, *, enable_timing: bool) -> FakeEvent:
        assert enable_timing, "events without it tell no time"
        self.made += 1
        return FakeEvent(self)

    def _memory_reserved(self, device: int) -> int:
        assert self.allocator == "native", "with others, asking may open a context"
        return self.reserved[device]


class Properties:
    """Of a device, as far as we ask."""

    def __init__(self, device: int) -> None:
        self.uuid = f"0000-{device}"


class FakeEvent:
    """Done when all that was put on the stream before it is."""

    def __init__(self, cuda: FakeCuda) -> None:
        self._cuda = cuda
        self._at_ms: float | None = None

    def record(self) -> None:
        self._cuda.spoiled += self._cuda.capturing
        self._cuda.recorded_on.add(self._cuda.current)
        self._at_ms = max(self._cuda.now_ms, self._cuda.free_at_ms)

    def query(self) -> bool:
        assert self._at_ms is not None
        return self._cuda.now_ms >= self._at_ms

    def elapsed_time(self, end_event: FakeEvent) -> float:
        assert self.query()
        assert end_event.query(), "CUDA raises here"
        assert self._at_ms is not None
        assert end_event._at_ms is not None
        return end_event._at_ms - self._at_ms
