"""A thousand ranks on the real server: the straggler is seen, found and opened; little is drawn and sent."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from loaderwatch.core.wire import encode
from tests.browser.conftest import patient_context
from tests.browser.drawing import drawn
from tests.fakes.feed import Feed
from tests.fakes.serving import Access, serving
from tests.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.browser

RANKS = 1024
STRAGGLER = 517
PER_HOST = 8


SENDERS = 16
"""An answer comes with a commit: one sender after another would need half a minute for all hosts."""


def _send(client: httpx.Client, feeds: list[Feed]) -> None:
    """Send an envelope for each host, with five steps of each rank; the straggler mostly waits."""
    for feed in feeds:
        ranks = range(feed.rank, feed.rank + PER_HOST)
        answer = client.post("/api/v1/ingest", content=encode(feed.of_ranks(ranks, slow={STRAGGLER})))
        assert answer.status_code == 200, answer.text


@pytest.fixture
def training(tmp_path: Path) -> Iterator[Access]:
    """A run that goes on for as long as the test does."""
    hosts = RANKS // PER_HOST
    feeds = [
        Feed(host=f"gpu{host:03d}.cluster", rank=host * PER_HOST, world_size=RANKS) for host in range(hosts)
    ]
    stop = threading.Event()

    begun = threading.Barrier(SENDERS + 1)

    def go_on(mine: list[Feed]) -> None:
        with access.client(access.agent) as client:
            for _ in range(3):
                _send(client, mine)
            begun.wait(PATIENCE_S)
            while not stop.wait(1.0):
                _send(client, mine)

    with serving(tmp_path) as access, ThreadPoolExecutor(SENDERS) as senders:
        sent = [senders.submit(go_on, feeds[number::SENDERS]) for number in range(SENDERS)]
        try:
            begun.wait(PATIENCE_S)
            yield access
        finally:
            stop.set()
        for one in sent:
            one.result(PATIENCE_S)


def test_the_straggler_of_a_thousand(training: Access, browser: Browser) -> None:
    context = patient_context(browser, viewport={"width": 1280, "height": 3000})
    page = context.new_page()
    complaints: list[str] = []
    page.on(
        "console",
        lambda message: complaints.append(message.text) if message.type in ("error", "warning") else None,
    )
    page.on("pageerror", lambda error: complaints.append(str(error)))
    try:
        page.goto(f"{training.url}/?token={training.viewer}")
        page.goto(f"{training.url}/#/runs/run-1")
        drawn(page, "heatmap")
        top = page.locator("#plot-heatmap .ytick text").first
        expect(top).to_have_text("gpu064")
        heat = "document.getElementById('plot-heatmap')"
        assert page.evaluate(f"{heat}.data[0].customdata[0]") == STRAGGLER
        assert page.evaluate(f"{heat}.data[0].z.length") == 64
        expect(page.locator("table.ranks tbody tr")).to_have_count(16)
        expect(page.locator("table.ranks tbody tr").first).to_contain_text(f"rank {STRAGGLER}")
        assert page.evaluate("document.querySelectorAll('*').length") < 6000
        _picked_by_group(page)
        _found_by_typing(page)
        _picked_by_metric(page)
        _its_charts(page)
        page.locator("table.ranks tbody tr").first.click()
        expect(page.get_by_role("heading", name=f"Rank {STRAGGLER}", exact=True)).to_be_visible()
        expect(page.locator(".tiles")).to_contain_text("%")
        assert not complaints
    finally:
        context.close()


def _picked_by_group(page: Page) -> None:
    """The straggler is a group of its own, before that of all others."""
    rows = page.locator(".rank-groups tbody tr")
    expect(rows).to_have_count(2)
    expect(rows.first).to_contain_text(f"1 rank{STRAGGLER}1 host")
    expect(rows.first).to_contain_text("wait more for data than most")
    expect(rows.last).to_contain_text("go on, as most do")
    _pick(page)
    expect(page.locator("table.ranks tbody tr")).to_contain_text(f"rank {STRAGGLER}")
    page.get_by_role("button", name="Show the ranks of all groups").click()
    expect(page.locator("table.ranks tbody tr")).to_have_count(16)


def _pick(page: Page) -> None:
    """Pick the straggler's group. On a busy machine its rank may briefly be late and join another group."""
    first, deadline = page.locator(".rank-groups tbody tr").first, time.monotonic() + PATIENCE_S
    while True:
        if "on" not in (first.get_attribute("class") or "").split():
            first.get_by_role("button").click()
        try:
            expect(page.locator("table.ranks tbody tr")).to_have_count(1, timeout=5_000)
        except AssertionError:
            if time.monotonic() > deadline:
                raise
        else:
            return


def _found_by_typing(page: Page) -> None:
    page.get_by_placeholder("Find a rank or host").press_sequentially("rank 9")
    page.wait_for_function("() => document.getElementById('plot-heatmap')?.data?.[0].z.length === 1")
    page.get_by_placeholder("Find a rank or host").fill("")
    page.wait_for_function("() => document.getElementById('plot-heatmap')?.data?.[0].z.length === 64")


def _picked_by_metric(page: Page) -> None:
    page.get_by_label("What is drawn").select_option("iteration_s")
    page.wait_for_function(
        "() => document.getElementById('plot-heatmap')?.data?.[0].hovertemplate.includes('iteration')"
    )
    page.get_by_label("Rows", exact=True).select_option("rank")
    page.wait_for_function(
        "() => /^rank/.test(document.querySelector('#plot-heatmap .ytick text')?.textContent)"
    )


def _its_charts(page: Page) -> None:
    box = page.get_by_label("Charts of")
    box.fill("30")
    box.press("Enter")
    expect(page.get_by_text("mean per step of rank 30")).to_be_visible()


def test_a_later_visit_asks_for_one_file_and_ticks_are_short(training: Access, browser: Browser) -> None:
    context = patient_context(browser, viewport={"width": 1280, "height": 800})
    try:
        page = context.new_page()
        page.goto(f"{training.url}/?token={training.viewer}")
        page.goto(f"{training.url}/#/runs/run-1")
        drawn(page, "steps")
        page.close()
        page = context.new_page()
        page.goto(f"{training.url}/#/runs/run-1")
        drawn(page, "steps")
        network = page.evaluate(
            "performance.getEntriesByType('resource').filter(r => !r.name.includes('/api/') && "
            "r.transferSize > 0).length"
        )
        assert network == 0  # the page itself is none of them
    finally:
        context.close()
    with (
        training.client(training.viewer) as client,
        client.stream("GET", "/api/v1/runs/run-1/events?changes=true") as answer,
    ):
        assert answer.headers["content-encoding"] == "gzip"
        ticks: list[dict[str, object]] = []
        sizes: list[int] = []
        deadline = time.monotonic() + PATIENCE_S
        for line in answer.iter_lines():
            if line.startswith("data: ") and line != "data: {}":  # which says that nothing has changed
                ticks.append(json.loads(line[6:]))
                sizes.append(len(line))
            # On a busy machine other ranks stand out for a moment. Then the whole summary comes again.
            if (len(ticks) >= 3 and "partial" in ticks[-1]) or time.monotonic() > deadline:
                break
    assert "partial" not in ticks[0]
    assert ticks[-1]["partial"] is True
    assert min(sizes[1:]) < sizes[0] / 4  # hosts that are heard late come and go in them
    wait_until(
        "the ranks can be asked for", lambda: training.get("/runs/run-1/ranks", limit=3)["total"] == RANKS
    )
