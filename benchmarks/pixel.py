"""From the end of a step to the pixel: how old is what the page of a live run shows?

    python benchmarks/pixel.py --seconds 60

Ranks that only write rings, a real streamer, a real server, and a real Chromium on the page of one rank.
Every step of that rank is timed: from its end, as its ring says, to the first animation frame in which the
page counts it. All clocks are this machine's. The exit code is 1 if a budget is missed.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from playwright.sync_api import Page, sync_playwright

from benchmarks.chain import RUN, Chain
from benchmarks.client import quantiles
from benchmarks.probe import Probe
from tests.browser.shots import find_chromium

BUDGET_P95_S: Final = 1.5
WARM_UP_S: Final = 5.0
COLLECT_S: Final = 1.0

WATCH: Final = r"""() => {
  window.seen = [];
  let last = -1;
  const look = () => {
    const found = /steps\/s · step ([\d,]+)/.exec(document.body.textContent);
    const step = found === null ? -1 : Number(found[1].replaceAll(",", ""));
    if (step === last) return;
    last = step;
    window.seen.push([performance.timeOrigin + performance.now(), step]);
  };
  let asked = false;
  new MutationObserver(() => {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => { asked = false; look(); });
  }).observe(document.body, { subtree: true, childList: true, characterData: true });
}"""


def measure(page: Page, chain: Chain, probe: Probe, seconds: float) -> list[float]:
    """Ages of steps when the page first showed them."""
    page.goto(f"http://127.0.0.1:{chain.port}/?token={chain.token}")
    page.goto(f"http://127.0.0.1:{chain.port}/#/runs/{RUN}/ranks/{probe.rank}")
    page.get_by_text("steps/s · step").wait_for(timeout=30_000)
    page.evaluate(WATCH)
    page.wait_for_timeout(1000 * WARM_UP_S)
    probe.read()
    wall_minus_monotonic = time.time() - time.monotonic()
    ages: list[float] = []
    begin = time.monotonic()
    while time.monotonic() < begin + seconds:
        page.wait_for_timeout(1000 * COLLECT_S)
        probe.read()
        for at_ms, steps in page.evaluate("() => window.seen.splice(0)"):
            shown = probe.shown(steps, at_ms / 1000 - wall_minus_monotonic)
            if at_ms / 1000 - wall_minus_monotonic > begin:
                ages += shown
    return ages


def main() -> int:
    """Run, print, judge."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--ranks", type=int, default=8)
    options = parser.parse_args()
    chromium = find_chromium()
    if chromium is None:
        raise SystemExit("no Chromium on this machine: apt install chromium")
    with tempfile.TemporaryDirectory(prefix="loaderwatch-pixel-") as folder:
        chain = Chain(Path(folder), options.ranks, gpus=0)
        try:
            chain.start()
            probe = Probe(chain.rings, chain.infos[options.ranks // 2])
            with sync_playwright() as playwright:
                browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
                ages = measure(browser.new_page(), chain, probe, options.seconds)
                browser.close()
            chain.end()
        finally:
            chain.kill()
    found = quantiles(ages)
    good = found is not None and found.p95 <= BUDGET_P95_S
    print(f"step to pixel, {options.ranks} ranks, {len(ages)} steps: {found}")
    print(f"{'within' if good else 'OVER'}: p95 at most {1000 * BUDGET_P95_S:.0f} ms")
    told = found and {name: getattr(found, name) for name in found.__struct_fields__}
    print(
        json.dumps(
            {"benchmark": "pixel", "ranks": options.ranks, "steps": len(ages), "within": good, "s": told}
        )
    )
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
