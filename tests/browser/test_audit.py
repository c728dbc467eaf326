"""The card of advice on the configuration, in a real Chromium."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Watched
from tests.fakes.page_server import PageServer

pytestmark = pytest.mark.browser


def test_advice_is_folded_until_it_is_wanted(server: PageServer, watched: Watched) -> None:
    page = watched.page
    page.goto(f"{server.url.rstrip('/')}/#/runs/digits-cnn-7f3a")
    card = page.locator("[data-card=audit]")
    expect(card).to_be_visible()
    page.evaluate("document.querySelector('[data-card=audit]').scrollIntoView()")
    expect(card).to_contain_text("1 thing to change, 1 remark")
    expect(card.locator(".advice-row")).to_have_count(0)
    card.get_by_role("button", name="Show", exact=True).click()
    expect(card.locator(".advice-row")).to_have_count(2)
    expect(card).to_contain_text("num_workers=3 for train_loader")
    card.get_by_role("button", name="Hide", exact=True).click()
    expect(card.locator(".advice-row")).to_have_count(0)
