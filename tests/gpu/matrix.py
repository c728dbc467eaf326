"""Trainings on a GPU whose idle time is known, and what must be said of them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from loaderwatch.core.answers import Severity
from loaderwatch.core.environment_variables import DEMO_GPUS
from loaderwatch.demo.stand_in import SimulatedGpu, build, environment, write_script
from loaderwatch.detect.shared_thresholds import Limits
from tests.fakes.serving import Access, wait_until
from tests.waiting import PATIENCE_S

STEP_MS: Final = 90.0
SECONDS: Final = 35.0
"""How long a training lasts after its first batch: NVML's readings of half a minute, and a few."""
LIMITS: Final = Limits()


@dataclass(frozen=True)
class Run:
    """One training and its expected verdict: none, or a scenario whose title matches ``because`` (a pattern).

    ``part`` is where the device idles: "data" in the loader's rows. ``without``: arguments without the cause.
    """

    name: str
    arguments: tuple[str, ...]
    part: str = "data"
    scenario: str = ""
    because: str = ""
    without: tuple[str, ...] = ()
    ranks: int = 1
    silent: bool = False  # a look-alike: no alert may fire
    limits: tuple[tuple[float, Severity], ...] = (
        (LIMITS.input_warning_ratio, "warning"),
        (LIMITS.input_critical_ratio, "critical"),
    )  # from which share of the time on an alert fires, and its severity
    gpu: Mapping[str, Any] = field(default_factory=dict)  # of the simulated GPU
    seconds: float = SECONDS
    step_ms: float = STEP_MS
    nvml: bool = True  # there is a driver to ask


@dataclass(frozen=True)
class Ran:
    """A training's truth by rank, and what was said of it."""

    run: Run
    truths: list[dict[str, Any]]
    summary: dict[str, Any]
    findings: list[dict[str, Any]]
    series: dict[str, list[float]]  # by metric, what is known of it

    @property
    def truth(self) -> dict[str, Any]:
        """The first rank's truth."""
        return self.truths[0]

    @property
    def told(self) -> list[dict[str, Any]]:
        """Findings that alert somebody."""
        return [finding for finding in self.findings if finding["severity"] != "info"]

    @property
    def starved(self) -> float:
        """The share of the time that the critical path lacked data, after the first batch.

        Ranks go in step, so that in each iteration all wait for the one that lacks its batch longest.
        """
        longest_s = sum(map(max, zip(*(truth["data_s"] for truth in self.truths), strict=False)))
        return float(longest_s / max(truth["trained_s"] for truth in self.truths))

    @property
    def starved_error(self) -> float:
        """By how much what is said of the run, or of one of its ranks, is off: the most of them."""
        ranks = [
            (row["data_wait_ratio"], truth["idle"].get("data", 0.0))
            for row, truth in zip(self.summary["ranks"], self.truths, strict=True)
        ]
        pairs = [(self.summary["data_wait_ratio"], self.starved), *ranks]
        return max((abs(said - truth) for said, truth in pairs if said is not None), default=0.0)

    @property
    def idle(self) -> float:
        """The device's idle share in the run's part, on the rank where it is largest."""
        if self.run.part == "data":
            return self.starved
        return max(float(truth["idle"].get(self.run.part, 0.0)) for truth in self.truths)

    def due(self, slack: float = 0.0) -> set[Severity | None]:
        """The severities that the truth allows; within ``slack`` of a limit both of its sides."""
        if self.run.silent:
            return {None}
        allowed: set[Severity | None] = set()
        for share in (self.idle - slack, self.idle + slack):
            allowed.add(
                next((severity for limit, severity in reversed(self.run.limits) if share >= limit), None)
            )
        return allowed

    @property
    def severity(self) -> Severity | None:
        """The gravest of those told; None where nobody is."""
        order = {"critical": 2, "warning": 1}
        return max((one["severity"] for one in self.told), key=order.__getitem__, default=None)

    @property
    def named(self) -> bool:
        """Whether the first alert is the run's scenario, for its reason, and the only one."""
        return bool(self.told) and all(
            one["scenario"] == self.run.scenario and re.search(self.run.because, one["title"]) is not None
            for one in self.told
        )

    @property
    def ceiling(self) -> float | None:
        """How much the finding says could come back."""
        return self.told[0]["gain_ceiling_ratio"] if self.told else None


