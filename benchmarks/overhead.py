"""What watching costs the training process, against a bare loop and against other tools in the same loop.

    python -m benchmarks.overhead [--rounds 5] [--peers]

Two measurements, both of ``benchmarks/steps.py``:

*Paired*: in one fresh process a bare and a watched training alternate by iteration, so that a busy machine
disturbs both. The cost is the difference of their main-thread CPU time (``time.thread_time_ns``), as the
median over turns. A turn has as many iterations as there are from one closely timed step to the next.
Several processes give the spread: tenths of a microsecond after a tiny step, one after a long step.

Three loaders: "ready" has its batches waiting, as in a healthy pipeline, so only the hooks remain.
Loader "workers" is a real DataLoader with two workers. Loader "in-process" has none: fetches are timed, too.

Three steps: without a step our code and data stay in the processor's caches. Step "tiny" is a small
network (about 0.13 ms). Step "5ms" is the same and then spins, as a loop that waits for its GPU. After both
the caches are cold, and the same instructions cost several times as much. The row "empty" shows which part of
that is not ours. Its ``__next__`` only calls PyTorch's, and compiled functions that do nothing replace our
hooks.

Rows with "+events" use the virtual GPU, whose events are Python, not CUDA. There the bare training uses the
same events as the watched one, so that the difference is ours. The rows "bare+events" and "bare+seams"
show the cost of the events alone, without and with those of the seams in closely timed steps.

*Side by side*: whole runs of a fixed number of steps, in turns, each in a fresh process. Everything that the
tool starts runs as well (streamer and server, or launcher and aggregator). The runs: bare, loaderwatch's
hooks, all phases, and with ``--peers`` TraceML and gpuprof, installed from PyPI into ``.venv-peers``. The
cost is the difference from the bare run of the same turn and environment. Its noise is some microseconds.

Prints tables and one JSON line; exit code 1 when a budget is missed.
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
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from benchmarks.bare import hook_nothing, record_events
from benchmarks.steps import ROWS, ReadyLoader, Training, rows
from loaderwatch.agent.hot.layout import LOOK_EVERY
from loaderwatch.demo.virtual_gpu import VirtualGpu

REPO: Final = Path(__file__).resolve().parent.parent
STEPS: Final = REPO / "benchmarks" / "steps.py"
PEERS_VENV: Final = REPO / ".venv-peers"
PEERS: Final = ("traceml-ai==0.5.0", "gpuprof==0.7.1")
"""Pinned, since a figure is of a version; the newest of November 2026."""

TURN: Final = LOOK_EVERY
"""Iterations that are summed before a median is taken, so that each sum has one closely timed step."""

BUDGETS_US: Final = {"hooks": 3.0, "phases": 10.0, "hooks+events": 3.0, "phases+events": 10.0}
OF_TRACEML: Final = 0.1
"""Each of ours may cost at most this share of what TraceML costs in the same loop."""

IMPORT_BUDGET_MS: Final = 30.0
ATTACH_BUDGET_MS: Final = 50.0
CASES: Final = (  # watched how, loader, step, iterations of an epoch, epochs
    ("hooks", "ready", "none", 2000, 10),
    ("hooks", "ready", "tiny", 400, 40),
    ("phases", "ready", "tiny", 400, 40),
    ("hooks", "ready", "5ms", 400, 4),
    ("phases", "ready", "5ms", 400, 4),
    ("empty", "ready", "5ms", 400, 4),
    ("hooks+events", "ready", "tiny", 400, 40),
    ("phases+events", "ready", "tiny", 400, 40),
    ("bare+events", "ready", "tiny", 400, 40),
    ("bare+seams", "ready", "tiny", 400, 40),
    ("hooks", "in-process", "tiny", 300, 30),
    ("hooks", "workers", "tiny", 300, 20),
)
CLOCKS: Final = ("thread", "process", "wall")
RUN_LIMIT_S: Final = 180


def main() -> int:
    """Run the processes and print what they measured."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5, help="processes per case")
    parser.add_argument("--peers", action="store_true", help="TraceML and gpuprof as well, from PyPI")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        print(json.dumps(measure(*json.loads(arguments.child))))
        return 0
    python = peers_python() if arguments.peers else None
    with private_directory() as env:
        quiet = {**env, "LOADERWATCH_NO_STREAMER": "1"}
        paired = [run_case(case, arguments.rounds, quiet) for case in CASES]
        show_paired(paired)
        starts = run_starts(max(3, arguments.rounds), env)
        print(
            f"import {starts['import_ms']} ms (budget {IMPORT_BUDGET_MS:g}), "
            f"attach {starts['attach_ms']} ms (budget {ATTACH_BUDGET_MS:g})\n"
        )
        beside = side_by_side(arguments.rounds, python, env)
    shares = shares_of_traceml(paired, beside)
    show_side_by_side(beside, shares)
    print(json.dumps({"paired": paired, "starts": starts, "side_by_side": beside, "of_traceml": shares}))
    met = [row["within"] for row in paired if row["within"] is not None] + [starts["within"]]
    met += [share <= OF_TRACEML for share in shares.values()]
    return 0 if all(met) else 1


