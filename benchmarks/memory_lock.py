"""What reading ``smaps_rollup`` costs its process, whose threads cannot map memory during the walk.

    .venv/bin/python -m benchmarks.memory_lock [--gigabytes 16] [--reads 20]

A process maps one file of 1 GB many times and touches each page, which fills its page tables but no memory.
One of its threads maps 4 MB, touches them and unmaps them, as an allocator does. Prints how long a reading
takes, the longest of these rounds with and without readings, in turns, and one JSON line. The file
``status``, which the streamer reads each second, is measured for comparison.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Final

MAPPED: Final = """
import mmap, os, sys, time
pieces = int(sys.argv[1])
fd = os.memfd_create("pages")
os.truncate(fd, 2**30)
maps = [mmap.mmap(fd, 2**30, flags=mmap.MAP_SHARED | mmap.MAP_POPULATE) for _ in range(pieces)]
print("mapped", flush=True)
for line in sys.stdin:
    longest, rounds, end = 0.0, 0, time.monotonic() + float(line)
    while time.monotonic() < end:
        began = time.monotonic()
        piece = mmap.mmap(-1, 2**22, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        for at in range(0, 2**22, 4096):
            piece[at] = 1
        piece.close()
        longest, rounds = max(longest, time.monotonic() - began), rounds + 1
        time.sleep(0.0005)
    print(longest, rounds, flush=True)
"""

WAYS: Final = ("nothing", "status", "smaps_rollup")
TURN_S: Final = 3.0


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--gigabytes", type=int, default=16, help="how much the process has mapped")
    parser.add_argument("--reads", type=int, default=20, help="readings in each turn of 3 s")
    parser.add_argument("--turns", type=int, default=5)
    arguments = parser.parse_args()
    child = subprocess.Popen(
        [sys.executable, "-c", MAPPED, str(arguments.gigabytes)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdin is not None
    assert child.stdout is not None
    longest_ms: dict[str, list[float]] = {way: [] for way in WAYS}
    rounds: dict[str, list[int]] = {way: [] for way in WAYS}
    read_ms: dict[str, list[float]] = {way: [] for way in WAYS}
    try:
        child.stdout.readline()
        for _ in range(arguments.turns):
            for way in WAYS:
                child.stdin.write(f"{TURN_S}\n")
                child.stdin.flush()
                began = time.monotonic()
                for number in range(arguments.reads if way != "nothing" else 0):
                    time.sleep(max(0.0, began + (number + 0.5) * TURN_S / arguments.reads - time.monotonic()))
                    before = time.thread_time()
                    (Path("/proc") / str(child.pid) / way).read_text()
                    read_ms[way].append((time.thread_time() - before) * 1e3)
                longest, count = child.stdout.readline().split()
                longest_ms[way].append(float(longest) * 1e3)
                rounds[way].append(int(count))
    finally:
        child.kill()
        child.communicate()
    for way in WAYS:
        cost = f"{median(read_ms[way]):8.2f} ms of CPU a reading" if read_ms[way] else " " * 29
        print(
            f"{way:14}{cost}   longest round {median(longest_ms[way]):7.1f} ms   {median(rounds[way]):6.0f}"
            " rounds"
        )
    print(
        json.dumps(
            {"benchmark": "memory_lock", "read_ms": read_ms, "longest_ms": longest_ms, "rounds": rounds}
        )
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
