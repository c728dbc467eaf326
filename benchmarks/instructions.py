"""What watching costs in instructions and cache lines: figures without a machine's noise.

    .venv/bin/python -m benchmarks.instructions [LOOP...]

Times depend on the machine and its load, but the executed instructions do not. The loops of
``benchmarks/counted.py`` run under callgrind, bare and watched, in one process. That process has DataLoader
workers as children, as a training has. The cost of watching is the difference per iteration:

*Instructions*: executed by all threads of the process, in our lines and in PyTorch and Python for us
(calling a hook). A system call counts up to the entry of the kernel.
*Lines*: cache lines that a simulated processor loads into its first-level caches (32 kB for instructions,
32 kB for data, 1 MB behind them).

A core of 3 GHz executes 1,000 cached instructions in 0.1 to 0.3 microseconds. A line that is not cached costs
5 to 100 nanoseconds. Needs valgrind with its headers, and a C compiler. Counts differ by some percent between
versions of Python and PyTorch. Prints a table and one JSON line. The exit code is 1 if a budget is missed.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from math import inf, isfinite
from pathlib import Path
from typing import Final

from benchmarks.counted import STEPS, named
from benchmarks.overhead import REPO, private_directory

HEADER: Final = Path("/usr/include/valgrind/callgrind.h")
LIMIT_S: Final = 1800
CACHES: Final = ("--I1=32768,8,64", "--D1=32768,8,64", "--LL=1048576,16,64")
REQUESTS: Final = """
#include <valgrind/callgrind.h>
void start(void) { CALLGRIND_START_INSTRUMENTATION; }
void zero(void) { CALLGRIND_ZERO_STATS; }
void dump(const char *name) { CALLGRIND_DUMP_STATS_AT(name); }
"""

NOTHING: Final = (inf, inf)
BUDGETS: Final = {
    "loader": (4_500, 450),
    "loader, step": (26_000, 2_500),  # model and optimizer are found, and their phases timed
    "phases, step": (24_000, 2_300),
    "empty, step": NOTHING,
    "events": (5_500, 600),
    "events, step": (34_000, 3_200),
    "no workers": (24_000, 1_200),
    "workers": (20_000, 1_200),
    "workers, in a worker": (30_000, 1_500),
}
"""Instructions and lines that watching may add to an iteration. ``NOTHING``: this loop is no cost of ours."""


@dataclass(frozen=True, slots=True)
class Count:
    """Of one iteration."""

    instructions: float
    lines: float


def main(loops: list[str]) -> int:
    """Count these loops or all, print, judge."""
    missing = what_is_missing()
    if missing is not None:
        print(f"SKIPPED: {missing}")
        return 0
    counts = run(loops)
    rows = []
    print(f"{'per iteration':24}{'instructions':>36}{'cache lines':>36}")
    print(f"{'':24}" + f"{'bare':>10}{'watched':>10}{'added':>8}{'budget':>8}" * 2)
    for name, (instructions, lines) in BUDGETS.items():
        bare, watched = counts.get(named(name, watched=False)), counts.get(named(name, watched=True))
        if bare is None or watched is None:
            if loops:
                continue  # not asked for
            raise SystemExit(f"callgrind left no profile of {name}")
        more = Count(watched.instructions - bare.instructions, watched.lines - bare.lines)
        within = more.instructions <= instructions and more.lines <= lines
        print(
            f"{name:24}{bare.instructions:10.0f}{watched.instructions:10.0f}{more.instructions:8.0f}"
            f"{_limit(instructions):>8}"
            f"{bare.lines:10.0f}{watched.lines:10.0f}{more.lines:8.0f}{_limit(lines):>8}"
            f"{'' if within else '  OVER'}"
        )
        rows.append(
            {
                "loop": name,
                "bare": [round(bare.instructions), round(bare.lines)],
                "added": [round(more.instructions), round(more.lines)],
                "budget": [instructions, lines] if isfinite(lines) else None,
                "within": within,
            }
        )
    print(json.dumps(rows))
    return 0 if all(row["within"] for row in rows) else 1


def _limit(budget: float) -> str:
    return f"{budget:.0f}" if isfinite(budget) else "-"


def what_is_missing() -> str | None:
    """What this machine has not got, and what to do about it."""
    if shutil.which("valgrind") is None:
        return "valgrind is not installed: on Debian and Ubuntu, apt-get install valgrind"
    if not HEADER.exists():
        return f"{HEADER} is not there: install the headers of valgrind"
    if shutil.which("cc") is None:
        return "no C compiler: on Debian and Ubuntu, apt-get install gcc"
    return None


def run(loops: list[str]) -> dict[str, Count]:
    """The counts of these loops or all, by their names."""
    with tempfile.TemporaryDirectory(prefix="loaderwatch-instructions-") as made, private_directory() as env:
        directory = Path(made)
        source, library = directory / "requests.c", directory / "requests.so"
        source.write_text(REQUESTS)
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", source, "-o", library], check=True)
        env |= {"LOADERWATCH_NO_STREAMER": "1", "PYTHONHASHSEED": "0", "TMPDIR": made}
        # Where the linker puts things is not to matter, nor what is beside us in the environment.
        command = [
            "valgrind",
            "--quiet",
            "--tool=callgrind",
            "--instr-atstart=no",
            "--cache-sim=yes",
            *CACHES,
        ]
        command += [
            f"--callgrind-out-file={directory}/profile.%p",
            sys.executable,
            "-m",
            "benchmarks.counted",
        ]
        subprocess.run(
            [*command, library, *loops],
            cwd=REPO,
            env=env,
            stderr=subprocess.DEVNULL if not os.environ.get("SHOW_VALGRIND") else None,
            check=True,
            timeout=LIMIT_S,
        )
        return dict(counted(directory))


def counted(directory: Path) -> Iterator[tuple[str, Count]]:
    """What the profiles say; those of forked workers among them."""
    for path in directory.glob("profile.*"):
        text = path.read_text(errors="replace")
        name = re.search(r"^desc: Trigger: Client Request: (.*)$", text, re.MULTILINE)
        events = re.search(r"^events: (.*)$", text, re.MULTILINE)
        totals = re.search(r"^summary: (.*)$", text, re.MULTILINE)
        if name is not None and events is not None and totals is not None:
            of = dict(zip(events[1].split(), map(int, totals[1].split()), strict=True))
            yield (
                name[1],
                Count(of["Ir"] / STEPS, (of["I1mr"] + of["D1mr"] + of["D1mw"]) / STEPS),
            )


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
