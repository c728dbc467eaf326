"""What reading the processes of 64 ranks costs: our own reader of /proc against psutil, in turns.

    .venv/bin/python -m benchmarks.sampling

320 sleeping processes stand for 64 training processes with four workers each. Both readers are warm: ours
keeps its files open, psutil its Process objects and ``oneshot`` cache. What psutil lacks (kernel function,
time in the run queue, tracer, anonymous memory) is read by our own code in addition, so that both know the
same. The result is the CPU time of the reading thread.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from statistics import median
from typing import Final

import psutil

from loaderwatch.streamer.samplers.process import ProcessSampler
from loaderwatch.streamer.samplers.procfs import ProcessFiles

PROCESSES: Final = 64 * 5
TURNS: Final = 9


def main() -> int:
    """Print both costs and their ratio."""
    children = [subprocess.Popen(["sleep", "300"]) for _ in range(PROCESSES)]
    try:
        files = [ProcessFiles(child.pid) for child in children]
        known = [psutil.Process(child.pid) for child in children]
        sampler = ProcessSampler()

        def ours() -> None:
            for each in files:
                sampler.sample(each, time.monotonic_ns())

        def theirs() -> None:
            for process, each in zip(known, files, strict=True):
                each.status(), each.run_delay_ns(), each.wchan()
                with process.oneshot():
                    process.status(), process.cpu_times(), process.memory_info(), process.num_threads()
                    process.io_counters(), process.num_ctx_switches(), process.cpu_affinity()

        costs = [(_cost_us(ours), _cost_us(theirs)) for _ in range(TURNS)][1:]
    finally:
        for child in children:
            child.kill()
            child.wait()
    mine, other = median(cost[0] for cost in costs), median(cost[1] for cost in costs)
    print(f"per process: ours {mine:.1f} us, psutil {other:.1f} us; {other / mine:.2f} times as much")
    return 0


def _cost_us(read: Callable[[], None]) -> float:
    began = time.thread_time()
    read()
    return (time.thread_time() - began) / PROCESSES * 1e6


if __name__ == "__main__":
    sys.exit(main())
