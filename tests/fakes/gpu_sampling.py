"""The real GPU sampler over the compiled NVML stand-in, in its own process: pynvml loads it only once."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from loaderwatch.core.records import TABLES
from loaderwatch.demo.stand_in import SimulatedGpu, build, environment, write_script
from tests.waiting import PATIENCE_S

COLUMNS = [column.name for column in TABLES["gpus"]]

SAMPLE = """
import collections, json, sys, time
import msgspec, pynvml
calls = collections.Counter()
def counted(name):
    call = getattr(pynvml, name)
    def wrapper(*arguments):
        calls[name] += 1
        return call(*arguments)
    setattr(pynvml, name, wrapper)
for name in ("nvmlDeviceGetUtilizationRates", "nvmlDeviceGetProcessUtilization"):
    counted(name)
from loaderwatch.streamer.samplers.gpu import GpuSampler
sampler = GpuSampler()
sampler.follow({int(rank): tuple(who) for rank, who in json.loads(sys.argv[1]).items()})
sampler.start()
while True:
    time.sleep(0.1)
    infos = msgspec.to_builtins(sampler.infos())
    states = msgspec.to_builtins(sampler.take_states())
    print(json.dumps([sampler.take_rows(0), infos, states, calls]), flush=True)
"""

Row = dict[str, Any]


class Sampling:
    """``with Sampling(folder, gpus, follow) as it``: samples and keeps what came, rows by column name."""

    def __init__(
        self, folder: Path, gpus: list[SimulatedGpu], follow: Mapping[int, tuple[int, str | None]]
    ) -> None:
        library, script = build(folder / "lib"), folder / "script"
        self._script = script
        self.play(gpus)
        self._child = subprocess.Popen(
            [sys.executable, "-c", SAMPLE, json.dumps(follow)],
            env={**os.environ, **environment(library, script)},
            stdout=subprocess.PIPE,
            text=True,
        )
        self.rows: list[Row] = []
        self.infos: list[Row] = []
        self.states: list[Row] = []  # newest
        self.calls: dict[str, int] = {}

    def __enter__(self) -> Sampling:
        return self

    def __exit__(self, *args: object) -> None:
        self._child.kill()
        self._child.communicate()

    def play(self, gpus: list[SimulatedGpu]) -> None:
        """What the driver shows from now on."""
        write_script(self._script, gpus)

    def until(self, condition: Callable[[], object], timeout_s: float = PATIENCE_S) -> None:
        """Sample until it holds, or fail."""
        deadline = time.monotonic() + timeout_s
        pipe = self._child.stdout
        assert pipe is not None
        while not condition():
            left_s = max(0.0, deadline - time.monotonic())
            assert select.select([pipe], [], [], left_s)[0], (
                f"{len(self.rows)} rows came, but not what was awaited: {self.rows[-2:]}"
            )
            rows, self.infos, states, self.calls = json.loads(pipe.readline())
            self.states = states or self.states
            self.rows += [dict(zip(COLUMNS, row, strict=True)) for row in rows]

    def of(self, gpu: int, rank: int | None) -> list[Row]:
        """The rows of one GPU and rank."""
        return [row for row in self.rows if row["gpu"] == gpu and row["rank"] == rank]
