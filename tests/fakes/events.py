"""Events of a device that completes them when the test says so; stands in for the driver."""

from __future__ import annotations


class Gpu:
    """A stream that has come up to ``reached``."""

    def __init__(self) -> None:
        self.reached = 0.0
        self.now = 0.0
        self.made = 0
        self.capturing = False

    def event(self) -> GpuEvent:
        self.made += 1
        return GpuEvent(self)


class GpuEvent:
    """Done when the stream has come up to where it was put."""

    def __init__(self, gpu: Gpu) -> None:
        self.gpu = gpu
        self.at = -1.0

    def record(self) -> None:
        self.at = self.gpu.now

    def query(self) -> bool:
        return self.gpu.reached >= self.at

    def elapsed_time(self, end_event: GpuEvent) -> float:
        assert self.query()
        assert end_event.query()
        return end_event.at - self.at
