"""What starting loaderwatch costs the first batches: the longest of 50 steps, watched against bare.

    .venv/bin/python -m benchmarks.first_steps [--turns 25] [--burners 2]

A training with 20 ms of CPU time per step and two computing workers runs beside as many busy processes as
there are cores. The watched training starts its own streamer and server in a directory of its own. Prints
for each turn the longest iteration, from one batch's request to the next. Then come the median ratio of
neighbouring turns, the duration of ``attach``, and one JSON line. The exit code is 1 if the ratio is above
its budget.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any, Final

from benchmarks.crowding import Crowding
from tests.fakes.streaming import Streaming
from tests.waiting import PATIENCE_S

BUDGET_RATIO: Final = 1.2
"""The longest early step of a watched training may be so many times that of a bare one."""

BURN: Final = "while True: pass"

TRAINING: Final = """
import json, sys, time
import torch
from torch.utils.data import DataLoader, Dataset

def compute(seconds):
    began = time.thread_time()
    while time.thread_time() - began < seconds:
        pass

class Samples(Dataset):
    def __len__(self):
        return 64 * 4
    def __getitem__(self, index):
        compute(0.002)
        return torch.zeros(8)

if __name__ == "__main__":
    torch.set_num_threads(1)
    loader = DataLoader(Samples(), batch_size=4, num_workers=2)
    attach_s = 0.0
    if sys.argv[1] == "watched":
        import loaderwatch
        began = time.monotonic()
        loaderwatch.attach(loader)
        attach_s = time.monotonic() - began
    steps, began = [], time.monotonic()
    for number, batch in zip(range(50), loader):
        compute(0.02)
        now = time.monotonic()
        steps.append(now - began)
        began = now
    print(json.dumps({"longest_s": max(steps), "attach_s": attach_s, "median_s": sorted(steps)[25]}))
"""


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--turns", type=int, default=25, help="each way so often; one turn varies by a third")
    parser.add_argument(
        "--burners",
        type=int,
        default=os.cpu_count() or 1,
        help="busy processes beside it (default: a core each)",
    )
    arguments = parser.parse_args()
    crowding = Crowding()
    burners = [subprocess.Popen([sys.executable, "-c", BURN]) for _ in range(arguments.burners)]
    turns = []
    try:
        for turn in range(arguments.turns):
            order = ("bare", "watched") if turn % 2 else ("watched", "bare")
            turns.append({way: _train(way) for way in order})
            print(_row(turns[-1]), flush=True)
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()
    ratio = median(turn["watched"]["longest_s"] / turn["bare"]["longest_s"] for turn in turns)
    attach_s = median(turn["watched"]["attach_s"] for turn in turns)
    print(
        f"longest early step: {ratio:.2f} times the bare one (budget {BUDGET_RATIO});"
        f" attach took {attach_s:.3f} s"
    )
    facts = {"ratio": ratio, "attach_s": attach_s, "crowded_ratio": crowding.ratio(), "turns": turns}
    print(json.dumps({"benchmark": "first_steps", **facts}))
    return int(ratio > BUDGET_RATIO)


def _train(way: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="loaderwatch-first-steps-") as scratch:
        script = Path(scratch) / "train.py"
        script.write_text(TRAINING)
        with Streaming(Path(scratch) / "data", None) as it:
            # as users run it: with bytecode, which spares most of what importing costs
            environ = {key: value for key, value in it.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
            done = subprocess.run(
                [sys.executable, str(script), way],
                env={**environ, "OMP_NUM_THREADS": "1"},
                capture_output=True,
                text=True,
                timeout=PATIENCE_S,
                check=True,
            )
    measured: dict[str, Any] = json.loads(done.stdout)
    return measured


def _row(turn: dict[str, dict[str, Any]]) -> str:
    cells = (
        f"{way} {turn[way]['longest_s']:.3f} (median {turn[way]['median_s']:.3f})"
        for way in ("bare", "watched")
    )
    return f"{'   '.join(cells)} s   attach {turn['watched']['attach_s']:.3f} s"


if __name__ == "__main__":
    sys.exit(main())
