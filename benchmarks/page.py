"""What the page costs its browser, and how soon it shows: a live run of many ranks in a real Chromium.

    python -m benchmarks.page --ranks 8 64 256 1024
    python -m benchmarks.page --ranks 8 64 --warm-up 30 --pages run > before.txt    # … change something …
    python -m benchmarks.page --ranks 8 64 --warm-up 30 --pages run --against before.txt

*First paint*: from navigation to the first content on the screen, with an empty cache, while the run is live.
Beside it: when the page's own words (run: the verdict) and its first chart were there.

*Browser time*: CPU seconds of all browser processes per second with one page open. A machine without a GPU
paints with its CPU; that part is also shown apart. *Heap* and *nodes*: what the page holds after that time.

*First* and *later visit*: bytes over the network, with headers, until the first chart is drawn (the words,
if a page has no chart). The first visit has an empty cache, the later visit the cache of the first.
*A minute*: what an open page receives. Prints a table and a JSON line for each number of ranks. The exit code
is 1 if a budget is missed.
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
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import psutil
from playwright.async_api import Browser, Page, Request, async_playwright

from benchmarks.envelopes import PER_S, RUN, streamers
from benchmarks.ingest import Measured, stream
from benchmarks.serving import TOKEN, serving
from tests.browser.shots import find_chromium

BUDGET_PAINT_S: Final = 1.0
BUDGET_CPU: Final = {8: 0.05, 256: 0.15}
"""Of a core, for at most so many ranks; half a core for more."""
BUDGET_CPU_ELSE: Final = 0.5
BUDGET_FIRST_BYTES: Final = 600_000
BUDGET_LATER_BYTES: Final = 30_000
WARM_UP_S: Final = 300.0
"""The page shows the last five minutes: by then it has all of them to draw."""
SETTLE_S: Final = 5.0
LIVE_S: Final = 15.0
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
    """One page: seconds until it was there (medians), the browser's busy cores, what it held and received."""

    page: str
    first_paint_s: float
    words_s: float
    chart_s: float | None
    cores: float
    painting_cores: float
    heap_bytes: int
    nodes: int
    first_requests: int
    first_bytes: int
    later_requests: int
    later_bytes: int
    bytes_per_minute: int

    def missed(self, ranks: int) -> list[str]:
        """The budgets that did not hold."""
        cores = next((most for upto, most in BUDGET_CPU.items() if ranks <= upto), BUDGET_CPU_ELSE)
        held = {
            "first paint": self.first_paint_s <= BUDGET_PAINT_S,
            "browser": self.cores <= cores,
            "first visit": self.first_bytes <= BUDGET_FIRST_BYTES,
            "later visit": self.later_bytes <= BUDGET_LATER_BYTES,
        }
        return [name for name, good in held.items() if not good]


class Wire:
    """Hands on what browser and server say to each other, and counts the bytes from the server."""

    def __init__(self) -> None:
        self.received = 0

    @asynccontextmanager
    async def before(self, port: int) -> AsyncIterator[int]:
        """Listen in front of a server; the port to use in place of its own."""

        async def hand_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, counts: bool) -> None:
            try:
                while data := await reader.read(1 << 16):
                    self.received += len(data) if counts else 0
                    writer.write(data)
                    await writer.drain()
            except ConnectionError:
                pass
            finally:
                writer.close()

        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            from_server, to_server = await asyncio.open_connection("127.0.0.1", port)
            await asyncio.gather(hand_on(reader, to_server, False), hand_on(from_server, writer, True))

        listener = await asyncio.start_server(connected, "127.0.0.1", 0)
        try:
            yield listener.sockets[0].getsockname()[1]
        finally:
            listener.close()


# When what is looked for was first on the page: before any script of the page itself runs.
NOTE: Final = """(() => {
  window.noted = {};
  const wanted = %s;
  const look = () => {
    for (const [name, selector] of Object.entries(wanted))
      if (window.noted[name] === undefined && document.querySelector(selector) !== null)
        window.noted[name] = performance.now();
  };
  new MutationObserver(look).observe(document, { subtree: true, childList: true, attributes: true });
})();"""

PAINTED: Final = "() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? null"


def _looks_for(shown: Shown) -> dict[str, str]:
    return {"words": shown.words, **({"chart": ".plot .main-svg"} if shown.chart else {})}


