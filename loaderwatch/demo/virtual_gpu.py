"""A GPU whose kernels take time but no CPU, behind ``torch.cuda``'s names, on the machine's own clock.

As in CUDA, work is queued and runs in order while the loop goes on. Events complete when the device reaches
them. ``synchronize`` and copies back wait. A caller that queues too much waits for room in the launch queue.
An event on an idle stream completes at once, whatever the device does for another stream. The device records
when it computed, so its idle time is known exactly. It computes nothing: tensors stay on the CPU.
"""

from __future__ import annotations

import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from loaderwatch.core import environment_variables as variables
from loaderwatch.core.message import Text
from loaderwatch.demo.stand_in import BusyFile, NoCompiler, SimulatedGpu, build, environment, write_script


@dataclass(frozen=True, slots=True)
class Simulation:
    """The training's environment variables for simulated GPUs, and a notice for the person."""

    environ: Mapping[str, str]
    notice: Text


def prepare(folder: Path, ranks: int) -> Simulation:
    """Build the stand-in for NVIDIA's library and its script in ``folder``; without compiler, no GPU charts.

    Raises:
        OSError: the folder cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("rank*"):
        old.unlink()
    environ = {variables.DEMO_GPUS.name: str(folder)}
    try:
        library = build(folder)
    except NoCompiler as error:
        return Simulation(environ, Text("demo-without-gpus", {"why": str(error)}))
    script = folder / "script"
    write_script(
        script,
        [SimulatedGpu(uuid=f"GPU-{_uuid(rank)}", busy=_busy_path(folder, rank)) for rank in range(ranks)],
    )
    return Simulation({**environ, **environment(library, script)}, Text("demo-gpus", {"gpus": ranks}))


def virtual_gpu(local_rank: int) -> VirtualGpu:
    """Return this rank's GPU; in the demo the stand-in for NVIDIA's library shows its activity."""
    gpu = VirtualGpu(uuid=_uuid(local_rank))
    busy = busy_file(local_rank)
    if busy is not None:
        gpu.show(busy)
    return gpu


def busy_file(local_rank: int) -> BusyFile | None:
    """Return the file in which this rank reports its GPU's activity; None outside the demo."""
    folder = variables.DEMO_GPUS.read()
    return None if folder is None else BusyFile(_busy_path(folder, local_rank))


def registered_pids(folder: Path) -> list[int]:
    """Return the pids of the ranks that have opened their busy files."""
    pids = []
    for path in folder.glob("rank*"):
        content = path.read_bytes()
        if len(content) >= 24 and (pid := struct.unpack_from("=q", content, 16)[0]):
            pids.append(pid)
    return pids


def _uuid(rank: int) -> str:
    return f"5eed0000-0000-0000-0000-{rank:012}"


def _busy_path(folder: Path, rank: int) -> Path:
    return folder / f"rank{rank}"


LAUNCHES: Final = 1024
"""Most kernels that wait in CUDA's launch queue (1,024 on current drivers)."""
SHOWN_EVERY_S: Final = 0.01
"""How often the stand-in for NVML learns how long the device has computed."""


