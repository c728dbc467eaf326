"""What watching costs the training thread: CPU time per iteration, import and attach time.

    python benchmarks/overhead.py [--rounds 5]

In a fresh process, blocks of bare and watched iterations of the same loop alternate, so that a busy machine disturbs
both alike; the difference of their main-thread CPU time (``time.thread_time_ns``) is the cost. Several processes give
the spread. Prints a table and one JSON line.

Three loaders: "ready" has its batches waiting (a healthy pipeline, and nothing but the hooks is left to measure),
"workers" is a real DataLoader with two worker processes, "in-process" one with none, whose fetches are timed too.

Three steps: "none" is an empty loop body, so that our code and data stay in the processor's caches; after "tiny", a small
MLP's step, they have left them, and the same instructions cost several times as much; "5ms" spins as long.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

REPO: Final = Path(__file__).resolve().parent.parent
BUDGETS_US: Final = {"hooks": 3.0, "phases": 10.0}
IMPORT_BUDGET_MS: Final = 30.0
ATTACH_BUDGET_MS: Final = 50.0
CASES: Final = (  # watched how, loader, step, iterations of a block, blocks
    ("hooks", "ready", "none", 2000, 40),
    ("hooks", "ready", "tiny", 400, 40),
    ("phases", "ready", "tiny", 400, 40),
    ("hooks", "ready", "5ms", 20, 10),
    ("phases", "ready", "5ms", 20, 10),
    ("hooks", "in-process", "tiny", 300, 30),
    ("hooks", "workers", "tiny", 300, 20),
)


def main() -> int:
    """Run the processes and print what they measured."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5, help="processes per case")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        print(json.dumps(measure(*json.loads(arguments.child))))
        return 0
    directory = Path(tempfile.mkdtemp(prefix="loaderwatch-overhead-"))
    env = {
        **os.environ,
        "LOADERWATCH_DIR": str(directory),
        "LOADERWATCH_NO_STREAMER": "1",
        "OMP_NUM_THREADS": "1",
    }
    env.pop("LOADERWATCH_DISABLE", None)
    try:
        results = [run_case(case, arguments.rounds, env) for case in CASES]
        starts = run_starts(max(3, arguments.rounds), env)
    finally:
        remove_rings(env)
        shutil.rmtree(directory, ignore_errors=True)
    show(results, starts)
    print(json.dumps({"iterations": results, "starts": starts}))
    return 0


def run_case(case: tuple[str, str, str, int, int], rounds: int, env: dict[str, str]) -> dict[str, Any]:
    """One way of watching, in several fresh processes."""
    answers = [child(case, env) for _ in range(rounds)]
    return summary(case, answers)