async def _open(page: Page, root: str, shown: Shown, *, known: bool = False) -> None:
    """Open a page and wait for everything in ``shown``; sign in if the browser is not ``known``."""
    wanted = _looks_for(shown)
    await page.add_init_script(NOTE % json.dumps(wanted))
    await page.goto(f"{root}/{'' if known else f'?token={TOKEN}'}{shown.route}")
    await page.wait_for_function(
        "n => Object.keys(window.noted).length === n", arg=len(wanted), timeout=60_000
    )


async def _load(browser: Browser, root: str, shown: Shown) -> dict[str, float]:
    context = await browser.new_context(viewport={"width": WIDTH, "height": shown.height})
    try:
        page = await context.new_page()
        await _open(page, root, shown)
        times = {"paint": await page.evaluate(PAINTED), **await page.evaluate("() => window.noted")}
        return {name: value / 1000 for name, value in times.items()}
    finally:
        await context.close()


def _note(asked: list[str], request: Request) -> None:
    asked.append(request.url)


async def _visits(browser: Browser, port: int, shown: Shown) -> list[tuple[int, int]]:
    """Requests and bytes of a first and a later visit, and of a minute of it."""
    wire = Wire()
    found = []
    async with wire.before(port) as through:
        root = f"http://127.0.0.1:{through}"
        context = await browser.new_context(viewport={"width": WIDTH, "height": shown.height})
        try:
            for known in (False, True):
                asked: list[str] = []
                page = await context.new_page()
                page.on("request", partial(_note, asked))
                before = wire.received
                await _open(page, root, shown, known=known)
                # What the browser has kept is asked for as well, and needs no answer.
                kept = await page.evaluate(
                    "() => performance.getEntriesByType('resource').filter(r => r.transferSize === 0 &&"
                    " r.decodedBodySize > 0).length"
                )
                found.append((len(asked) - kept, wire.received - before))
                if len(found) == 2:
                    await asyncio.sleep(SETTLE_S)
                    before, asked_before = wire.received, len(asked)
                    await asyncio.sleep(LIVE_S)
                    per_minute = 60 / LIVE_S
                    found.append(
                        (
                            round((len(asked) - asked_before) * per_minute),
                            round((wire.received - before) * per_minute),
                        )
                    )
                await page.close()
        finally:
            await context.close()
    return found


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


async def _busy(
    browser: Browser, root: str, shown: Shown, seconds: float
) -> tuple[Counter[str], dict[str, float]]:
    """Cores in use while the page is open, by kind of process, and what the page holds then."""
    context = await browser.new_context(viewport={"width": WIDTH, "height": shown.height})
    try:
        page = await context.new_page()
        await page.goto(f"{root}/?token={TOKEN}")
        await page.goto(f"{root}/{shown.route}")
        await page.wait_for_selector(".plot .main-svg" if shown.chart else shown.words, timeout=60_000)
        await asyncio.sleep(SETTLE_S)
        before, began = _browser_seconds(), time.monotonic()
        await asyncio.sleep(seconds)
        spent, wall = _browser_seconds(), time.monotonic() - began
        session = await context.new_cdp_session(page)
        await session.send("HeapProfiler.collectGarbage")
        await session.send("Performance.enable")
        metrics = (await session.send("Performance.getMetrics"))["metrics"]
        held = {metric["name"]: metric["value"] for metric in metrics}
        return Counter({kind: (spent[kind] - before[kind]) / wall for kind in spent}), held
    finally:
        await context.close()


async def _look(port: int, ranks: int, chromium: str, options: argparse.Namespace) -> list[Found]:
    root = f"http://127.0.0.1:{port}"
    found = []
    await asyncio.sleep(options.warm_up)
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for shown in _pages(ranks):
            if options.pages and shown.name not in options.pages:
                continue
            loads = [await _load(browser, root, shown) for _ in range(options.loads)]
            median = {name: statistics.median(load[name] for load in loads) for name in loads[0]}
            busy, held = await _busy(browser, root, shown, options.seconds)
            first, later, minute = await _visits(browser, port, shown)
            found.append(
                Found(
                    page=shown.name,
                    first_paint_s=median["paint"],
                    words_s=median["words"],
                    chart_s=median.get("chart"),
                    cores=sum(busy.values()),
                    painting_cores=busy["gpu-process"],
                    heap_bytes=int(held["JSHeapUsedSize"]),
                    nodes=int(held["Nodes"]),
                    first_requests=first[0],
                    first_bytes=first[1],
                    later_requests=later[0],
                    later_bytes=later[1],
                    bytes_per_minute=minute[1],
                )
            )
        await browser.close()
    return found


