"""Truth beside verdict, on GPUs whose idle time is known exactly.

    python -m benchmarks.gpu_matrix [NAME ...] [--real] [--jobs 8]

Each row is a training (``tests/gpu/matrix.py``). ``idle`` is the share of the time that the device was idle in the part of the loop that the row
is about, ``starved`` how long it lacked data, ``said`` what the summary says of that. ``ceiling`` is what the finding says could come back, ``gain``
what the training really gained without the cause, in a second run. Trainings run side by side, as nearly all of them sleep.
``--real`` takes CUDA's first device in place of the virtual one, one training at a time.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.fakes.serving import ServeProcess
from tests.fakes.streaming import end_streamers
from tests.gpu.matrix import CAUSES, LOOK_ALIKES, Ran, Run, Stage, loader_runs

STARVED_WITHIN = 0.02
CEILING_WITHIN = 0.05
NAMED_RATIO = 0.9


def main() -> int:
    """Run the rows, and print them; 1 where a bound is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--real", action="store_true")
    parser.add_argument("--jobs", type=int, default=8)
    options = parser.parse_args()
    runs = [*loader_runs(), *CAUSES, *LOOK_ALIKES]
    chosen = [run for run in runs if not options.names or any(name in run.name for name in options.names)]
    with (
        tempfile.TemporaryDirectory() as name,
        ServeProcess(Path(name) / "loaderwatch", "--port", "0") as server,
    ):
        folder = Path(name)
        stage = Stage(folder, server.start(), folder / "loaderwatch", options.real)
        try:
            with ThreadPoolExecutor(1 if options.real else options.jobs) as pool:
                return _judge(list(pool.map(lambda run: _row(stage, run), chosen)))
        finally:
            end_streamers(folder / "loaderwatch")


def _row(stage: Stage, run: Run) -> tuple[Ran, float | None]:
    """Run a row, and again without its cause: the share of the time that this gave."""
    ran = stage.finish(run, stage.start(run))
    gain = None
    if run.without:
        after = stage.truth(stage.start(run, run.without, f"{run.name}-without"))
        gain = 1 - ran.truth["steps_per_s"] / after["steps_per_s"]
    told = ", ".join(f"{one['code']} {one['scenario']} {one['severity']}" for one in ran.told) or "-"
    ceiling = ran.told[0]["gain_ceiling_ratio"] if ran.told else None
    print(
        f"{run.name:28} idle {ran.idle:5.1%}  starved {ran.starved:5.1%} said {ran.summary['data_wait_ratio']:5.1%}"
        f" ({ran.summary['clock']})  ceiling {_percent(ceiling)} gain {_percent(gain)}"
        f"  {'ok ' if _is_right(ran) else 'BAD'} {told}",
        flush=True,
    )
    return ran, gain


def _percent(ratio: float | None) -> str:
    return "    -" if ratio is None else f"{ratio:5.1%}"


def _severity(ran: Ran) -> str | None:
    order = {"critical": 2, "warning": 1}
    return max((one["severity"] for one in ran.told), key=order.__getitem__, default=None)


def _is_right(ran: Ran) -> bool:
    return _severity(ran) in ran.due(STARVED_WITHIN) and (not ran.told or ran.named)


def _judge(rows: list[tuple[Ran, float | None]]) -> int:
    far = [
        ran
        for ran, _ in rows
        if abs(ran.summary["data_wait_ratio"] - ran.truth["idle"].get("data", 0.0)) > STARVED_WITHIN
    ]
    wrong = [ran for ran, _ in rows if _severity(ran) not in ran.due(STARVED_WITHIN)]
    causes = [ran for ran, _ in rows if ran.run.cause]
    unnamed = [ran for ran in causes if not ran.named]
    off = [
        ran
        for ran, gain in rows
        if gain is not None and ran.told and abs(ran.told[0]["gain_ceiling_ratio"] - gain) > CEILING_WITHIN
    ]
    for said, missed in (
        (f"starved share further than {STARVED_WITHIN:.0%} from the truth", far),
        ("severity not by the truth", wrong),
        ("cause not named", unnamed),
        (f"ceiling further than {CEILING_WITHIN:.0%} from what was gained", off),
    ):
        print(f"{len(missed)} of {len(rows)}: {said}: {', '.join(ran.run.name for ran in missed) or 'none'}")
    return int(bool(far or wrong or off) or len(unnamed) > (1 - NAMED_RATIO) * len(causes))


if __name__ == "__main__":
    sys.exit(main())
