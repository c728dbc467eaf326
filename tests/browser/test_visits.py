"""What a visit takes across the network, from the real server, counted where it crosses."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest
from playwright.sync_api import Browser, Page, Response, expect

from benchmarks.page import BUDGET_FIRST_BYTES, BUDGET_LATER_BYTES, Wire
from tests.browser.conftest import patient_context
from tests.browser.shots import settle
from tests.fakes.feed import Feed
from tests.fakes.serving import serving
from tests.waiting import PATIENCE_S

pytestmark = [pytest.mark.browser, pytest.mark.slow]

RANKS: Final = range(8)
TALL: Final = {"width": 1280, "height": 4000}
"""Every card is on the screen, and is drawn."""


@contextmanager
def counted(port: int) -> Iterator[tuple[Wire, int]]:
    """What counts the bytes from a server, and the port in front of it."""
    wire = Wire()
    ready, done = threading.Event(), asyncio.Event()
    loop = asyncio.new_event_loop()
    ports: list[int] = []

    async def listen() -> None:
        async with wire.before(port) as through:
            ports.append(through)
            ready.set()
            await done.wait()
        handing_on = asyncio.all_tasks() - {asyncio.current_task()}
        for task in handing_on:
            task.cancel()
        await asyncio.gather(*handing_on, return_exceptions=True)
        await asyncio.sleep(0.1)  # sockets close in the loop

    thread = threading.Thread(target=loop.run_until_complete, args=(listen(),), daemon=True)
    thread.start()
    assert ready.wait(PATIENCE_S)
    try:
        yield wire, ports[0]
    finally:
        loop.call_soon_threadsafe(done.set)
        thread.join(PATIENCE_S)
        loop.close()


def look_at(page: Page, url: str, routes: tuple[str, ...]) -> None:
    """Open each page and wait until all of it is drawn."""
    for route in routes:
        page.goto(f"{url}/{route}")
        expect(page.locator("main .page")).to_be_visible()
        settle(page, 1.0)
        if route != "#/":
            expect(page.locator(".plot .main-svg").first).to_be_visible()


@pytest.mark.parametrize(("locale", "language"), [("en-US", "en"), ("zh-CN", "zh-CN")])
def test_a_visit_is_light_in_both_languages(
    browser: Browser, tmp_path: Path, locale: str, language: str
) -> None:
    """Visit list, run and rank with all charts drawn, gzip only; then the run from the browser's cache."""
    encodings: set[str | None] = set()

    def hear(response: Response) -> None:
        encodings.add(response.headers.get("content-encoding"))

    with (
        serving(tmp_path, open_to_all=True) as access,
        counted(int(access.url.rpartition(":")[2])) as (wire, port),
    ):
        feed = Feed(world_size=len(RANKS))
        for _ in range(20):
            access.send(feed.of_ranks(RANKS, slow={3}))
        url = f"http://127.0.0.1:{port}"
        context = patient_context(browser, viewport=TALL, locale=locale, reduced_motion="reduce")
        try:
            page = context.new_page()
            page.on("response", hear)
            look_at(page, url, ("#/", "#/runs/run-1", "#/runs/run-1/ranks/3"))
            expect(page.locator("html")).to_have_attribute("lang", language)
            first = wire.received
            page.close()
            page = context.new_page()
            look_at(page, url, ("#/runs/run-1",))
            expect(page.locator("html")).to_have_attribute("lang", language)
            later = wire.received - first
        finally:
            context.close()
    assert 100_000 < first <= BUDGET_FIRST_BYTES
    assert 0 < later <= BUDGET_LATER_BYTES
    assert encodings <= {"gzip", None}
