"""Compares the verdict with the truth on GPUs whose idle time is known exactly.

    python -m benchmarks.gpu_matrix [NAME ...] [--real] [--jobs 8] [--keep FILE]

Each row is a training (``tests/gpu/rows.py``). Its columns:

*idle*: the device's share of idle time, in the part of the loop that the row is about.
*starved*: the share of time in which it lacked data (of two ranks along the critical path).
*said*: the share that the summary gives.
*ceiling*: the gain that the finding promises.
*gain*: the real gain of a second run without the cause.

A cause is right if only the scenario of the row was reported, and for the row's reason. Trainings run side by
side, since nearly all of them sleep. ``--keep`` saves finished rows and reads them on the next call.
With ``--real``, CUDA devices replace the virtual device, and trainings run one at a time.

The last line is the summary. The exit code is 1 if a bound is missed.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from threading import Lock
from typing import Final

import msgspec
import torch

from tests.fakes.serving import ServeProcess
from tests.fakes.streaming import end_processes
from tests.gpu.matrix import Run, Stage
from tests.gpu.rows import matrix

STARVED_WITHIN: Final = 0.02
CEILING_WITHIN: Final = 0.05
NAMED_RATIO: Final = 0.9
_KEEPING: Final = Lock()


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """What a training showed. Shares are 0 to 1."""

    name: str
    line: str
    starved_error: float
    severe: bool  # its severity is one that the truth allows
    named: bool | None  # whether its cause is right; None for a row that has none
    ceiling_error: float | None  # None without a second run, or where nothing was told


def main() -> int:
    """Run the rows, and print them; 1 where a bound is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="of rows, or parts of names; all if omitted")
    parser.add_argument("--real", action="store_true")
    parser.add_argument("--jobs", type=int, default=8)
    parser.add_argument("--keep", type=Path)
    options = parser.parse_args()
    runs = matrix(torch.cuda.device_count() if options.real else 0)
    chosen = [run for run in runs if not options.names or any(name in run.name for name in options.names)]
    if options.real:
        left_out = {run.name for run in matrix()} - {run.name for run in runs}
        print(f"needs what is not here, so not run: {', '.join(sorted(left_out)) or 'nothing'}")
    done = _kept(options.keep)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        stack.callback(end_processes, folder / "loaderwatch")
        server = stack.enter_context(ServeProcess(folder / "loaderwatch", "--port", "0"))
        stage = Stage(folder, server.start(), folder / "loaderwatch", options.real)

        def row_of(run: Run) -> Row:
            row = done.get(run.name) or _row(stage, run)
            print(row.line, flush=True)
            if options.keep and run.name not in done:
                with _KEEPING, options.keep.open("ab") as kept:
                    kept.write(msgspec.json.encode(row) + b"\n")
            return row

        with ThreadPoolExecutor(1 if options.real else options.jobs) as pool:
            return judge(list(pool.map(row_of, chosen)))


def _kept(path: Path | None) -> dict[str, Row]:
    if path is None or not path.exists():
        return {}
    rows = msgspec.json.Decoder(Row).decode_lines(path.read_bytes())
    return {row.name: row for row in rows}


def _row(stage: Stage, run: Run) -> Row:
    """Run a row, and again without its cause: the share of the time that this gave."""
    ran = stage.finish(run, stage.start(run))
    gain = None
    if run.without:
        (after, *_) = stage.truths(stage.start(run, run.without, f"{run.name}-without"))
        gain = 1 - ran.truth["steps_per_s"] / after["steps_per_s"]
    told = ", ".join(f"{one['code']} {one['scenario']} {one['severity']}" for one in ran.told) or "-"
    severe = ran.severity in ran.due(STARVED_WITHIN)
    named = ran.named if run.scenario else None
    off = None if gain is None or ran.ceiling is None else abs(ran.ceiling - gain)
    right = (
        severe and named is not False and ran.starved_error <= STARVED_WITHIN and (off or 0) <= CEILING_WITHIN
    )
    line = (
        f"{run.name:28} idle {ran.idle:5.1%}  starved {ran.starved:5.1%} said"
        f" {_percent(ran.summary['data_wait_ratio'])} ({ran.summary['clock']})  ceiling"
        f" {_percent(ran.ceiling)} gain {_percent(gain)}  {'ok ' if right else 'BAD'} {told}"
    )
    if not right:
        line += "".join(f"\n    {one['severity']}: {one['title']}" for one in ran.told)
    return Row(
        name=run.name,
        line=line,
        starved_error=ran.starved_error,
        severe=severe,
        named=named,
        ceiling_error=off,
    )


def _percent(ratio: float | None) -> str:
    return "    -" if ratio is None else f"{ratio:5.1%}"


def judge(rows: Sequence[Row]) -> int:
    """Print what is out of bounds, and the sum of it; 1 where a bound is missed."""
    far = [row for row in rows if row.starved_error > STARVED_WITHIN]
    wrong = [row for row in rows if not row.severe]
    causes = [row for row in rows if row.named is not None]
    unnamed = [row for row in causes if not row.named]
    removed = [row for row in rows if row.ceiling_error is not None]
    off = [row for row in removed if (row.ceiling_error or 0.0) > CEILING_WITHIN]
    for said, missed, of in (
        (f"starved share further than {STARVED_WITHIN:.0%} from the truth", far, rows),
        ("severity not by the truth", wrong, rows),
        ("cause not right", unnamed, causes),
        (f"ceiling further than {CEILING_WITHIN:.0%} from what was gained", off, removed),
    ):
        print(f"{len(missed)} of {len(of)}: {said}: {', '.join(row.name for row in missed) or 'none'}")
    named = 1 - len(unnamed) / len(causes) if causes else 1.0
    farthest = max(rows, key=lambda row: row.starved_error, default=None)
    highest = max(removed, key=lambda row: row.ceiling_error or 0.0, default=None)
    print(
        f"{len(rows)} rows: causes right {named:.0%} ({len(causes) - len(unnamed)} of {len(causes)})"
        + (f", largest starved error {_points(farthest.starved_error)} ({farthest.name})" if farthest else "")
        + (f", largest ceiling error {_points(highest.ceiling_error)} ({highest.name})" if highest else "")
    )
    return int(bool(far or wrong or off) or named < NAMED_RATIO)


def _points(share: float | None) -> str:
    return f"{100 * (share or 0.0):.1f} points"


if __name__ == "__main__":
    sys.exit(main())
