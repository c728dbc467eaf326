"""What the page costs the browser that shows it, and how soon it is there: a live run of many ranks, in a real Chromium.

    python -m benchmarks.page --ranks 256

*First paint*: from navigation to the first content on the screen, with an empty cache, while the run is live; beside it
when the page's own words (run: the verdict) and its first chart were there. *Browser time*: CPU seconds of all processes of
the browser per second with one page open. A machine without a GPU paints with its CPU; what that takes is shown apart and
is part of the sum. Prints a table and a JSON line; exit code 1: a budget is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import psutil
from playwright.async_api import Browser, async_playwright

from benchmarks.envelopes import PER_S, RUN, streamers
from benchmarks.ingest import Measured, stream
from benchmarks.serving import TOKEN, serving
from tests.browser.shots import find_chromium

BUDGET_PAINT_S: Final = 1.0
BUDGET_CPU: Final = 0.5
WARM_UP_S: Final = 300.0
"""The page shows the last five minutes: by then it has all of them to draw."""
SETTLE_S: Final = 5.0
LOADS: Final = 5
WIDTH: Final = 1280
TALL: Final = 4000
"""Higher than any page: every card is on the screen, and is drawn."""


@dataclass(frozen=True)
class Shown:
    """A page, and what a reader looks for on it."""

    name: str
    route: str
    words: str
    chart: bool
    height: int


def _pages(ranks: int) -> list[Shown]:
    run, rank = f"#/runs/{RUN}", f"#/runs/{RUN}/ranks/{ranks // 2}"
    return [
        Shown("runs", "#/", ".run-link", False, 800),
        Shown("run", run, ".verdict", True, 800),
        Shown("run, every card on the screen", run, ".verdict", True, TALL),
        Shown("rank", rank, ".tiles", True, 800),
        Shown("rank, every card on the screen", rank, ".tiles", True, TALL),
    ]


@dataclass
class Found:
    """Of one page: seconds until it was there (medians), and cores that the browser kept busy."""

    page: str
    first_paint_s: float
    words_s: float
    chart_s: float | None
    cores: float
    painting_cores: float

    @property
    def within(self) -> bool:
        """Both budgets held."""
        return self.first_paint_s <= BUDGET_PAINT_S and self.cores <= BUDGET_CPU


# When what is looked for was first on the page: before any script of the page itself runs.
NOTE: Final = """(() => {
  window.noted = {};
  const wanted = %s;
  const look = () => {
    for (const [name, selector] of Object.entries(wanted))
      if (window.noted[name] === undefined && document.querySelector(selector) !== null) window.noted[name] = performance.now();
  };
  new MutationObserver(look).observe(document, { subtree: true, childList: true, attributes: true });
})();"""

PAINTED: Final = "() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? null"


async def _load(browser: Browser, root: str, shown: Shown) -> dict[str, float]:
    context = await browser.new_context(viewport={"width": WIDTH, "height": shown.height})
    try:
        page = await context.new_page()
        sign_in = await page.request.get(f"{root}/?token={TOKEN}")  # the cookie, and nothing in the cache
        assert sign_in.ok, sign_in.status
        wanted = {"words": shown.words, **({"chart": ".plot .main-svg"} if shown.chart else {})}
        await page.add_init_script(NOTE % json.dumps(wanted))
        await page.goto(f"{root}/{shown.route}")
        await page.wait_for_function(
            "n => Object.keys(window.noted).length === n", arg=len(wanted), timeout=30_000
        )
        times = {"paint": await page.evaluate(PAINTED), **await page.evaluate("() => window.noted")}
        return {name: value / 1000 for name, value in times.items()}
    finally:
        await context.close()


def _browser_seconds() -> Counter[str]:
    """CPU seconds so far, by kind of process."""
    spent: Counter[str] = Counter()
    for process in psutil.Process().children(recursive=True):
        try:
            if "chrom" not in process.name():
                continue
            kind = next((a for a in process.cmdline() if a.startswith("--type=")), "--type=browser")
            times = process.cpu_times()
        except psutil.Error:
            continue
        spent[kind.removeprefix("--type=")] += times.user + times.system
    return spent


async def _busy(browser: Browser, root: str, shown: Shown, seconds: float) -> Counter[str]:
    """Cores in use while the page is open, by kind of process."""
    context = await browser.new_context(viewport={"width": WIDTH, "height": shown.height})
    try:
        page = await context.new_page()
        await page.goto(f"{root}/?token={TOKEN}")
        await page.goto(f"{root}/{shown.route}")
        await page.wait_for_selector(".plot .main-svg" if shown.chart else shown.words, timeout=30_000)
        await asyncio.sleep(SETTLE_S)
        before, began = _browser_seconds(), time.monotonic()
        await asyncio.sleep(seconds)
        spent, wall = _browser_seconds(), time.monotonic() - began
        return Counter({kind: (spent[kind] - before[kind]) / wall for kind in spent})
    finally:
        await context.close()


async def _look(port: int, ranks: int, seconds: float, chromium: str) -> list[Found]:
    root = f"http://127.0.0.1:{port}"
    found = []
    await asyncio.sleep(WARM_UP_S)
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for shown in _pages(ranks):
            loads = [await _load(browser, root, shown) for _ in range(LOADS)]
            median = {name: statistics.median(load[name] for load in loads) for name in loads[0]}
            busy = await _busy(browser, root, shown, seconds)
            found.append(
                Found(
                    page=shown.name,
                    first_paint_s=median["paint"],
                    words_s=median["words"],
                    chart_s=median.get("chart"),
                    cores=sum(busy.values()),
                    painting_cores=busy["gpu-process"],
                )
            )
        await browser.close()
    return found


async def _measure(port: int, ranks: int, workers: int, seconds: float, chromium: str) -> list[Found]:
    measured = Measured()
    begin = time.monotonic() + 0.5
    sending = [
        asyncio.create_task(stream(one, port, begin, 24 * 3600, measured))
        for one in streamers(ranks, workers)
    ]
    try:
        found = await _look(port, ranks, seconds, chromium)
        for task in sending:
            if task.done():
                task.result()
        return found
    finally:
        for task in sending:
            task.cancel()
        await asyncio.gather(*sending, return_exceptions=True)


def main() -> int:
    """Run, print, judge."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ranks", type=int, default=256)
    parser.add_argument("--workers", type=int, default=2, help="DataLoader workers of each rank")
    parser.add_argument("--seconds", type=float, default=20.0, help="for which each page is open")
    options = parser.parse_args()
    chromium = find_chromium()
    if chromium is None:
        raise SystemExit("no Chromium on this machine: apt install chromium")
    with (
        tempfile.TemporaryDirectory(prefix="loaderwatch-page-") as directory,
        serving(Path(directory)) as server,
    ):
        found = asyncio.run(_measure(server.port, options.ranks, options.workers, options.seconds, chromium))
    print(
        f"{options.ranks} ranks x {PER_S} steps/s, live; medians of {LOADS} loads, {options.seconds:.0f} s open"
    )
    print(f"{'page':32} {'first paint':>12} {'words':>8} {'chart':>8} {'browser':>10} {'painting':>9}")
    for one in found:
        chart = "-" if one.chart_s is None else f"{one.chart_s:.2f} s"
        print(
            f"{one.page:32} {one.first_paint_s:>10.2f} s {one.words_s:>6.2f} s {chart:>8} {one.cores:>8.0%}   "
            f"{one.painting_cores:>7.0%} {'' if one.within else '  OVER'}".rstrip()
        )
    good = all(one.within for one in found)
    print(
        f"{'within' if good else 'NOT within'} budgets: first paint {BUDGET_PAINT_S:.0f} s, browser {BUDGET_CPU:.0%} of a core"
    )
    figures = [asdict(one) for one in found]
    print(json.dumps({"benchmark": "page", "ranks": options.ranks, "within": good, "figures": figures}))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
