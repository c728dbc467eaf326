"""Simulated GPUs: the stand-in for NVIDIA's library, its script, and the marks of busy times.

A training script imports this module, so it imports nothing heavy. See ``nvml_stand_in.c`` for statements.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import shutil
import subprocess
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from loaderwatch.core.environment_variables import NVML_SCRIPT
from loaderwatch.core.files import write_atomically

LIBRARY_NAME: Final = "libnvidia-ml.so.1"
SOURCE: Final = Path(__file__).with_name("nvml_stand_in.c")
_BUSY_BYTES: Final = 24
_COMPILE_WITHIN_S: Final = 120


class NoCompiler(RuntimeError):
    """The stand-in cannot be built here; the text says why and what to do."""


@dataclass(frozen=True)
class SimulatedProcess:
    """A process on a GPU.

    ``memory_used`` is in bytes; None: NVML does not know it. ``sm_percent`` 0: NVML has no sample.
    """

    pid: int
    memory_used: int | None
    sm_percent: int


@dataclass(frozen=True)
class SimulatedSlice:
    """A MIG slice, with an equal share of its GPU's memory."""

    uuid: str
    pids: Sequence[int] = ()


@dataclass(frozen=True)
class SimulatedGpu:
    """One GPU of the script. ``busy`` or ``util_percent`` says how busy it is; with neither it is idle."""

    uuid: str
    name: str = "loaderwatch simulated GPU"  # the page labels names with this beginning
    busy: Path | None = None  # the path of a BusyFile
    util_percent: int | None = None
    pids: Sequence[int] = ()  # they share memory and utilization equally
    processes: Sequence[SimulatedProcess] = ()
    memory_used: int = 11 * 2**30
    memory_total: int = 80 * 2**30
    power_idle_w: float = 62.0
    power_max_w: float = 350.0
    clock_idle_mhz: int = 345
    clock_max_mhz: int = 1980
    memory_clock_mhz: int = 2619
    migs: Sequence[SimulatedSlice] = ()
    errors: Sequence[tuple[str, str]] = ()  # (function, name of the NVML error)
    slow_ms: Sequence[tuple[str, int]] = ()
    throttle: tuple[int, int] | None = None  # reasons (bits of nvml.h) and the clock in MHz that remains


def build(folder: Path) -> Path:
    """Compile the library into ``folder`` and return its path; ``LD_LIBRARY_PATH`` must name the folder.

    Raises:
        NoCompiler: there is no C compiler, it failed, or the system is not Linux or macOS.
    """
    compiler = next((found for name in ("cc", "gcc", "clang") if (found := shutil.which(name))), None)
    if compiler is None:
        raise NoCompiler("no C compiler (cc, gcc or clang) on PATH: install one to see simulated GPUs")
    folder.mkdir(parents=True, exist_ok=True)
    library = folder / LIBRARY_NAME
    scratch = folder / f"{LIBRARY_NAME}.{os.getpid()}"
    command = [compiler, "-O2", "-fPIC", "-shared", "-pthread", "-o", str(scratch), str(SOURCE)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_COMPILE_WITHIN_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NoCompiler(f"{compiler} cannot build the simulated GPU: {error}") from error
    if done.returncode:
        scratch.unlink(missing_ok=True)
        raise NoCompiler(f"{compiler} cannot build the simulated GPU: {done.stderr.strip()[-500:]}")
    scratch.replace(library)
    return library


def write_script(path: Path, gpus: Iterable[SimulatedGpu], errors: Sequence[tuple[str, str]] = ()) -> None:
    """Write what the library shows; a running library reads the change at its next call.

    ``errors`` for all GPUs are (function, error), e.g. ``("nvmlInit", "NVML_ERROR_DRIVER_NOT_LOADED")``.
    """
    lines = [f"error {function} {name}" for function, name in errors]
    for gpu in gpus:
        lines += [
            "gpu",
            f"uuid {gpu.uuid}",
            f"name {gpu.name}",
            f"memory {gpu.memory_used} {gpu.memory_total}",
            f"power {gpu.power_idle_w} {gpu.power_max_w}",
            f"clock {gpu.clock_idle_mhz} {gpu.clock_max_mhz}",
            f"memory_clock {gpu.memory_clock_mhz}",
        ]
        if gpu.busy is not None:
            lines.append(f"busy {gpu.busy}")
        if gpu.util_percent is not None:
            lines.append(f"util {gpu.util_percent}")
        if gpu.throttle is not None:
            lines.append(f"throttle {gpu.throttle[0]} {gpu.throttle[1]}")
        if gpu.pids:
            lines.append("pids " + " ".join(str(pid) for pid in gpu.pids))
        for process in gpu.processes:
            memory = -1 if process.memory_used is None else process.memory_used
            lines.append(f"process {process.pid} {memory} {process.sm_percent}")
        lines += [" ".join(["mig", part.uuid, *map(str, part.pids)]) for part in gpu.migs]
        lines += [f"error {function} {name}" for function, name in gpu.errors]
        lines += [f"slow {function} {milliseconds}" for function, milliseconds in gpu.slow_ms]
    write_atomically(path, ("\n".join(lines) + "\n").encode())


def environment(library: Path, script: Path) -> dict[str, str]:
    """Return the environment in which a process sees the simulated GPUs instead of real ones."""
    older = os.environ.get("LD_LIBRARY_PATH")
    folders = [str(library.parent), older] if older else [str(library.parent)]
    return {"LD_LIBRARY_PATH": os.pathsep.join(folders), NVML_SCRIPT.name: str(script)}


class BusyFile:
    """A file that shows a simulated GPU when its training process computes, by ``begin``/``end`` or ``with``.

    Opening it makes NVML list this process as running on the GPU.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            os.ftruncate(fd, _BUSY_BYTES)
            self._map = mmap.mmap(fd, _BUSY_BYTES)
        finally:
            os.close(fd)
        # Each is a single aligned store, so that the library never sees half a number.
        self._busy_ns = ctypes.c_int64.from_buffer(self._map, 0)
        self._since_ns = ctypes.c_int64.from_buffer(self._map, 8)
        self._pid = ctypes.c_int64.from_buffer(self._map, 16)
        self._since_ns.value = 0
        self._pid.value = os.getpid()

    def begin(self) -> None:
        """Mark the GPU as busy from now on."""
        self._since_ns.value = time.monotonic_ns()

    def end(self) -> None:
        """Mark the GPU as idle from now on."""
        since = self._since_ns.value
        if since:
            # First, so that a reader in between counts too little for a moment, never too much.
            self._since_ns.value = 0
            self._busy_ns.value += time.monotonic_ns() - since

    def tell(self, busy_s: float) -> None:
        """Set the GPU's total busy seconds, instead of marks."""
        self._since_ns.value = 0
        self._busy_ns.value = int(busy_s * 1e9)

    def __enter__(self) -> BusyFile:
        self.begin()
        return self

    def __exit__(self, *args: object) -> None:
        self.end()