class Stage:
    """Starts trainings on simulated GPUs, which one server watches."""

    def __init__(self, folder: Path, access: Access, data_dir: Path, real: bool = False) -> None:
        self.folder, self.access, self.data_dir, self.real = folder, access, data_dir, real

    @cached_property
    def library(self) -> Path:
        """The stand-in for NVIDIA's."""
        return build(self.folder / "nvml")

    def start(
        self, run: Run, arguments: Sequence[str] | None = None, name: str = ""
    ) -> list[subprocess.Popen[str]]:
        """Start a training's ranks."""
        name = name or run.name
        environ = {key: value for key, value in os.environ.items() if not key.startswith("LOADERWATCH_")}
        environ |= {"LOADERWATCH_DIR": str(self.data_dir), "LOADERWATCH_RUN": name, "OMP_NUM_THREADS": "1"}
        if run.nvml and not self.real:
            gpus = self.folder / name
            gpus.mkdir()
            script = gpus / "script"
            write_script(
                script,
                [
                    SimulatedGpu(
                        uuid=f"GPU-5eed{abs(hash(name)) % 10_000:04}-{rank}",
                        busy=gpus / f"rank{rank}",
                        **run.gpu,
                    )
                    for rank in range(run.ranks)
                ],
            )
            environ |= environment(self.library, script) | {DEMO_GPUS.name: str(gpus)}
        command = [
            sys.executable,
            "-m",
            "tests.gpu.train",
            *(run.arguments if arguments is None else arguments),
        ]
        command += [
            "--step-ms",
            str(run.step_ms),
            "--seconds",
            str(run.seconds),
            *(["--real"] if self.real else []),
        ]
        port = str(20_000 + abs(hash((name, time.monotonic_ns()))) % 20_000)
        ranks = []
        for rank in range(run.ranks):
            placed = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(run.ranks)}
            ranks.append(
                subprocess.Popen(
                    command,
                    env=environ | placed | {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port},
                    cwd=Path(__file__).parents[2],
                    stdout=subprocess.PIPE,
                    text=True,
                    start_new_session=True,
                )
            )
        return ranks

    def finish(self, run: Run, ranks: Sequence[subprocess.Popen[str]]) -> Ran:
        """Wait for a training's end, and ask what was said of it."""
        truths = self.truths(ranks)

        def over() -> bool:
            return any(
                row["run_id"] == run.name and row["state"] == "finished" for row in self.access.get("/runs")
            )

        wait_until(f"{run.name} is over", over)
        get = self.access.get
        return Ran(
            run,
            truths,
            get(f"/runs/{run.name}/summary"),
            get(f"/runs/{run.name}/findings"),
            {
                metric: [
                    value
                    for value in get(f"/runs/{run.name}/series", metric=metric)["mean"]
                    if value is not None
                ]
                for metric in (
                    "data_wait_ratio",
                    "slack_s",
                    "gpu_forward_s",
                    "gpu_backward_s",
                    "gpu_optimizer_s",
                )
            },
        )

    @staticmethod
    def truths(ranks: Sequence[subprocess.Popen[str]]) -> list[dict[str, Any]]:
        """Wait for a training's end; the truth of each rank."""
        try:
            texts = [rank.communicate(timeout=PATIENCE_S)[0] for rank in ranks]
        finally:
            for rank in ranks:
                rank.kill()
        return [json.loads(text.splitlines()[-1]) for text in texts]
