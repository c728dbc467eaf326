"""The GPU sampler: its own thread reads NVML ten times a second, so a hanging driver never stops the drain.

Fields fail one by one: a value that a GPU or driver does not provide is None, and the others are read.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from loaderwatch.core.facts import GpuInfo, GpuState, ProcessInfo
from loaderwatch.core.message import Text
from loaderwatch.core.records import Row, Values, pack_row
from loaderwatch.core.system import pid_in_use
from loaderwatch.streamer.samplers.nvml import (
    SIMULATED_PREFIX,
    Device,
    NvmlMissing,
    list_devices,
    open_nvml,
    same_uuid,
)
from loaderwatch.streamer.samplers.other_streams import OtherStreams

log = logging.getLogger(__name__)

PERIOD_S: Final = 0.1
SLOW_EVERY: Final = 5  # ticks: memory, memory clock, temperature, throttle reasons
PROCESSES_EVERY: Final = 10  # ticks: utilization of each process, which the driver updates once a second
UNUSED_EVERY: Final = 10  # ticks: GPUs that no rank of ours uses
RESOLVE_EVERY_S: Final = 5.0
RESOLVE_SOON_S: Final = 1.0  # in a training process's first seconds, until it is found on its GPU
SOON_FOR_S: Final = 10.0
OPEN_AGAIN_S: Final = 60.0
MAX_ROWS: Final = 20_000


class GpuSampler:
    """``start`` it, name the processes to watch with ``follow``, and ``take_rows`` of the table "gpus"."""

    def __init__(self) -> None:
        self.off: Text | None = None  # why there are no GPU charts
        self._lock = threading.Lock()
        self._rows: deque[tuple[int, Values]] = deque(maxlen=MAX_ROWS)
        self._infos: list[GpuInfo] = []
        self._states: list[GpuState] = []
        self._followed: dict[int, tuple[int, str | None]] = {}
        self._followed_at = 0.0  # when the followed processes changed
        self._stop_asked = threading.Event()
        self._devices: list[Device] = []
        self._ranks: dict[int, list[tuple[int, int]]] = {}  # by device index: (rank, pid) on that device
        self._pcie_turn = 0
        self._used: dict[int, float] = {}
        self._streams = OtherStreams()
        self._thread = threading.Thread(target=self._run, name="nvml", daemon=True)

    def start(self) -> None:
        """Begin to sample."""
        self._thread.start()

    def stop(self) -> None:
        """Ask the thread to end. This does not wait for a call that hangs in the driver."""
        self._stop_asked.set()

    def follow(self, processes: Mapping[int, tuple[int, str | None]]) -> None:
        """Set the training processes to follow: rank to (pid, UUID of its GPU if the process named one)."""
        with self._lock:
            if processes.keys() != self._followed.keys():
                self._followed_at = time.monotonic()
            self._followed = dict(processes)

    def infos(self) -> list[GpuInfo]:
        """Return the GPUs, indexed by a row's ``gpu``, then an entry per further rank of a shared GPU."""
        with self._lock:
            return list(self._infos)

    def take_states(self) -> list[GpuState]:
        """Return what all GPUs do; empty if they were not read since the last call."""
        with self._lock:
            taken, self._states = self._states, []
        return taken

    def used(self) -> dict[int, float]:
        """Return the newest known utilization of each rank's GPU, 0 to 1."""
        with self._lock:
            return dict(self._used)

    def believed(
        self, waits: Sequence[tuple[int, ...]], wall_offset_ns: int, *, final: bool = False
    ) -> list[tuple[int, ...]]:
        """Return new rows of "gpu_waits", their starved time limited to what NVML confirms.

        Rows that NVML cannot confirm yet may come with a later call, unless this one is ``final``.
        """
        with self._lock:
            return self._streams.believed(waits, wall_offset_ns, hold=bool(self._devices) and not final)

    def held(self) -> list[tuple[int, ...]]:
        """Return the rows of "gpu_waits" that are kept for a later call of ``believed``."""
        with self._lock:
            return self._streams.held

    def annotate(self, processes: Sequence[ProcessInfo]) -> list[ProcessInfo]:
        """Return the processes, marking those that compute on another stream than they ask for batches on."""
        with self._lock:
            known = dict.fromkeys(self._streams.ranks, True) | dict.fromkeys(self._streams.waiting)
        return [
            msgspec.structs.replace(process, other_stream=known[process.rank])
            if process.rank in known
            else process
            for process in processes
        ]

    def take_rows(self, wall_offset_ns: int) -> list[Row]:
        """Return the rows since the last call."""
        with self._lock:
            taken = list(self._rows)
            self._rows.clear()
        return [pack_row("gpus", {"t_ns": at_ns + wall_offset_ns, **values}) for at_ns, values in taken]

    def _run(self) -> None:
        try:
            self._sample_for_good()
        except Exception as error:
            log.exception("GPU sampling ended")
            self.off = _off("reading-fails", f"{type(error).__name__}: {error}")

    def _sample_for_good(self) -> None:
        while not self._stop_asked.is_set():
            try:
                open_nvml()
            except NvmlMissing as missing:
                self.off = _off(missing.why, missing.said)
                if missing.forever:
                    return
                self._stop_asked.wait(OPEN_AGAIN_S)
                continue
            self.off = None
            self._sample_until_stopped()

    def _sample_until_stopped(self) -> None:
        deadline = time.monotonic()
        resolved_at = -RESOLVE_EVERY_S
        tick = 0
        while not self._stop_asked.is_set():
            every_s = RESOLVE_SOON_S if self._has_begun() else RESOLVE_EVERY_S
            if time.monotonic() >= resolved_at + every_s:
                self._resolve()
                resolved_at = time.monotonic()
            self._read(tick)
            tick += 1
            deadline += PERIOD_S
            late_s = time.monotonic() - deadline
            if late_s > 1.0:
                deadline += late_s  # after a suspend or a slow driver call, do not catch up by running faster
            elif late_s < 0:
                self._stop_asked.wait(-late_s)

    def _has_begun(self) -> bool:
        """Whether there are new training processes without a known device."""
        with self._lock:
            known = {rank for members in self._ranks.values() for rank, _ in members}
            return self._followed.keys() != known and time.monotonic() - self._followed_at < SOON_FOR_S

    def _resolve(self) -> None:
        """Find the GPUs and the ranks that use them."""
        devices = list_devices(self._devices)
        with self._lock:
            followed = dict(self._followed)
        ranks: dict[int, list[tuple[int, int]]] = {}
        for device in devices:
            device.read_rarely()
        for rank, (pid, uuid) in sorted(followed.items()):
            index = find_device(devices, pid, uuid)
            if index is not None:
                ranks.setdefault(index, []).append((rank, pid))
        ours = {pid: rank for rank, (pid, _) in followed.items()}
        states = []
        for index, device in enumerate(devices):
            device.count_others(ours.keys())
            if index not in ranks:
                device.read_processes()
            states.append(device.take_state(index, ours))
        self._devices, self._ranks = devices, ranks
        if not devices:
            self.off = _off("no-gpu")
        elif all(device.lost for device in devices):
            trouble = devices[0].trouble
            self.off = _off("gpu-fails", trouble, devices[0].uuid) if trouble else _off("no-answer")
        else:
            self.off = None
        first = [
            _info(index, device, ranks[index][0][0] if index in ranks else None)
            for index, device in enumerate(devices)
        ]
        further = [_info(index, devices[index], rank) for index in ranks for rank, _ in ranks[index][1:]]
        with self._lock:
            self._infos = first + further
            self._states = states

    def _read(self, tick: int) -> None:
        devices = self._devices
        used = [index for index in range(len(devices)) if index in self._ranks]
        if used:
            # One call per tick, because the driver measures for 20 ms in each call.
            calls = max(len(used) * 2, int(1.0 / PERIOD_S))
            self._pcie_turn = (self._pcie_turn + 1) % calls
            if self._pcie_turn < len(used) * 2:
                devices[used[self._pcie_turn // 2]].read_pcie(receive=self._pcie_turn % 2 == 0)
        for index, device in enumerate(devices):
            mine = index in self._ranks
            if not mine and tick % UNUSED_EVERY:
                continue
            device.read_fast()
            if tick % SLOW_EVERY == 0 or not mine:
                device.read_slow()
            if mine and tick % PROCESSES_EVERY == 0:
                device.read_processes()
            now = time.monotonic_ns()
            for rank, pid in self._ranks.get(index, [(None, None)]):
                values = device.values(pid)
                ratio = values.get("utilization_ratio")
                if any(value is not None for value in values.values()):
                    with self._lock:
                        self._rows.append((now, {"rank": rank, "gpu": index, **values}))
                        if rank is not None and ratio is not None:
                            self._used[rank] = ratio
                            alone = len(self._ranks[index]) == 1 and not values.get("other_pids")
                            self._streams.see(rank, now, ratio, alone=alone)


def _off(why: str, error: str | None = None, gpu: str | None = None) -> Text:
    return Text("gpu-charts-off", {"why": why, "error": error, "gpu": gpu})


def _info(index: int, device: Device, rank: int | None) -> GpuInfo:
    simulated = device.name.startswith(SIMULATED_PREFIX)
    return GpuInfo(gpu=index, uuid=device.uuid, name=device.name, rank=rank, simulated=simulated)


def find_device(devices: list[Device], pid: int, uuid: str | None) -> int | None:
    """Return the index of a process's device: the named one, unless NVML lists the process only on others.

    With no or a wrong name, it is the device where the process holds the most memory; None if unknown.
    """
    named = _named(devices, uuid)
    listed = [index for index, device in enumerate(devices) if _lists(device, pid)]
    if named in listed or not listed:
        return named
    if len(listed) == 1:
        return listed[0]
    held = {index: memory for index in listed if (memory := devices[index].pids[pid]) is not None}
    return max(held, key=held.__getitem__) if len(held) == len(listed) else None


def _named(devices: list[Device], uuid: str | None) -> int | None:
    if uuid is None:
        return None
    index = next((i for i, device in enumerate(devices) if same_uuid(device.uuid, uuid)), None)
    if index is None or not devices[index].slices:
        return index
    slices = devices[index].slices  # on a partitioned GPU only the slices compute
    return devices.index(slices[0]) if len(slices) == 1 else None


def _lists(device: Device, pid: int) -> bool:
    """Whether NVML lists the process there. A list with an unknown pid is of another pid namespace."""
    return pid in device.pids and not device.slices and all(map(pid_in_use, device.pids))
