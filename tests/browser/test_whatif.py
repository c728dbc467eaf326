"""The card of other loader settings, in a real Chromium."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Watched
from tests.fakes.page_server import PageServer

pytestmark = pytest.mark.browser


def test_other_settings_are_a_table_on_demand(server: PageServer, watched: Watched) -> None:
    page = watched.page
    page.goto(f"{server.url.rstrip('/')}/#/runs/digits-cnn-7f3a")
    card = page.locator("[data-card=whatif]")
    expect(card).to_be_visible()
    page.evaluate("document.querySelector('[data-card=whatif]').scrollIntoView()")
    expect(card).to_contain_text("num_workers=7 gives about 22.6 batches/s, today 13.4 batches/s")
    expect(card.locator("table")).to_have_count(0)
    card.get_by_role("button", name="Show", exact=True).click()
    expect(card.locator("tbody tr")).to_have_count(12 + 2)
    expect(card.locator("tr", has_text="persistent_workers=True")).to_contain_text(
        "6.0 % to 8.0 %, 4.1 s of an epoch"
    )
    expect(card.locator("tr", has_text="prefetch_factor=8")).to_contain_text("more than is free in /dev/shm")
    expect(card.locator(".whatif-curve")).to_contain_text("Today: 4 As good as any: 7 CPUs are full: 8.5")
    expect(card.locator("tr", has_text="as good as any")).to_contain_text("num_workers=7")
    expect(card.locator("tr", has_text="today")).to_contain_text("num_workers=4")