@contextmanager
def private_directory() -> Iterator[dict[str, str]]:
    """The environment of a run that leaves nothing behind."""
    directory = Path(tempfile.mkdtemp(prefix="loaderwatch-overhead-"))
    env = {name: value for name, value in os.environ.items() if not name.startswith("LOADERWATCH_")}
    env |= {"LOADERWATCH_DIR": str(directory), "OMP_NUM_THREADS": "1", "PYTHONPATH": str(REPO)}
    try:
        yield env
    finally:
        from loaderwatch.core.config import load_settings

        shutil.rmtree(load_settings(env).rings_dir, ignore_errors=True)
        shutil.rmtree(directory, ignore_errors=True)


# ---- paired


def run_case(case: tuple[str, str, str, int, int], rounds: int, env: dict[str, str]) -> dict[str, Any]:
    """One way of watching, in several fresh processes; medians and spread over them."""
    answers = [child(case, env) for _ in range(rounds)]
    added = sorted(answer["added_us"] for answer in answers)
    bare = statistics.median(answer["bare_us"] for answer in answers)
    middle = statistics.median(added)
    watched, loader, step, *_ = case
    budget = BUDGETS_US.get(watched) if loader == "ready" else None
    return {
        "watched": watched,
        "loader": loader,
        "step": step,
        "bare_us": round(bare, 2),
        "added_us": round(middle, 2),
        "added_min_us": round(added[0], 2),
        "added_max_us": round(added[-1], 2),
        "ratio": round(1 + middle / bare, 4),
        "budget_us": budget,
        "within": None if budget is None else middle <= budget,
    }


def child(case: Sequence[Any], env: dict[str, str]) -> dict[str, Any]:
    """What one fresh process measured."""
    command = [sys.executable, "-m", "benchmarks.overhead", "--child", json.dumps(case)]
    answer: dict[str, Any] = json.loads(call(command, env, REPO).strip().splitlines()[-1])
    return answer


def measure(watched: str, kind: str, step: str, iterations: int, epochs: int) -> dict[str, float]:
    """Alternate bare and watched iterations; main-thread CPU of one in µs, medians over ``TURN`` in a row."""
    import torch

    torch.set_num_threads(1)
    bare, hooked = (Training(make_loader(kind, iterations), None) for _ in range(2))
    watch_with(watched, hooked)
    if watched in ("hooks+events", "phases+events"):
        record_events(bare, VirtualGpu(), with_seams=watched == "phases+events")
    for training in (bare, hooked):
        for _ in training.iterations("tiny"):
            pass
    plain, added = [], []
    for _ in range(epochs):
        without, with_it = bare.iterations(step), hooked.iterations(step)
        for number in range(iterations - 1):
            # The one that is always first would find other things in the caches.
            first, second = (with_it, without) if number % 2 else (without, with_it)
            a, b = next(first), next(second)
            plain.append(b if number % 2 else a)
            added.append(a - b if number % 2 else b - a)
        for ended in (without, with_it):
            assert next(ended, None) is None
    turns = [sum(turn) / TURN for turn in zip(*[iter(added)] * TURN, strict=False)]
    return {"bare_us": statistics.median(plain) / 1000, "added_us": statistics.median(turns) / 1000}