def child(case: Any, env: dict[str, str]) -> dict[str, Any]:
    """What one fresh process measured."""
    command = [sys.executable, __file__, "--child", json.dumps(case)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode:
        raise SystemExit(f"{case}: exit code {done.returncode}\n{done.stderr[-2000:]}")
    answer: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return answer


def summary(case: tuple[str, str, str, int, int], answers: list[dict[str, Any]]) -> dict[str, Any]:
    """Median and spread over processes."""
    added = sorted(answer["added_us"] for answer in answers)
    bare = statistics.median(answer["bare_us"] for answer in answers)
    middle = statistics.median(added)
    budget = BUDGETS_US.get(case[0]) if case[1] == "ready" else None
    return {
        "watched": case[0],
        "loader": case[1],
        "step": case[2],
        "bare_us": round(bare, 2),
        "added_us": round(middle, 2),
        "added_min_us": round(added[0], 2),
        "added_max_us": round(added[-1], 2),
        "ratio": round(1 + middle / bare, 4),
        "budget_us": budget,
        "within": None if budget is None else middle <= budget,
    }


def measure(watched: str, kind: str, step: str, iterations: int, blocks: int) -> dict[str, float]:
    """Alternate bare and watched blocks; microseconds of main-thread CPU per iteration, medians over the blocks."""
    import torch

    torch.set_num_threads(1)
    data = torch.randn(iterations * 8, 16)

    def lane(watch: bool) -> Callable[[], int]:
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
        loader = make_loader(kind, data, iterations)
        if watch:
            watch_with(watched, loader, model, optimizer)
        pad_ns = 4_900_000 if step == "5ms" else 0

        def block() -> int:
            batches = iter(loader)
            next(batches)
            began = time.thread_time_ns()
            if step == "none":
                for _ in batches:
                    pass
                return time.thread_time_ns() - began
            for batch in batches:
                optimizer.zero_grad(set_to_none=True)
                loss = model(batch).square().mean()
                loss.backward()
                optimizer.step()
                if pad_ns:
                    end = time.thread_time_ns() + pad_ns
                    while time.thread_time_ns() < end:
                        pass
            return time.thread_time_ns() - began

        return block

    bare, with_hooks = lane(False), lane(True)
    for block in (bare, with_hooks):
        block()
    pairs = []
    for number in range(blocks):
        first, second = (bare, with_hooks) if number % 2 else (with_hooks, bare)
        a, b = first(), second()
        pairs.append((a, b) if number % 2 else (b, a))
    per = 1000 * (iterations - 1)
    return {
        "bare_us": statistics.median(pair[0] for pair in pairs) / per,
        "added_us": statistics.median(pair[1] - pair[0] for pair in pairs) / per,
    }


def watch_with(watched: str, loader: Any, model: Any, optimizer: Any) -> None:
    """Attach as the case says."""
    import loaderwatch

    if watched == "phases":
        loaderwatch.attach(loader, model=model, optimizer=optimizer)
    else:
        loaderwatch.attach(loader)


def make_loader(kind: str, data: Any, batches: int) -> Any:
    """A real DataLoader; for "ready", with PyTorch's own multiprocess iterator fed from a list."""
    from torch.utils.data import DataLoader, TensorDataset
    from torch.utils.data.dataloader import _BaseDataLoaderIter

    class Rows(TensorDataset):
        def __getitem__(self, index: int) -> Any:
            return self.tensors[0][index]

    rows = Rows(data)
    if kind == "in-process":
        return DataLoader(rows, batch_size=8)
    if kind == "workers":
        return DataLoader(
            rows, batch_size=8, num_workers=2, persistent_workers=True, multiprocessing_context="fork"
        )
    ready = list(data.reshape(batches, 8, 16))

    class ReadyIterator(_BaseDataLoaderIter):
        """What a multiprocess iterator shows while its workers are ahead, without their noise."""

        def __init__(self, loader: Any) -> None:
            import multiprocessing

            super().__init__(loader)
            self._worker_result_queue: Any = multiprocessing.Queue()
            self._worker_result_queue.put(None)
            self._task_info = {0: (0,), 1: (1,)}
            self._tasks_outstanding = 2
            self._rcvd_idx, self._send_idx, self._in_order = 0, 2, True
            self._batches = iter(ready)

        def _next_data(self) -> Any:
            return next(self._batches)

    class ReadyLoader(DataLoader[Any]):
        def _get_iterator(self) -> Any:
            return ReadyIterator(self)

    return ReadyLoader(rows, batch_size=8)


START: Final = """
import json, sys, time
import torch
from torch.utils.data import DataLoader
began = time.perf_counter()
import loaderwatch
imported = time.perf_counter()
loader = DataLoader([1, 2, 3])
sys.executable = "/bin/true"  # the launch is measured, but no streamer is left behind
ready = time.perf_counter()
loaderwatch.attach(loader)
print(json.dumps({"import_ms": (imported - began) * 1e3, "attach_ms": (time.perf_counter() - ready) * 1e3}))
"""


def run_starts(rounds: int, env: dict[str, str]) -> dict[str, Any]:
    """Import on top of torch, and attach until it returns, with the streamer's launch; medians in milliseconds."""
    answers = []
    env = dict(env)
    env.pop("LOADERWATCH_NO_STREAMER", None)
    for _ in range(rounds):
        done = subprocess.run(
            [sys.executable, "-c", START], env=env, capture_output=True, text=True, timeout=120, check=True
        )
        answers.append(json.loads(done.stdout.strip().splitlines()[-1]))
    result: dict[str, Any] = {
        name: round(statistics.median(answer[name] for answer in answers), 2)
        for name in ("import_ms", "attach_ms")
    }
    result["within"] = result["import_ms"] <= IMPORT_BUDGET_MS and result["attach_ms"] <= ATTACH_BUDGET_MS
    return result


def remove_rings(env: dict[str, str]) -> None:
    """Take away the shared memory of these runs."""
    from loaderwatch.core.config import load_settings

    shutil.rmtree(load_settings(env).rings_dir, ignore_errors=True)


def show(results: list[dict[str, Any]], starts: dict[str, Any]) -> None:
    """The table."""
    print(
        f"{'watched':10}{'loader':12}{'step':6}{'bare µs':>9}{'added µs':>10}{'min..max':>16}{'ratio':>8}{'budget':>8}"
    )
    for row in results:
        spread = f"{row['added_min_us']}..{row['added_max_us']}"
        budget = "" if row["budget_us"] is None else f"{row['budget_us']:g}{'' if row['within'] else ' !'}"
        print(
            f"{row['watched']:10}{row['loader']:12}{row['step']:6}{row['bare_us']:9.1f}{row['added_us']:10.2f}"
            f"{spread:>16}{row['ratio']:8.4f}{budget:>8}"
        )
    print(
        f"import {starts['import_ms']} ms (budget {IMPORT_BUDGET_MS:g}), attach {starts['attach_ms']} ms (budget {ATTACH_BUDGET_MS:g})"
    )


if __name__ == "__main__":
    raise SystemExit(main())
