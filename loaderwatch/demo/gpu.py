"""The demo's simulated GPUs: one per rank, busy while the kernels of its rank run."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from loaderwatch.core import environment_variables as variables
from loaderwatch.core.message import Text
from loaderwatch.demo.stand_in import BusyFile, NoCompiler, SimulatedGpu, build, environment, write_script
from loaderwatch.demo.virtual_gpu import VirtualGpu


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