def watch_with(watched: str, training: Training) -> None:
    """Attach as the case says."""
    if watched == "empty":
        hook_nothing(training)
        return
    import torch

    gpu = VirtualGpu()
    if watched in ("bare+events", "bare+seams"):
        record_events(training, gpu, with_seams=watched == "bare+seams")
        return
    import loaderwatch

    if watched.endswith("+events"):
        gpu.install(lambda name, new: setattr(torch.cuda, name, new))
    if watched.startswith("phases"):
        loaderwatch.attach(training.loader, model=training.model, optimizer=training.optimizer)
        return
    loaderwatch.attach(training.loader)
    inside = sys.modules["loaderwatch.agent.attach"]
    inside._scout.remove()  # it would find the bare training's model as well, and time that


def make_loader(kind: str, batches: int) -> Any:
    """A real DataLoader."""
    from torch.utils.data import DataLoader

    if kind == "ready":
        return ReadyLoader(rows(batches), batch_size=ROWS)
    if kind == "workers":
        return DataLoader(
            rows(batches),
            batch_size=ROWS,
            num_workers=2,
            persistent_workers=True,
            multiprocessing_context="fork",
        )
    return DataLoader(rows(batches), batch_size=ROWS)


# ---- side by side


def side_by_side(rounds: int, peers: str | None, env: dict[str, str]) -> list[dict[str, Any]]:
    """Whole runs, in turns: for each tool and step the bare run, the added cost, and the spread."""
    from tests.fakes.serving import ServeProcess

    tools = [("bare", sys.executable), ("hooks", sys.executable), ("phases", sys.executable)]
    if peers is not None:
        tools += [("bare", peers), ("traceml", peers), ("gpuprof", peers)]
    turns: list[dict[tuple[str, str], Any]] = []
    with ServeProcess(Path(env["LOADERWATCH_DIR"]) / "server", "--port", "0") as server:
        access = server.start()
        env = {**env, "LOADERWATCH_SERVER": access.url, "LOADERWATCH_TOKEN": access.agent}
        for number in range(rounds):
            order = tools[number % len(tools) :] + tools[: number % len(tools)]  # no tool is always first
            turns.append({(tool, python): run_tool(tool, python, env) for tool, python in order})
    return [
        compare(tool, step, [(turn["bare", python][step], turn[tool, python][step]) for turn in turns])
        for step in turns[0][tools[0]]
        for tool, python in tools
        if tool != "bare"
    ]


def run_tool(tool: str, python: str, env: dict[str, str]) -> dict[str, list[float]]:
    """One run; for each step its microseconds per step by each clock, medians over the blocks."""
    with tempfile.TemporaryDirectory(prefix="loaderwatch-overhead-") as directory:
        out = Path(directory) / "out.json"
        command = [python, str(STEPS), tool, str(out)]
        if tool == "traceml":
            launcher = Path(python).with_name("traceml")
            command = [str(launcher), "run", str(STEPS), "--args", tool, str(out)]
        beside = {**env, "PATH": f"{Path(python).parent}{os.pathsep}{env.get('PATH', '')}"}
        if python != sys.executable:
            beside.pop("PYTHONPATH")
        call(command, beside, Path(directory))
        blocks: dict[str, list[list[int]]] = json.loads(out.read_text())
    return {
        step: [statistics.median(block[clock] for block in measured) / 1000 for clock in range(len(CLOCKS))]
        for step, measured in blocks.items()
    }


def compare(tool: str, step: str, pairs: list[tuple[list[float], list[float]]]) -> dict[str, Any]:
    """Bare and added microseconds by each clock; medians, least and most over the turns."""
    row: dict[str, Any] = {"tool": tool, "step": step}
    for index, clock in enumerate(CLOCKS):
        bare = statistics.median(without[index] for without, _ in pairs)
        added = sorted(with_it[index] - without[index] for without, with_it in pairs)
        middle = statistics.median(added)
        row[clock] = {
            "bare_us": round(bare, 1),
            "added_us": round(middle, 1),
            "added_min_us": round(added[0], 1),
            "added_max_us": round(added[-1], 1),
            "ratio": round(1 + middle / bare, 3),
        }
    return row


def shares_of_traceml(paired: list[dict[str, Any]], beside: list[dict[str, Any]]) -> dict[str, float]:
    """What ours adds to the training thread (paired, exact to 0.1 µs) over what TraceML adds, per step."""
    traceml = {row["step"]: row["thread"]["added_us"] for row in beside if row["tool"] == "traceml"}
    return {
        f"{row['watched']} {row['step']}": round(row["added_us"] / traceml[row["step"]], 4)
        for row in paired
        if row["budget_us"] is not None and row["step"] in traceml and "+" not in row["watched"]
    }


