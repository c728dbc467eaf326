"""What sampling stacks costs: the streamer's thread, the bytes that it sends, and the sampled process itself.

    .venv/bin/python -m benchmarks.profiling [--ranks 8] [--workers 8] [--seconds 60]

The ranks and their workers are real processes with rings. Every rank waits for data all the time and every
worker fetches, so each random moment gives a sample of each rank. Workers sleep in a stack of 30 frames, for
the machine's sake. Prints the CPU share of the sampling thread, the samples per second and rank, and the
bytes per minute and rank. Then one process counts rounds of a loop with and without samples, in turns.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Final

from loaderwatch.core.records import TABLES
from loaderwatch.streamer.profile.sampler import Sampler
from loaderwatch.streamer.rings import RingFolder
from loaderwatch.streamer.roster import Roster

RANK: Final = """
import os, sys, time
from pathlib import Path
from loaderwatch.agent.process.readable_thread import publish_thread
from loaderwatch.core.records import Phase
from loaderwatch.core.ring import WORKER_CAPACITY, RingIdentity, RingWriter
from tests.fakes.ring_writer import open_rings

folder, rank, workers, rounds = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
ring = open_rings(folder, rank=rank, workers=0)[0]
parent = os.getpid()
for worker in range(workers):
    if os.fork() == 0:
        identity = RingIdentity(os.getpid(), parent, 0, worker, time.monotonic_ns())
        path = folder / f"worker-{parent}-0-{worker}-{os.getpid()}.ring"
        each = RingWriter(path, identity, WORKER_CAPACITY)
        publish_thread(each)
        each.set_span(Phase.FETCH, time.monotonic_ns(), loader=0)
        def deep(calls):
            if calls:
                return deep(calls - 1)
            while True:
                time.sleep(0.01)
        deep(30)
publish_thread(ring)
ring.set_span(Phase.WAIT, time.monotonic_ns(), loader=0)
print("ready", flush=True)
if rounds == "sleep":
    time.sleep(3600)
def work(number):
    return number + 1
for line in sys.stdin:
    count, end = 0, time.monotonic() + float(line)
    while time.monotonic() < end:
        count = work(count)
    print(count, flush=True)
"""
TURNS: Final = 12
TURN_S: Final = 2.0


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=60.0)
    arguments = parser.parse_args()
    cost = streamer_cost(arguments.ranks, arguments.workers, arguments.seconds)
    cost["rounds_ratio"] = process_cost()
    print(
        f"{arguments.ranks} ranks with {arguments.workers} workers: the sampling thread takes"
        f" {cost['cpu_ratio']:.2%} of a CPU for {cost['samples_per_s']:.1f} samples per second and rank"
        f" ({cost['unread_ratio']:.1%} without a stack) and {cost['bytes_per_minute']:.0f} bytes per minute"
        " and rank"
        f"\na sampled process makes {cost['rounds_ratio']:.4f} times the rounds (median of {TURNS} pairs)"
    )
    print(json.dumps(cost))
    return 0


def start(folder: Path, rank: int, workers: int, rounds: str) -> subprocess.Popen[str]:
    """Start a rank in a session of its own, so that its workers can be ended with it."""
    arguments = (str(folder), str(rank), str(workers), rounds)
    child = subprocess.Popen(
        [sys.executable, "-c", RANK, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    return child


def end(child: subprocess.Popen[str]) -> None:
    """End a rank with its workers."""
    subprocess.run(["pkill", "-KILL", "-s", str(child.pid)], check=False)
    child.communicate()


def streamer_cost(ranks: int, workers: int, seconds: float) -> dict[str, float]:
    """Return the cost of sampling so many processes."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "rings"
        children = [start(folder, rank, workers, "sleep") for rank in range(ranks)]
        try:
            roster = Roster(RingFolder(folder, {}, Path(name) / "aside"))
            time.sleep(1)  # the workers open their rings
            roster.refresh(time.monotonic_ns())
            sampler = Sampler(seed=1)
            sampler.watch(roster, {})
            began_ns, cpu_ns = time.monotonic_ns(), time.process_time_ns()
            sampler.start()
            sent = samples = unread = 0
            while time.monotonic_ns() - began_ns < seconds * 1e9:
                time.sleep(5)
                rows, texts = sampler.take(time.monotonic_ns(), 0, final=False)
                sent += len(rows) * 8 * len(TABLES["profile"]) + sum(len(text.text) for text in texts)
                samples += sum(int(row[7] or 0) for row in rows)
                unread += sum(int(row[7] or 0) for row in rows if not row[6])
            took_s = (time.monotonic_ns() - began_ns) / 1e9
            cpu_s = (time.process_time_ns() - cpu_ns) / 1e9
            sampler.stop()
        finally:
            for child in children:
                end(child)
    return {
        "cpu_ratio": cpu_s / took_s,
        "samples_per_s": samples / took_s / ranks,
        "unread_ratio": unread / max(1, samples),
        "bytes_per_minute": sent / took_s * 60 / ranks,
    }


def process_cost() -> float:
    """Return how many rounds a process makes while it is sampled, divided by those without samples."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "rings"
        child = start(folder, 0, 0, "count")
        assert child.stdin is not None
        assert child.stdout is not None
        try:
            roster = Roster(RingFolder(folder, {}, Path(name) / "aside"))
            roster.refresh(time.monotonic_ns())
            ratios = []
            for _ in range(TURNS):
                counts = []
                for sampled in (False, True):
                    sampler = Sampler(seed=1)
                    sampler.watch(roster, {})
                    if sampled:
                        sampler.start()
                    print(TURN_S, file=child.stdin, flush=True)
                    counts.append(int(child.stdout.readline()))
                    sampler.stop()
                ratios.append(counts[1] / counts[0])
        finally:
            end(child)
    return median(ratios)


if __name__ == "__main__":
    sys.exit(main())