class VirtualGpu:
    """A device that runs the kernels of all its streams in order. Times are seconds of ``time.monotonic``."""

    def __init__(self, launches: int = LAUNCHES, uuid: str = "virtual-0") -> None:
        self._launches = launches
        self._uuid = uuid
        self._lock = threading.Lock()
        self._ends: deque[float] = deque()  # of kernels that may still run or wait
        self._free_at = 0.0  # when the device has finished all work
        self._current = VirtualStream(self)
        self.busy: list[tuple[float, float]] = []  # start and end of each period without a pause
        self.synchronized = 0

    def launch(self, seconds: float) -> None:
        """Queue a kernel of this duration on the current stream, after waiting for room in the queue."""
        while True:
            with self._lock:
                now = time.monotonic()
                while self._ends and self._ends[0] <= now:
                    self._ends.popleft()
                if len(self._ends) < self._launches:
                    began = max(now, self._free_at)
                    self._free_at = self._current.free_at = began + seconds
                    self._ends.append(self._free_at)
                    if self.busy and began <= self.busy[-1][1]:
                        self.busy[-1] = (self.busy[-1][0], self._free_at)
                    else:
                        self.busy.append((began, self._free_at))
                    return
                room_at = self._ends[0]
            time.sleep(max(0.0, room_at - time.monotonic()))

    def synchronize(self) -> None:
        """Wait for all queued work, like ``.item()``, ``.cpu()`` and ``synchronize()``."""
        self.synchronized += 1
        while (left_s := self.free_at() - time.monotonic()) > 0:
            time.sleep(left_s)

    def free_at(self) -> float:
        """When the device will have finished the work queued now."""
        with self._lock:
            return self._free_at

    def current_stream(self, *_: object) -> VirtualStream:
        """``torch.cuda.current_stream()``."""
        return self._current

    @contextmanager
    def on_stream(self, stream: VirtualStream) -> Iterator[None]:
        """``with torch.cuda.stream(stream)``."""
        previous, self._current = self._current, stream
        try:
            yield
        finally:
            self._current = previous

    def idle_s(self, began: float, ended: float) -> float:
        """The seconds of a period in which the device was idle."""
        return ended - began - sum(max(0.0, min(end, ended) - max(begin, began)) for begin, end in self.busy)

    def show(self, busy: BusyFile) -> None:
        """From now on, show the device's activity through the stand-in for NVML."""
        threading.Thread(target=self._show, args=(busy,), daemon=True).start()

    def _show(self, busy: BusyFile) -> None:
        over_s, counted = 0.0, 0  # total of the finished periods, and their number
        while True:
            now = time.monotonic()
            with self._lock:
                while counted < len(self.busy) - 1:
                    over_s += self.busy[counted][1] - self.busy[counted][0]
                    counted += 1
                begin, end = self.busy[-1] if self.busy else (now, now)
            busy.tell(over_s + max(0.0, min(end, now) - begin))
            time.sleep(SHOWN_EVERY_S)

    def install(self, replace: Callable[[str, Any], None]) -> None:
        """Replace ``torch.cuda``'s names, each by ``replace(name, new)``."""
        replace("is_initialized", lambda: True)
        replace("is_available", lambda: True)
        replace("is_current_stream_capturing", bool)  # False; a C function like the real one
        replace("Event", self.event)
        replace("Stream", lambda *_, **__: VirtualStream(self))
        replace("stream", self.on_stream)
        replace("current_stream", self.current_stream)
        replace("synchronize", lambda *_: self.synchronize())
        replace("device_count", lambda: 1)
        replace("current_device", lambda: 0)
        replace("get_allocator_backend", lambda: "native")
        replace("memory_reserved", lambda _: 1)
        replace("get_device_properties", lambda _: Properties(self._uuid))
        replace("device", self.device)

    @contextmanager
    def device(self, _: int) -> Iterator[None]:
        """``with torch.cuda.device(0)``."""
        yield

    def event(self, *, enable_timing: bool = False) -> VirtualEvent:
        """``torch.cuda.Event``."""
        return VirtualEvent(self, timed=enable_timing)


class VirtualStream:
    """``torch.cuda.Stream``: its kernels run in launch order."""

    def __init__(self, gpu: VirtualGpu) -> None:
        self._gpu = gpu
        self.free_at = 0.0  # when it will have finished the work queued now

    def query(self) -> bool:
        return time.monotonic() >= self.free_at

    def synchronize(self) -> None:
        self._gpu.synchronized += 1
        time.sleep(max(0.0, self.free_at - time.monotonic()))

    def wait_stream(self, stream: VirtualStream) -> None:
        self.free_at = max(self.free_at, stream.free_at)


class Properties:
    """The properties of a device that we read."""

    def __init__(self, uuid: str) -> None:
        self.uuid = uuid


class VirtualEvent:
    """Complete once its stream has finished all work queued before it."""

    def __init__(self, gpu: VirtualGpu, *, timed: bool) -> None:
        self._gpu = gpu
        self._timed = timed
        self._at = float("inf")

    def record(self, stream: VirtualStream | None = None) -> None:
        self._at = max(time.monotonic(), (stream or self._gpu.current_stream()).free_at)

    def query(self) -> bool:
        return time.monotonic() >= self._at

    def synchronize(self) -> None:
        self._gpu.synchronized += 1
        time.sleep(max(0.0, self._at - time.monotonic()))

    def elapsed_time(self, end_event: VirtualEvent) -> float:
        assert self._timed
        assert self.query(), "CUDA raises here"
        assert end_event.query(), "CUDA raises here"
        return (end_event._at - self._at) * 1e3