def peers_python() -> str:
    """The interpreter of the peers' own environment, made when it is not there; the same PyTorch as here."""
    import torch

    python = PEERS_VENV / "bin" / "python"
    stamp = PEERS_VENV / "peers.stamp"
    wanted = " ".join((f"torch=={torch.__version__.partition('+')[0]}", *PEERS))
    if not stamp.exists() or stamp.read_text() != wanted:
        print(f"installing {wanted} into {PEERS_VENV.name} (once)", flush=True)
        subprocess.run([sys.executable, "-m", "venv", "--clear", PEERS_VENV], check=True)
        pip = [str(python), "-m", "pip", "--disable-pip-version-check", "--quiet", "install"]
        subprocess.run(
            [*pip, wanted.split()[0]], check=True
        )  # alone, so that a CPU build here stays one there
        subprocess.run([*pip, *PEERS], check=True)
        stamp.write_text(wanted)
    return str(python)


# ---- starts

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
    """Import after torch, and attach including the streamer's launch; medians in milliseconds."""
    # As after "pip install", which compiles: the first start fills the cache and is not counted.
    env = {**env, "PYTHONPYCACHEPREFIX": str(Path(env["LOADERWATCH_DIR"]) / "pycache")}
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    answers = [
        json.loads(call([sys.executable, "-c", START], env, REPO).strip().splitlines()[-1])
        for _ in range(rounds + 1)
    ][1:]
    result: dict[str, Any] = {
        name: round(statistics.median(answer[name] for answer in answers), 2)
        for name in ("import_ms", "attach_ms")
    }
    result["within"] = result["import_ms"] <= IMPORT_BUDGET_MS and result["attach_ms"] <= ATTACH_BUDGET_MS
    return result


def call(command: list[str], env: dict[str, str], directory: Path) -> str:
    """What a command printed."""
    done = subprocess.run(
        command, env=env, cwd=directory, capture_output=True, text=True, timeout=RUN_LIMIT_S, check=False
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(command)[:300]}: exit code {done.returncode}\n{done.stderr[-2000:]}")
    return done.stdout


# ---- printing


def show_paired(results: list[dict[str, Any]]) -> None:
    """The table of the paired measurement."""
    print("paired: main-thread CPU per iteration, µs")
    print(
        f"{'watched':14}{'loader':12}{'step':6}{'bare':>9}{'added':>10}{'min..max':>16}{'ratio':>8}"
        f"{'budget':>8}"
    )
    for row in results:
        spread = f"{row['added_min_us']}..{row['added_max_us']}"
        budget = "" if row["budget_us"] is None else f"{row['budget_us']:g}{'' if row['within'] else ' !'}"
        print(
            f"{row['watched']:14}{row['loader']:12}{row['step']:6}{row['bare_us']:9.1f}"
            f"{row['added_us']:10.2f}"
            f"{spread:>16}{row['ratio']:8.4f}{budget:>8}"
        )
    print()


def show_side_by_side(rows: list[dict[str, Any]], shares: dict[str, float]) -> None:
    """The table of whole runs."""
    print(
        "side by side: µs per step, added to the bare run of the same turn (CPU without what the 5ms step"
        " spins)"
    )
    print(f"{'tool':10}{'step':6}{'clock':16}{'bare':>9}{'added':>9}{'min..max':>18}{'ratio':>8}")
    names = {"thread": "main thread CPU", "process": "process CPU", "wall": "wall"}
    for row in rows:
        for clock in CLOCKS:
            found = row[clock]
            spread = f"{found['added_min_us']}..{found['added_max_us']}"
            print(
                f"{row['tool']:10}{row['step']:6}{names[clock]:16}{found['bare_us']:9.1f}"
                f"{found['added_us']:9.1f}"
                f"{spread:>18}{found['ratio']:8.3f}"
            )
    for what, share in shares.items():
        print(
            f"{what}: {share:.3f} of TraceML's (at most {OF_TRACEML:g}){'' if share <= OF_TRACEML else ' !'}"
        )


if __name__ == "__main__":
    raise SystemExit(main())