async def _measure(port: int, ranks: int, chromium: str, options: argparse.Namespace) -> list[Found]:
    measured = Measured()
    begin = time.monotonic() + 0.5
    sending = [
        asyncio.create_task(stream(one, port, begin, 24 * 3600, measured))
        for one in streamers(ranks, options.workers)
    ]
    try:
        found = await _look(port, ranks, chromium, options)
        for task in sending:
            if task.done():
                task.result()
        return found
    finally:
        for task in sending:
            task.cancel()
        await asyncio.gather(*sending, return_exceptions=True)


COLUMNS: Final[tuple[tuple[str, str, Callable[[Any], str]], ...]] = (
    ("first paint", "first_paint_s", lambda v: f"{v:.2f} s"),
    ("words", "words_s", lambda v: f"{v:.2f} s"),
    ("chart", "chart_s", lambda v: "-" if v is None else f"{v:.2f} s"),
    ("browser", "cores", lambda v: f"{v:.0%}"),
    ("painting", "painting_cores", lambda v: f"{v:.0%}"),
    ("heap", "heap_bytes", lambda v: f"{v / 1e6:.0f} MB"),
    ("nodes", "nodes", lambda v: f"{v:,}"),
    ("first visit", "first_bytes", lambda v: f"{v / 1e3:,.0f} KB"),
    ("requests", "first_requests", str),
    ("later visit", "later_bytes", lambda v: f"{v / 1e3:,.0f} KB"),
    ("requests", "later_requests", str),
    ("a minute", "bytes_per_minute", lambda v: f"{v / 1e3:,.0f} KB"),
)


def _table(ranks: int, found: Sequence[Found], before: dict[tuple[int, str], dict[str, Any]]) -> str:
    """A line for each page, and above it what was measured before, where there is something."""
    lines = [f"{'page':36}" + "".join(f"{title:>12}" for title, _, _ in COLUMNS)]
    for one in found:
        earlier = before.get((ranks, one.page))
        if earlier is not None:
            cells = (show(earlier[name]) if name in earlier else "" for _, name, show in COLUMNS)
            lines.append(f"{'  before':36}" + "".join(f"{cell:>12}" for cell in cells))
        cells = (show(getattr(one, name)) for _, name, show in COLUMNS)
        missed = one.missed(ranks)
        over = f"   OVER: {', '.join(missed)}" if missed else ""
        lines.append(f"{one.page:36}" + "".join(f"{cell:>12}" for cell in cells) + over)
    return "\n".join(lines)


def _measured_before(path: Path | None) -> dict[tuple[int, str], dict[str, Any]]:
    """What an earlier call printed, by ranks and page."""
    lines = path.read_text().splitlines() if path is not None else []
    told = [json.loads(line) for line in lines if line.startswith('{"benchmark": "page"')]
    return {(each["ranks"], figures["page"]): figures for each in told for figures in each["figures"]}


def main() -> int:
    """Run, print, judge."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ranks", type=int, nargs="+", default=[256])
    parser.add_argument("--workers", type=int, default=2, help="DataLoader workers of each rank")
    parser.add_argument("--seconds", type=float, default=20.0, help="for which each page is open")
    parser.add_argument(
        "--warm-up", type=float, default=WARM_UP_S, help="for which the run goes on before, s"
    )
    parser.add_argument("--loads", type=int, default=LOADS, help="of each page, for the medians")
    parser.add_argument("--pages", nargs="+", help="only these, as the table names them")
    parser.add_argument("--against", type=Path, help="what this benchmark printed before, to stand beside")
    options = parser.parse_args()
    chromium = find_chromium()
    if chromium is None:
        raise SystemExit("no Chromium on this machine: apt install chromium")
    before = _measured_before(options.against)
    good = True
    for ranks in options.ranks:
        with (
            tempfile.TemporaryDirectory(prefix="loaderwatch-page-") as directory,
            serving(Path(directory)) as server,
        ):
            found = asyncio.run(_measure(server.port, ranks, chromium, options))
        print(
            f"{ranks} ranks x {PER_S} steps/s, live; medians of {options.loads} loads,"
            f" {options.seconds:.0f} s open"
        )
        print(_table(ranks, found, before))
        within = not any(one.missed(ranks) for one in found)
        good = good and within
        figures = [asdict(one) for one in found]
        print(
            json.dumps({"benchmark": "page", "ranks": ranks, "within": within, "figures": figures}),
            flush=True,
        )
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
