"""Compares what-if predictions with real runs: each predicted setting is run, and the speeds are compared.

    python -m benchmarks.predictions [PIPELINE...] [--seconds 10]

Each pipeline runs once with its current settings under loaderwatch, through agent, streamer and server.
``/what-if`` then predicts other settings, and each of them runs without loaderwatch. Prints a table, and the
median and the largest error.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from benchmarks.pipelines import PIPELINES
from tests.scenarios.play import serve
from tests.waiting import wait_until

ROOT: Final = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Setting:
    """What is run: the options of ``benchmarks.pipelines``."""

    workers: int
    prefetch: int = 2
    in_order: bool = True

    @property
    def options(self) -> list[str]:
        """Return it as options."""
        return [
            f"--workers={self.workers}",
            f"--prefetch={self.prefetch}",
            *([] if self.in_order else ["--out-of-order"]),
        ]


TODAY: Final = {name: Setting(2) for name in PIPELINES} | {
    "decoding": Setting(1),
    "decoding-large": Setting(0),
    "one-slow": Setting(4),
    "several-slow": Setting(4),
}
TRIED: Final[dict[str, list[Setting]]] = {
    "latency": [Setting(1), Setting(4), Setting(6), Setting(8)],
    "lognormal": [Setting(3), Setting(6), Setting(2, 8), Setting(2, in_order=False)],
    "bursts": [Setting(3), Setting(2, 4), Setting(2, 16), Setting(4)],
    "one-slow": [Setting(2), Setting(8), Setting(4, 16), Setting(4, in_order=False)],
    "several-slow": [Setting(6), Setting(4, 8), Setting(4, in_order=False)],
    "big-batches": [Setting(1), Setting(4), Setting(6)],
    "decoding": [Setting(2), Setting(3), Setting(4)],
    "decoding-large": [Setting(1), Setting(2), Setting(4)],
    "fetched": [Setting(1), Setting(4), Setting(6)],
    "stream": [Setting(1), Setting(4), Setting(6)],
}


def main() -> int:
    """Predict, run and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("pipelines", nargs="*", metavar="PIPELINE", default=list(PIPELINES))
    parser.add_argument("--seconds", type=float, default=10.0)
    given = parser.parse_args()
    errors: list[float] = []
    print(
        f"{'pipeline':16} {'workers':>7} {'prefetch':>8} {'order':>5} {'predicted':>22} {'run':>7}"
        f" {'error':>7}"
    )
    with (
        tempfile.TemporaryDirectory(prefix="loaderwatch-predictions-") as scratch,
        serve(Path(scratch)) as access,
    ):
        for name in given.pipelines:
            today = TODAY[name]
            environ = {
                "LOADERWATCH_SERVER": access.url,
                "LOADERWATCH_TOKEN": access.agent,
                "LOADERWATCH_RUN": name,
            }
            watched = _run(name, today, given.seconds, environ)
            (found,) = wait_until(f"what {name} would give", partial(access.get, f"/runs/{name}/what-if"))
            _row(name, today, found["today"], watched, errors)
            for setting in TRIED[name]:
                predicted = _of(found, setting)
                if predicted is None:
                    print(f"{name:16} {setting.workers:7} {setting.prefetch:8} {'':5} {'not predicted':>22}")
                    continue
                _row(name, setting, predicted, run_bare(name, setting, given.seconds), errors)
    print(f"{len(errors)} settings: median error {statistics.median(errors):.1%}, largest {max(errors):.1%}")
    return 0


def _of(found: dict[str, Any], setting: Setting) -> dict[str, Any] | None:
    for option in [*found["workers"], *found["others"]]:
        if (option["num_workers"], option["prefetch_factor"], option["in_order"]) == (
            setting.workers,
            setting.prefetch,
            setting.in_order,
        ):
            return dict(option)
    return None


def _row(
    name: str, setting: Setting, predicted: dict[str, Any], run_per_s: float, errors: list[float]
) -> None:
    error = predicted["steps_per_s"] / run_per_s - 1
    errors.append(abs(error))
    says = f"{predicted['steps_per_s']:.1f} ({predicted['least_per_s']:.1f} to {predicted['most_per_s']:.1f})"
    order = "yes" if setting.in_order else "no"
    print(
        f"{name:16} {setting.workers:7} {setting.prefetch:8} {order:>5} {says:>22} {run_per_s:7.1f}"
        f" {error:+7.1%}",
        flush=True,
    )


def run_bare(name: str, setting: Setting, seconds: float) -> float:
    """Return the batches per second of a pipeline with a setting, without loaderwatch."""
    return _run(name, setting, seconds, {})


def _run(name: str, setting: Setting, seconds: float, environ: dict[str, str]) -> float:
    """Return a pipeline's batches per second with a setting; watched if the environment names a server."""
    command = [sys.executable, "-m", "benchmarks.pipelines", name, *setting.options, f"--seconds={seconds}"]
    done = subprocess.run(
        [*command, *(["--watch"] if environ else [])],
        env=os.environ | environ,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=20 * seconds + 60,
        check=True,
    )
    said = json.loads(next(line for line in reversed(done.stdout.splitlines()) if line.startswith("{")))
    return float(said["batches"]) / float(said["seconds"])


if __name__ == "__main__":
    raise SystemExit(main())
