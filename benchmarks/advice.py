"""Compares what advice gains with the promised ceiling: plays a scenario before and after its advice.

    python -m benchmarks.advice [S02 S21 ...] [--seconds 14] [--turns 2]

Real loaders and workers through agent, streamer and server. Steps sleep, as a loop that waits for its GPU.
Runs with and without the advice alternate, so that other load affects both; the gain is the median of the
turns. Prints a table and one JSON line. The exit code is 1 if a gain exceeds the ceiling by more than chance,
or is less than half of it.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import tempfile
from pathlib import Path

from tests.scenarios.gain import ADVICE, Gain, measure


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("scenarios", nargs="*", choices=[[], *ADVICE], default=[], metavar="SCENARIO")
    parser.add_argument("--seconds", type=float, default=14.0, help="each script runs so long, each turn")
    parser.add_argument(
        "--turns", type=int, default=2, help="each script runs so often, either way (S03 twice that)"
    )
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="loaderwatch-advice-") as scratch:
        gains = measure(
            arguments.scenarios or list(ADVICE), Path(scratch), arguments.seconds, arguments.turns
        )
    print(
        f"{'scenario':8}  {'ceiling':>7} {'gained':>7}  {'of each turn':<18} {'ms per step':<24} {'then':<24}"
        " advice applied"
    )
    for scenario in sorted(gains):
        print(_row(gains[scenario]))
    rows = {
        scenario: {
            "gain_ceiling_ratio": gain.ceiling,
            "gain_ratio": gain.ratio,
            "turns": [dataclasses.asdict(turn) for turn in gain.turns],
            "changes": gain.changes,
            "wrong": gain.wrong,
        }
        for scenario, gain in sorted(gains.items())
    }
    print(json.dumps({"benchmark": "advice", "seconds": arguments.seconds, "scenarios": rows}))
    return int(any(gain.wrong for gain in gains.values()))


def _row(gain: Gain) -> str:
    changes = ", ".join(f"{name}={value}" for name, value in (gain.changes or {}).items()) or "none"
    ratio, ceiling = ("" if value is None else f"{value:.0%}" for value in (gain.ratio, gain.ceiling))
    each = " ".join(f"{turn.ratio:.0%}" for turn in gain.turns)
    before, after = (
        " ".join(f"{value * 1000:.1f}" for value in values)
        for values in ([turn.before_s for turn in gain.turns], [turn.after_s for turn in gain.turns])
    )
    return (
        f"{gain.scenario:8}  {ceiling:>7} {ratio:>7}  {each:<18} {before:<24} {after:<24} {changes}"
        f"{f'  ! {gain.wrong}' if gain.wrong else ''}"
    )


if __name__ == "__main__":
    raise SystemExit(main())
