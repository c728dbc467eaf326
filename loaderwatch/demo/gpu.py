"""The demo's simulated GPUs: one for each rank, as busy as the rank is."""

from __future__ import annotations

import os
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from loaderwatch.demo.stand_in import (
    BusyFile,
    NoCompiler,
    SimulatedGpu,
    build,
    environment,
    write_script,
)

FOLDER_VARIABLE = "LOADERWATCH_DEMO_GPUS"
"""The environment variable that names the folder with the ranks' busy files."""


@dataclass(frozen=True, slots=True)
class Simulation:
    """The environment variables that the training needs for simulated GPUs, and what to tell the person."""

    environ: Mapping[str, str]
    notice: str


def prepare(folder: Path, ranks: int) -> Simulation:
    """Build the stand-in for NVIDIA's library and its script in ``folder``.

    Without a compiler the GPU charts stay off.

    Raises:
        OSError: the folder cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("rank*"):
        old.unlink()
    environ = {FOLDER_VARIABLE: str(folder)}
    try:
        library = build(folder)
    except NoCompiler as error:
        return Simulation(environ, f"GPU charts are off: {error}")
    script = folder / "script"
    write_script(
        script,
        [
            SimulatedGpu(uuid=f"GPU-5eed0000-0000-0000-0000-{rank:012}", busy=_busy_path(folder, rank))
            for rank in range(ranks)
        ],
    )
    return Simulation(
        {**environ, **environment(library, script)},
        f"{ranks} simulated GPUs, one a rank, are busy when their rank computes",
    )


def busy_file(local_rank: int) -> BusyFile | None:
    """Return the file in which this rank says that it computes, used by ``with``; None outside the demo."""
    folder = os.environ.get(FOLDER_VARIABLE)
    return BusyFile(_busy_path(Path(folder), local_rank)) if folder else None


def registered_pids(folder: Path) -> list[int]:
    """Return the pids of the ranks that have opened their busy files."""
    pids = []
    for path in folder.glob("rank*"):
        content = path.read_bytes()
        if len(content) >= 24 and (pid := struct.unpack_from("=q", content, 16)[0]):
            pids.append(pid)
    return pids


def _busy_path(folder: Path, rank: int) -> Path:
    return folder / f"rank{rank}"
