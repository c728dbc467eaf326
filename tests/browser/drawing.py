"""Waiting for what the page draws."""

from __future__ import annotations

import time
from collections.abc import Callable

from playwright.sync_api import Page

from tests.waiting import PATIENCE_S

DIGITS = "#/runs/digits-cnn-7f3a"
BIG = "#/runs/imagenet-256-0a9d"
"""Runs of tests/fakes/page_data.py."""


def until(page: Page, condition: Callable[[], bool], what: str, limit_s: float = PATIENCE_S) -> None:
    """Wait for something outside the page's document, while the page's events come in."""
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline, f"{what}: not within {limit_s} s"
        page.wait_for_timeout(50)


def drawn(page: Page, chart: str) -> None:
    """Bring a chart onto the screen and wait until it is drawn."""

    def there() -> bool:
        # Not scroll_into_view_if_needed: it fails when the page is redrawn while it waits.
        page.evaluate("(card) => document.querySelector(card)?.scrollIntoView()", f"[data-card={chart}]")
        return page.locator(f"#plot-{chart} .main-svg").count() > 0

    until(page, there, f"the chart {chart} is drawn")
