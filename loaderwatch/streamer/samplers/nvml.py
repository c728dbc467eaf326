"""Reads GPUs through pynvml, field by field. No other module knows NVML's calls and units."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Set
from typing import Any, Final

import pynvml

from loaderwatch.core.facts import GpuProcess, GpuState
from loaderwatch.core.records import Values
from loaderwatch.core.system import pid_in_use
from loaderwatch.streamer.samplers.process import name_and_user

log = logging.getLogger(__name__)

SIMULATED_PREFIX: Final = "loaderwatch simulated"
TRY_AGAIN_S: Final = 60.0
"""After this time a field that the GPU or driver does not support is tried again."""
KEEP_S: Final = 2.0
"""How long a process's utilization is valid: the driver samples a running process at least once a second."""
UNSUPPORTED: Final = frozenset(
    {
        pynvml.NVML_ERROR_NOT_SUPPORTED,
        pynvml.NVML_ERROR_FUNCTION_NOT_FOUND,
        pynvml.NVML_ERROR_NO_PERMISSION,
        pynvml.NVML_ERROR_INVALID_ARGUMENT,
    }
)
STATE_VALUES: Final = (
    "memory_used_bytes",
    "memory_total_bytes",
    "power_w",
    "power_limit_w",
    "sm_clock_hz",
    "temperature_c",
)
GONE: Final = frozenset({pynvml.NVML_ERROR_GPU_IS_LOST, pynvml.NVML_ERROR_RESET_REQUIRED})


class NvmlMissing(Exception):
    """NVML is unusable for the reason ``why`` of the message ``gpu-charts-off``; ``said`` is NVML's own text.

    ``forever``: this will not change while this process lives.
    """

    def __init__(self, why: str, said: str | None = None, *, forever: bool) -> None:
        super().__init__(why, said)
        self.why, self.said, self.forever = why, said, forever


def open_nvml() -> None:
    """Load and initialize NVML.

    Raises:
        NvmlMissing: there is no library or no driver, or their versions do not match.
    """
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        if error.value == pynvml.NVML_ERROR_LIBRARY_NOT_FOUND:
            raise NvmlMissing("no-driver", forever=True) from error
        raise NvmlMissing("driver-fails", str(error), forever=False) from error


def same_uuid(nvml_uuid: str, other: str) -> bool:
    """Whether two UUIDs name one GPU: CUDA and torch omit the prefix GPU- or MIG-."""
    return _bare(nvml_uuid) == _bare(other)


def _bare(uuid: str) -> str:
    lowered = uuid.lower()
    for prefix in ("gpu-", "mig-"):
        lowered = lowered.removeprefix(prefix)
    return lowered


def list_devices(known: list[Device]) -> list[Device]:
    """Return the GPUs in NVML's order, then MIG slices; known devices are kept."""
    by_uuid = {device.uuid: device for device in known}
    whole: list[Device] = []
    slices: list[Device] = []
    for index in range(_ask(pynvml.nvmlDeviceGetCount) or 0):
        handle = _ask(pynvml.nvmlDeviceGetHandleByIndex, index)
        uuid = _ask(pynvml.nvmlDeviceGetUUID, handle) if handle is not None else None
        if uuid is None:
            if index < len(known):
                whole.append(known[index])  # the GPU fell off the bus; it keeps its place in the list
                known[index].lost = True
            continue
        whole.append(by_uuid.get(uuid) or Device(handle, handle, uuid))
        whole[-1].handle = whole[-1].own = handle
        whole[-1].slices = _slices(handle, by_uuid)
        slices += whole[-1].slices
    return whole + slices


def _slices(parent: Any, by_uuid: dict[str, Device]) -> list[Device]:
    mode = _ask(pynvml.nvmlDeviceGetMigMode, parent)
    if not mode or mode[0] != pynvml.NVML_DEVICE_MIG_ENABLE:
        return []
    slices = []
    for index in range(_ask(pynvml.nvmlDeviceGetMaxMigDeviceCount, parent) or 0):
        own = _ask(pynvml.nvmlDeviceGetMigDeviceHandleByIndex, parent, index)
        uuid = _ask(pynvml.nvmlDeviceGetUUID, own) if own is not None else None
        if uuid is not None:
            slices.append(by_uuid.get(uuid) or Device(parent, own, uuid))
            slices[-1].handle, slices[-1].own = parent, own
    return slices


