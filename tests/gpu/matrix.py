"""Trainings on a GPU whose idle time is known, and what must be said of them."""

from __future__ import annotations

import itertools
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from loaderwatch.core.answers import Severity
from loaderwatch.demo.gpu import FOLDER_VARIABLE
from loaderwatch.demo.stand_in import SimulatedGpu, build, environment, write_script
from loaderwatch.detect.limits import Limits
from tests.fakes.serving import Access, wait_until
from tests.waiting import PATIENCE_S

STEP_MS: Final = 90.0
SECONDS: Final = 35.0
"""How long a training lasts after its first batch: NVML's readings of half a minute, and a few."""
LIMITS: Final = Limits()
RANK_BUSY: Final = "rank0"


@dataclass(frozen=True)
class Run:
    """One training, and what must be said of it. ``cause`` is a pattern in the cause of the finding, "" for none.

    ``part`` is where the device idles: "data" for the loader's rows. ``without`` are the arguments with the cause removed.
    """

    name: str
    arguments: tuple[str, ...]
    part: str = "data"
    cause: str = ""
    without: tuple[str, ...] = ()
    ranks: int = 1
    silent: bool = False  # a look-alike: nobody may be told
    gpu: Mapping[str, Any] = field(default_factory=dict)  # of the simulated GPU
    seconds: float = SECONDS
    step_ms: float = STEP_MS
    nvml: bool = True  # there is a driver to ask


def loader_runs() -> Iterator[Run]:
    """A batch every 60, 95 or 200 ms, for a step of 90: with and without waiting for the device, pinned or not, one or two ranks."""
    for load_ms, item_every, pageable, ranks in itertools.product(
        (60, 95, 200), (0, 1, 10), (False, True), (1, 2)
    ):
        name = f"{load_ms}-{('async', 'item', 'item10')[(item_every > 0) + (item_every > 1)]}"
        name += f"-{'pageable' if pageable else 'pinned'}-{ranks}"
        arguments = ["--load-ms", str(load_ms), "--item-every", str(item_every)]
        arguments += ["--pageable", "--copy-ms", "1"] if pageable else []
        arguments += ["--collective"] if ranks > 1 else []
        yield Run(name, tuple(arguments), ranks=ranks)


QUICK: Final = ("--load-ms", "20")
CAUSES: Final = (
    Run("logging", (*QUICK, "--own-ms", "60"), "own", "the loop's own work", QUICK),
    Run(
        "logging-each-ten",
        (*QUICK, "--own-ms", "800", "--own-every", "10"),
        "own",
        "the loop's own work",
        QUICK,
    ),
    Run("optimizer", (*QUICK, "--optimizer-ms", "60"), "optimizer", r"optimizer\.step\(\)", QUICK),
    Run("copy", (*QUICK, "--pageable", "--copy-ms", "60"), "copy", "cop(y|ied|ies)", QUICK),
    Run("launch-bound", (*QUICK, "--launch-us", "5000"), "step", "launch", (*QUICK, "--launch-us", "50")),
    Run(
        "checkpoint",
        (*QUICK, "--save-ms", "1500", "--save-every", "12"),
        "checkpoint",
        "torch.save|checkpoint",
        QUICK,
    ),
    Run(
        "validation",
        (*QUICK, "--validate-ms", "2000", "--validate-every", "15"),
        "validation",
        "valid|evaluation",
        # as the advice says: a validation is not taken away
        (*QUICK, "--validate-ms", "2000", "--validate-every", "15", "--validate-workers", "8"),
    ),
)
LOOK_ALIKES: Final = (
    Run(
        "asynchronous", ("--load-ms", "88"), silent=True
    ),  # N20: the loop waits most of the time, the device hardly
    Run("shared", (*QUICK, "--own-ms", "60"), "own", silent=True, gpu={"pids": (1,)}),  # N21
    Run(
        "capped", (*QUICK, "--own-ms", "60"), "own", silent=True, gpu={"throttle": (0x40, 900)}
    ),  # N21, told as that
    Run("short-pauses", (*QUICK, "--own-ms", "40", "--own-every", "10"), "own", silent=True),
    Run(
        "quick-validation",
        (*QUICK, "--validate-ms", "80", "--validate-every", "20"),
        "validation",
        silent=True,
    ),
    Run("synchronous", (*QUICK, "--item-every", "1"), "own", silent=True),
)


@dataclass(frozen=True)
class Ran:
    """A training's truth, and what was said of it."""

    run: Run
    truth: dict[str, Any]
    summary: dict[str, Any]
    findings: list[dict[str, Any]]
    series: dict[str, list[float]]  # by metric, what is known of it

    @property
    def told(self) -> list[dict[str, Any]]:
        """Findings that somebody is told of."""
        return [finding for finding in self.findings if finding["severity"] != "info"]

    @property
    def starved(self) -> float:
        """The share of the time that the device lacked data, after the first batch."""
        return float(self.truth["idle"].get("data", 0.0))

    @property
    def idle(self) -> float:
        """The share of the time that the device was idle in the part that the run is about."""
        return float(self.truth["idle"].get(self.run.part, 0.0))

    def due(self, slack: float = 0.0) -> set[Severity | None]:
        """The severities that the truth allows; within ``slack`` of a limit both of its sides."""
        if self.run.silent:
            return {None}
        limits: tuple[tuple[float, Severity], ...] = (
            (LIMITS.input_warning_ratio, "warning"),
            (LIMITS.input_critical_ratio, "critical"),
        )
        allowed: set[Severity | None] = set()
        for share in (self.idle - slack, self.idle + slack):
            allowed.add(next((severity for limit, severity in reversed(limits) if share >= limit), None))
        return allowed

    @property
    def named(self) -> bool:
        """Whether one of those told has the run's cause."""
        return any(
            re.search(self.run.cause, f"{one['title']} {one['cause']}", re.IGNORECASE) for one in self.told
        )


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
            environ |= environment(self.library, script) | {FOLDER_VARIABLE: str(gpus)}
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
        truth = self.truth(ranks)

        def over() -> bool:
            return any(
                row["run_id"] == run.name and row["state"] == "finished" for row in self.access.get("/runs")
            )

        wait_until(f"{run.name} is over", over)
        get = self.access.get
        return Ran(
            run,
            truth,
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
    def truth(ranks: Sequence[subprocess.Popen[str]]) -> dict[str, Any]:
        """Wait for a training's end; the first rank's truth."""
        try:
            texts = [rank.communicate(timeout=PATIENCE_S)[0] for rank in ranks]
        finally:
            for rank in ranks:
                rank.kill()
        truth: dict[str, Any] = json.loads(texts[0].splitlines()[-1])
        return truth
