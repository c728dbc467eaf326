"""A Chromium for the browser tests, and watchers that fail a test when the page complains."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Dialog,
    Error,
    Page,
    Playwright,
    expect,
    sync_playwright,
)

from tests.browser.shots import SIZES, find_chromium
from tests.fakes.page_server import PageServer
from tests.waiting import PATIENCE_S

expect.set_options(timeout=PATIENCE_S * 1000)


@pytest.fixture(scope="module")
def playwright_instance() -> Iterator[Playwright]:
    """Playwright, or a skip that says what is missing.

    Closed with the module: its event loop runs in this thread, where ``asyncio.run()`` then refuses.
    """
    if find_chromium() is None:
        pytest.skip("no Chromium on this machine: apt install chromium")
    with sync_playwright() as playwright:
        yield playwright


def patient_context(browser: Browser, **options: Any) -> BrowserContext:
    """A context of its own, as patient as every other wait of the tests; close it."""
    context = browser.new_context(**options)
    context.set_default_timeout(PATIENCE_S * 1000)
    return context


@pytest.fixture(scope="module")
def browser(playwright_instance: Playwright) -> Iterator[Browser]:
    """One Chromium for a module's tests, with one process for the pages of one host: see ``pages``."""
    browser = playwright_instance.chromium.launch(
        executable_path=find_chromium(),
        args=["--no-sandbox", "--process-per-site"],
        timeout=PATIENCE_S * 1000,
    )
    try:
        yield browser
    finally:
        browser.close()


@dataclass
class Watched:
    """A page and everything it complained about."""

    page: Page
    complaints: list[str] = field(default_factory=list)
    allow_network_errors: bool = False

    def hear(self, message: ConsoleMessage) -> None:
        """Keep errors and warnings; a request that the test itself made fail is none."""
        if message.type not in ("error", "warning"):
            return
        if self.allow_network_errors and "Failed to load resource" in message.text:
            return
        self.complaints.append(f"{message.type}: {message.text}")

    def script_error(self, error: Error) -> None:
        """An exception that nothing caught."""
        self.complaints.append(f"script: {error}")

    def opened(self, dialog: Dialog) -> None:
        """The page never opens one; injected markup would."""
        self.complaints.append(f"dialog: {dialog.message}")
        dialog.dismiss()


@pytest.fixture(scope="module")
def served() -> Iterator[PageServer]:
    """The server of formulas, at one address for a module's tests."""
    server = PageServer()
    thread = server.start()
    try:
        yield server
    finally:
        server.down = True  # ends open streams
        server.shutdown()
        server.server_close()
        thread.join(timeout=PATIENCE_S)


@pytest.fixture
def server(served: PageServer) -> PageServer:
    """The server of formulas, as new."""
    served.reset()
    return served


@dataclass
class Pages:
    """Where tests open their pages: at desktop size, without anything of the page before."""

    context: BrowserContext
    kept: Page

    def fresh(self) -> Page:
        """A page; close it."""
        self.context.clear_cookies()
        self.kept.evaluate("localStorage.clear()")
        return self.context.new_page()


@pytest.fixture(scope="module")
def pages(browser: Browser, served: PageServer) -> Iterator[Pages]:
    """One page stays open, so that the browser process stays: compiling Plotly costs more CPU than a test."""
    width, height = SIZES["wide"]
    context = patient_context(browser, viewport={"width": width, "height": height}, reduced_motion="reduce")
    context.add_init_script(
        "addEventListener('securitypolicyviolation', e => console.error('CSP ' + e.violatedDirective + ' '"
        " + e.blockedURI))"
    )
    kept = context.new_page()
    kept.goto(served.url + "css/tokens.css")  # nothing that runs
    try:
        yield Pages(context, kept)
    finally:
        context.close()


@pytest.fixture
def watched(pages: Pages) -> Iterator[Watched]:
    """A new page at desktop size. Console errors, CSP violations and script errors fail the test."""
    page = pages.fresh()
    watcher = Watched(page)
    page.on("console", watcher.hear)
    page.on("pageerror", watcher.script_error)
    page.on("dialog", watcher.opened)
    try:
        yield watcher
    finally:
        page.close()
    assert watcher.complaints == []