def _ask(call: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return call(*arguments)
    except pynvml.NVMLError:
        return None


class Device:
    """One GPU, or one MIG slice: memory and processes are the slice's own, power and clocks its GPU's.

    NVML gives no utilization of slices, nor of a GPU that is partitioned into slices.
    """

    def __init__(self, handle: Any, own: Any, uuid: str) -> None:
        self.handle = handle
        self.own = own
        self.uuid = uuid
        self.name: str = str(
            _ask(pynvml.nvmlDeviceGetName, own) or _ask(pynvml.nvmlDeviceGetName, handle) or "GPU"
        )
        self.slices: list[Device] = []
        self.pids: dict[int, float | None] = {}  # its processes, with the bytes of its memory that they hold
        self.lost = False
        self.trouble = ""
        self._retry_at: dict[str, float] = {}
        self._utilization: float | None = None
        self._utilizations: list[float] = []  # since the last state
        self._memory_utilization: float | None = None
        self._memory_used: float | None = None
        self._memory_total: float | None = None
        self._power_w: float | None = None
        self._power_limit_w: float | None = None
        self._sm_clock_hz: float | None = None
        self._memory_clock_hz: float | None = None
        self._pcie_rx: float | None = None
        self._pcie_tx: float | None = None
        self._temperature_c: float | None = None
        self._throttle_reasons: int | None = None
        self._others: int | None = None
        self._sampled_us: int | None = None  # newest sample of any process, by the driver's clock
        self._sm: dict[int, tuple[float, float]] = {}  # by pid: SM utilization, time of the reading

    def read_fast(self) -> None:
        """Read utilization, power and SM clock."""
        rates = self._field("utilization", pynvml.nvmlDeviceGetUtilizationRates, self.own)
        self._utilization = None if rates is None else rates.gpu / 100
        self._memory_utilization = None if rates is None else rates.memory / 100
        if self._utilization is not None:
            self._utilizations.append(self._utilization)
        self._power_w = _scaled(self._field("power", pynvml.nvmlDeviceGetPowerUsage, self.handle), 1e-3)
        clock = self._field("SM clock", pynvml.nvmlDeviceGetClockInfo, self.handle, pynvml.NVML_CLOCK_SM)
        self._sm_clock_hz = _scaled(clock, 1e6)

    def read_slow(self) -> None:
        """Read memory, memory clock, temperature and throttle reasons."""
        memory = self._field("memory", pynvml.nvmlDeviceGetMemoryInfo, self.own)
        self._memory_used = None if memory is None else float(memory.used)
        self._memory_total = None if memory is None else float(memory.total)
        clock = self._field("memory clock", pynvml.nvmlDeviceGetClockInfo, self.handle, pynvml.NVML_CLOCK_MEM)
        self._memory_clock_hz = _scaled(clock, 1e6)
        sensor = pynvml.NVML_TEMPERATURE_GPU
        self._temperature_c = _scaled(
            self._field("temperature", pynvml.nvmlDeviceGetTemperature, self.handle, sensor), 1.0
        )
        reasons = self._field("event reasons", pynvml.nvmlDeviceGetCurrentClocksEventReasons, self.handle)
        if reasons is None:  # drivers before 535 use another name
            reasons = self._field("reasons", pynvml.nvmlDeviceGetCurrentClocksThrottleReasons, self.handle)
        self._throttle_reasons = None if reasons is None else int(reasons)

    def read_pcie(self, *, receive: bool) -> None:
        """Read one direction's throughput; the driver measures for 20 ms."""
        name, counter = (
            ("PCIe receive", pynvml.NVML_PCIE_UTIL_RX_BYTES)
            if receive
            else ("PCIe send", pynvml.NVML_PCIE_UTIL_TX_BYTES)
        )
        rate = _scaled(self._field(name, pynvml.nvmlDeviceGetPcieThroughput, self.handle, counter), 1024.0)
        if receive:
            self._pcie_rx = rate
        else:
            self._pcie_tx = rate

    def read_processes(self) -> None:
        """Read the SM utilization of each process."""
        since_us = self._sampled_us or 0
        samples = self._field(
            "process utilization", pynvml.nvmlDeviceGetProcessUtilization, self.own, since_us
        )
        now = time.monotonic()
        self._sm = {pid: sm for pid, sm in self._sm.items() if now - sm[1] < KEEP_S}
        if not samples:
            return
        if self._sampled_us is not None:  # the first answer covers all that the driver remembers
            for sample in sorted(samples, key=lambda sample: int(sample.timeStamp)):
                if sample.smUtil <= 100:
                    self._sm[int(sample.pid)] = (sample.smUtil / 100, now)
        self._sampled_us = max(since_us, *(int(sample.timeStamp) for sample in samples))

    def read_rarely(self) -> None:
        """Read the power limit and the processes that use the device."""
        limit = self._field("power limit", pynvml.nvmlDeviceGetEnforcedPowerLimit, self.handle)
        self._power_limit_w = _scaled(limit, 1e-3)
        running = self._field("processes", pynvml.nvmlDeviceGetComputeRunningProcesses, self.own)
        self.pids = {int(p.pid): _scaled(p.usedGpuMemory, 1.0) for p in running or ()}

    def count_others(self, ours: Set[int]) -> None:
        """Count processes of other runs; unknown if NVML lists none of ours (another pid namespace)."""
        self._others = len(self.pids.keys() - ours) if self.pids.keys() & ours else None

    def values(self, pid: int | None = None) -> Values:
        """Return the device's values of the table "gpus", with process ``pid``'s; empty without an answer."""
        if self.lost:
            return {}
        return {
            "utilization_ratio": self._utilization,
            "memory_utilization_ratio": self._memory_utilization,
            "memory_used_bytes": self._memory_used,
            "memory_total_bytes": self._memory_total,
            "power_w": self._power_w,
            "power_limit_w": self._power_limit_w,
            "sm_clock_hz": self._sm_clock_hz,
            "memory_clock_hz": self._memory_clock_hz,
            "pcie_rx_bytes_per_s": self._pcie_rx,
            "pcie_tx_bytes_per_s": self._pcie_tx,
            "temperature_c": self._temperature_c,
            "throttle_reasons": self._throttle_reasons,
            "other_pids": self._others,
            "process_memory_bytes": None if pid is None else self.pids.get(pid),
            "process_sm_ratio": None if pid is None else self._sm.get(pid, (None, 0.0))[0],
        }

    def take_state(self, index: int, ranks: Mapping[int, int]) -> GpuState:
        """Return what the device does, with its mean utilization since the last call.

        Args:
            index: the device's index, as in ``GpuInfo.gpu``.
            ranks: pid to rank, of this run.
        """
        utilizations, self._utilizations = self._utilizations, []
        if self.lost:
            return GpuState(gpu=index)
        visible = all(map(pid_in_use, self.pids))  # else these pids belong to another pid namespace
        processes = []
        for pid, memory in sorted(self.pids.items(), key=lambda item: -(item[1] or 0.0)):
            name, user = name_and_user(pid) if visible else (None, None)
            sm_ratio = self._sm.get(pid, (None, 0.0))[0]
            processes.append(
                GpuProcess(
                    pid=pid, rank=ranks.get(pid), memory_bytes=memory, sm_ratio=sm_ratio, name=name, user=user
                )
            )
        values = self.values()
        return GpuState(
            gpu=index,
            utilization_ratio=sum(utilizations) / len(utilizations) if utilizations else None,
            throttle_reasons=self._throttle_reasons,
            processes=processes,
            **{name: values[name] for name in STATE_VALUES},
        )

    def _field(self, name: str, call: Callable[..., Any], *arguments: Any) -> Any:
        retry_at = self._retry_at.get(name)
        if retry_at is not None and time.monotonic() < retry_at:
            return None
        try:
            value = call(*arguments)
        except pynvml.NVMLError as error:
            if error.value in GONE:
                if not self.lost:
                    log.warning("GPU %s: %s", self.uuid, error)
                self.lost, self.trouble = True, str(error)
            elif error.value in UNSUPPORTED:
                if retry_at is None:
                    log.info("GPU %s does not tell its %s: %s", self.uuid, name, error)
                self._retry_at[name] = time.monotonic() + TRY_AGAIN_S
            return None
        self.lost = False
        return value


def _scaled(value: Any, factor: float) -> float | None:
    return None if value is None else float(value) * factor
