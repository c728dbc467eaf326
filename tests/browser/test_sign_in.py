"""Coming in: the sign-in page, the cookie, the server's own policy for its page."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.fakes.feed import Feed
from tests.fakes.serving import Access, ScriptedDetector, serving, wait_until

pytestmark = pytest.mark.browser


@pytest.fixture
def access(tmp_path: Path) -> Iterator[Access]:
    with serving(tmp_path, detector=ScriptedDetector()) as access:
        access.send(Feed().envelope(steps=20))
        wait_until("the run", lambda: access.get("/runs")[0]["severity"])
        yield access


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    try:
        yield context
    finally:
        context.close()


def complaints(page: Page) -> list[str]:
    """What the page will have said against the policy, or failed at."""
    found: list[str] = []
    page.on("console", lambda message: found.append(message.text) if "Policy" in message.text else None)
    page.on("pageerror", lambda error: found.append(str(error)))
    return found


def test_without_a_token_a_person_is_asked_for_it(access: Access, context: BrowserContext) -> None:
    page = context.new_page()
    found = complaints(page)
    page.goto(access.url)
    expect(page.get_by_role("heading")).to_have_text("This page needs a token")
    page.get_by_label("Token").fill("wrong")
    page.get_by_role("button").click()
    expect(page.get_by_role("alert")).to_contain_text("does not know that token")
    page.get_by_label("Token").fill(access.owner)
    page.get_by_role("button").click()
    expect(page.get_by_text("train.py").first).to_be_visible()
    assert page.url == f"{access.url}/"
    assert found == []


def test_the_address_with_the_token_leads_to_the_run_and_hides_the_token(
    access: Access, context: BrowserContext
) -> None:
    page = context.new_page()
    found = complaints(page)
    page.goto(f"{access.url}/?token={access.owner}#/runs/run-1")
    assert page.url == f"{access.url}/#/runs/run-1"
    expect(page.locator(".main-svg").first).to_be_visible(timeout=15_000)
    (cookie,) = context.cookies()
    assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Lax")
    assert page.evaluate("document.cookie") == ""
    status = page.evaluate("fetch('/api/v1/runs/run-1/stacks', {method: 'POST'}).then(a => a.status)")
    assert status == 200, "our own page may post"
    assert found == []


def test_another_sites_page_may_not_post_with_the_persons_cookie(
    access: Access, context: BrowserContext
) -> None:
    page = context.new_page()
    page.goto(f"{access.url}/?token={access.owner}")
    port = access.url.rpartition(":")[2]
    page.goto("about:blank")
    page.set_content(
        f'<form method="post" action="http://127.0.0.1:{port}/api/v1/runs/run-1/stacks"><button>x</button></form>'
    )
    with page.expect_response("**/stacks") as answer:
        page.get_by_role("button").click()
    assert answer.value.status in (401, 403)
