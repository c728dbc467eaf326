"""Memory of a watched training process: after ten million batches it has what it had after ten thousand.

    python -m benchmarks.memory [--batches 10000000]

Two fresh processes, one bare and one watched with streamer and server, iterate a DataLoader over a dataset
that answers at once, with a million batches per epoch. Each reads its unique memory at both marks
(``Private_*`` of /proc/self/smaps_rollup: pages of no other process). Prints a table and one JSON line.
The exit code is 1 if the watched process grew by more than 1 MB. Takes about five minutes.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from loaderwatch.core.config import load_settings

EARLY: Final = 10_000
EPOCH: Final = 1_000_000
MAX_GROWTH_BYTES: Final = 1_000_000


def main() -> int:
    """Run both processes and judge."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--batches", type=int, default=10_000_000, help=f"more than {EARLY:,}")
    parser.add_argument("--child", choices=["bare", "watched"], help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.batches <= EARLY:
        parser.error(f"--batches is {arguments.batches}; use more than {EARLY}")
    if arguments.child:
        print(json.dumps(measure(arguments.child == "watched", arguments.batches)))
        return 0
    rows = run_both(arguments.batches)
    growth = {way: row["late_bytes"] - row["early_bytes"] for way, row in rows.items()}
    print(f"{'':10}{'after 10,000':>16}{f'after {arguments.batches:,}':>20}{'grew by':>12}{'µs a batch':>12}")
    for way, row in rows.items():
        print(
            f"{way:10}{row['early_bytes'] / 1e6:13.2f} MB{row['late_bytes'] / 1e6:17.2f} MB"
            f"{growth[way] / 1e6:9.3f} MB{row['batch_us']:12.2f}"
        )
    within = growth["watched"] <= MAX_GROWTH_BYTES
    print(json.dumps({"batches": arguments.batches, **rows, "within": within}))
    return 0 if within else 1


def run_both(batches: int) -> dict[str, dict[str, Any]]:
    """What the two processes measured."""
    from tests.fakes.serving import ServeProcess

    directory = Path(tempfile.mkdtemp(prefix="loaderwatch-memory-"))
    env = {**os.environ, "LOADERWATCH_DIR": str(directory), "OMP_NUM_THREADS": "1"}
    env.pop("LOADERWATCH_DISABLE", None)
    env.pop("LOADERWATCH_NO_STREAMER", None)
    try:
        with ServeProcess(directory / "server", "--port", "0") as server:
            access = server.start()
            env |= {"LOADERWATCH_SERVER": access.url, "LOADERWATCH_TOKEN": access.agent}
            rows = {way: child(way, batches, env) for way in ("bare", "watched")}
            wait_for_streamer(env)
        return rows
    finally:
        shutil.rmtree(load_settings(env).rings_dir, ignore_errors=True)
        shutil.rmtree(directory, ignore_errors=True)


def child(way: str, batches: int, env: dict[str, str]) -> dict[str, Any]:
    """What one fresh process measured."""
    command = [sys.executable, "-m", "benchmarks.memory", "--child", way, "--batches", str(batches)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=7200, check=False)
    if done.returncode:
        raise SystemExit(f"{way}: exit code {done.returncode}\n{done.stderr[-2000:]}")
    answer: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return answer


def wait_for_streamer(env: dict[str, str]) -> None:
    """It ends with its run, when everything has arrived, and takes the folder of the rings away."""
    rings = load_settings(env).rings_dir
    deadline = time.monotonic() + 60
    while rings.is_dir() and any(rings.iterdir()) and time.monotonic() < deadline:
        time.sleep(0.2)


class Answers:
    """A dataset that answers at once."""

    def __init__(self, length: int) -> None:
        self.length = length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> int:
        return index


def measure(watched: bool, batches: int) -> dict[str, float]:
    """Iterate, and read this process's memory at both marks."""
    from torch.utils.data import DataLoader

    loader: DataLoader[Any] = DataLoader(
        Answers(min(EPOCH, batches)),  # type: ignore[arg-type]
        batch_size=None,
    )
    if watched:
        import loaderwatch

        loaderwatch.attach(loader)
    seen = early = 0
    began = time.perf_counter()
    while seen < batches:
        for _ in loader:
            seen += 1
            if seen == EARLY:
                gc.collect()
                early = unique_bytes()
            if seen == batches:
                break
    took = time.perf_counter() - began
    gc.collect()
    return {"early_bytes": early, "late_bytes": unique_bytes(), "batch_us": took / batches * 1e6}


def unique_bytes() -> int:
    """Memory of this process that no other has."""
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Private_"))


if __name__ == "__main__":
    raise SystemExit(main())
