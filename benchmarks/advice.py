"""What advice gives: each scenario as it is, its finding's advice done, and the gain against the ceiling it stated.

    python -m benchmarks.advice [S02 S21 ...] [--seconds 20]

Real loaders and workers through agent, streamer and server; steps sleep, as a loop does that waits for its GPU. Prints a
table and one JSON line. The share of time per step that came back must not exceed the ceiling by more than chance.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

from tests.scenarios.gain import ADVICE, Gain, measure


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("scenarios", nargs="*", choices=[[], *ADVICE], default=[], metavar="SCENARIO")
    parser.add_argument("--seconds", type=float, default=20.0, help="each script runs so long, twice")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="loaderwatch-advice-") as scratch:
        gains = measure(arguments.scenarios or list(ADVICE), Path(scratch), arguments.seconds)
    print(f"{'':4}  {'advice done':<28} {'ms/step':>9} {'then':>9} {'gain':>6} {'ceiling':>8}  still alerts")
    for scenario in sorted(gains):
        print(_row(gains[scenario]))
    rows = {
        scenario: {
            "before_s": gain.before_s,
            "after_s": gain.after_s,
            "gain_ratio": gain.ratio,
            "gain_ceiling_ratio": gain.ceiling,
            "changes": gain.changes,
        }
        for scenario, gain in sorted(gains.items())
    }
    print(json.dumps({"benchmark": "advice", "seconds": arguments.seconds, "scenarios": rows}))
    return 0


def _row(gain: Gain) -> str:
    changes = "no finding" if gain.finding is None else "the advice names no change"
    if gain.changes is not None:
        changes = ", ".join(f"{name}={value}" for name, value in gain.changes.items())
    before, after = (
        "" if value is None else f"{value * 1000:.1f}" for value in (gain.before_s, gain.after_s)
    )
    ratio, ceiling = ("" if value is None else f"{value:.0%}" for value in (gain.ratio, gain.ceiling))
    return (
        f"{gain.scenario:4}  {changes:<28} {before:>9} {after:>9} {ratio:>6} {ceiling:>8}"
        f"  {', '.join(gain.remaining) or '-'}"
    )


if __name__ == "__main__":
    raise SystemExit(main())
