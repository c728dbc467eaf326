"""``loaderwatch tune`` and ``attach(autotune=True)`` against a full sweep: the share of the best speed.

    python -m benchmarks.tuning [PIPELINE...] [--epochs 6]

Each pipeline is trained bare with every number of workers of the sweep. Then it is trained with the setting
that ``tune`` advises, and with autotune from one worker, of which the last epoch counts. Speeds are batches
per second of training, over the same 300 batches of an epoch. The exit code is 1 if one of the two reaches
less than 95 %, or if ``tune`` takes longer than a minute.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from typing import Any, Final

from benchmarks.pipelines import PIPELINES
from benchmarks.predictions import ROOT, Setting

WORKERS: Final = (1, 2, 3, 4, 6, 8, 12)
CHOSEN: Final = ("latency", "lognormal", "bursts", "big-batches", "decoding", "fetched")
ENOUGH: Final = 0.95
MOST_S: Final = 60.0


def main() -> int:
    """Sweep, tune and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("pipelines", nargs="*", metavar="PIPELINE", default=list(CHOSEN))
    parser.add_argument("--epochs", type=int, default=6)
    given = parser.parse_args()
    print(
        f"{'pipeline':12} {'best':>16} {'tune advises':>20} {'trains':>14} {'took':>6}   autotune, by epoch"
    )
    enough = True
    for name in given.pipelines:
        swept = {workers: _trained(name, Setting(workers)) for workers in WORKERS}
        most = max(swept, key=lambda workers: swept[workers])
        best = swept[most]
        advised, took_s = _tuned(name)
        trains = _trained(name, advised)
        epochs = _epochs(name, "--workers=1", "--autotune", f"--epochs={given.epochs}")
        last = _speed(epochs[-1])
        enough = enough and min(trains, last) >= ENOUGH * best and took_s <= MOST_S
        path = " ".join(f"{one['workers']}:{_speed(one):.1f}" for one in epochs)
        print(
            f"{name:12} {best:8.1f} with {most:2} {f'{advised.workers} workers, {advised.prefetch}':>20}"
            f" {trains:6.1f} ({trains / best:4.0%}) {took_s:4.0f} s   {path} ({last / best:.0%})",
            flush=True,
        )
        print(
            f"{'':12} " + " ".join(f"{workers}:{speed:.1f}" for workers, speed in swept.items()), flush=True
        )
    return 0 if enough else 1


def _tuned(name: str) -> tuple[Setting, float]:
    """Return what ``tune`` advises for a pipeline with one worker, and how many seconds it took."""
    began = time.monotonic()
    step_ms = f"{1e3 * PIPELINES[name].step_s:g}"
    command = ["loaderwatch", "tune", "--json", "--step-ms", step_ms, "-m", "benchmarks.pipelines"]
    said = json.loads(_output([sys.executable, "-m", *command, name, "--workers=1"]))
    return Setting(said["advised_workers"], said["advised_prefetch"] or 2), time.monotonic() - began


def _trained(name: str, setting: Setting) -> float:
    return _speed(_epochs(name, *setting.options, "--epochs=1")[0])


def _speed(epoch: dict[str, Any]) -> float:
    return float(epoch["batches"]) / float(epoch["seconds"])


def _epochs(name: str, *options: str) -> list[dict[str, Any]]:
    lines = _output([sys.executable, "-m", "benchmarks.pipelines", name, *options]).splitlines()
    return [json.loads(line) for line in lines if line.startswith("{")]


def _output(command: list[str]) -> str:
    with tempfile.TemporaryDirectory(prefix="loaderwatch-tuning-") as scratch:
        environ = os.environ | {"LOADERWATCH_DIR": scratch}
        try:
            done = subprocess.run(
                command,
                cwd=ROOT,
                env=environ,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                timeout=600,
                check=True,
            )
        finally:
            _stop(environ)
    return done.stdout


def _stop(environ: dict[str, str]) -> None:
    """End the server, which refuses for as long as the run still reports: that would start another one."""
    command = [sys.executable, "-m", "loaderwatch", "stop"]
    give_up_at = time.monotonic() + 60
    while subprocess.run(command, env=environ, capture_output=True, check=False).returncode:
        if time.monotonic() > give_up_at:
            raise RuntimeError("the server of a pipeline does not end")
        time.sleep(0.5)


if __name__ == "__main__":
    raise SystemExit(main())
