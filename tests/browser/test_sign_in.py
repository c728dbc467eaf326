"""Coming in: the form, the session that the browser keeps, and the server's own policy for its page."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from loaderwatch.detect.finding import Finding, Texts
from loaderwatch.server.access.tokens import rotate_tokens
from tests.browser.conftest import patient_context
from tests.fakes.feed import Feed
from tests.fakes.serving import Access, ScriptedDetector, ServeProcess, serving, wait_until

pytestmark = pytest.mark.browser


@pytest.fixture
def access(tmp_path: Path) -> Iterator[Access]:
    with serving(tmp_path, detector=ScriptedDetector()) as access:
        access.send(Feed().envelope(steps=20))
        wait_until("the run", lambda: access.get("/runs")[0]["severity"])
        yield access


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    context = patient_context(browser, viewport={"width": 1280, "height": 800})
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
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_contain_text("does not know that token")
    page.get_by_label("Token").fill(access.owner)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_text("train.py").first).to_be_visible()
    assert page.url == f"{access.url}/"
    assert found == []


def sign_in(page: Page, token: str) -> None:
    """As with a keyboard alone: the field has the focus."""
    expect(page.get_by_label("Token")).to_be_focused()
    page.keyboard.type(token)
    page.keyboard.press("Enter")


@pytest.mark.parametrize(
    ("scheme", "width"),
    [
        ("light", 1280),
        ("dark", 390),
        pytest.param("dark", 1280, marks=pytest.mark.long),
        pytest.param("light", 390, marks=pytest.mark.long),
    ],
)
def test_signing_in_leads_to_the_page_that_was_asked_for_and_lasts(
    access: Access, browser: Browser, scheme: Literal["light", "dark"], width: int
) -> None:
    context = patient_context(browser, color_scheme=scheme, viewport={"width": width, "height": 800})
    try:
        page = context.new_page()
        found = complaints(page)
        page.goto(f"{access.url}/#/runs/run-1/ranks/0")
        expect(page.get_by_label("Token")).to_be_focused()
        if shots := os.environ.get("LOADERWATCH_SHOTS"):
            page.screenshot(path=f"{shots}/sign-in-{scheme}-{width}.png")
        sign_in(page, "wrong")
        expect(page.get_by_role("alert")).to_have_text("This server does not know that token.")
        described = page.get_by_label("Token").get_attribute("aria-describedby")
        assert page.locator(f"#{described}").count() == 1
        assert page.url == f"{access.url}/#/runs/run-1/ranks/0"
        if shots:
            page.screenshot(path=f"{shots}/sign-in-wrong-{scheme}-{width}.png")
        sign_in(page, access.viewer)
        expect(page.get_by_role("heading", name="Stacks")).to_be_visible()
        page.reload()
        expect(page.get_by_role("heading", name="Stacks")).to_be_visible()
        link = context.new_page()
        link.goto(f"{access.url}/#/runs/run-1")
        expect(link.locator(".verdict-title")).to_be_visible()
        assert context.cookies() == []
        assert found == []
    finally:
        context.close()


def forget(page: Page) -> None:
    """Remove what the browser keeps of the session."""
    page.evaluate("new Promise(done => indexedDB.deleteDatabase('loaderwatch').onsuccess = done)")


def test_signing_in_never_leads_to_another_site(access: Access, context: BrowserContext) -> None:
    page = context.new_page()
    for trick in (
        "/?next=//evil.example",
        "/?url=http://evil.example&next=/\\\\evil.example",
    ):
        page.goto(access.url + trick)
        sign_in(page, access.viewer)
        expect(page.get_by_role("heading", name="Runs")).to_be_visible()
        assert page.url.startswith(f"{access.url}/"), page.url
        forget(page)


def test_a_page_whose_session_has_ended_says_so_and_leads_back_in(
    tmp_path: Path, context: BrowserContext
) -> None:
    """``loaderwatch token rotate`` while the page is open."""
    with ServeProcess(tmp_path, "--port", "0") as server:
        access = server.start()
        access.send(Feed().envelope(steps=20))
        page = context.new_page()
        page.goto(f"{access.url}/?token={access.viewer}#/runs/run-1")
        expect(page.locator(".verdict-title")).to_be_visible()
        new = rotate_tokens(tmp_path / "token.json")
        page.evaluate("location.hash = '#/'")
        expect(page.get_by_role("main").get_by_text("You are signed out")).to_be_visible()
        page.evaluate("location.hash = '#/runs/run-1'")
        expect(page.get_by_role("navigation", name="Where you are")).to_contain_text("run-1")
        sign_in(page, new.viewer)
        expect(page.locator(".verdict-title")).to_be_visible()
        assert page.url == f"{access.url}/#/runs/run-1"


def test_the_address_with_the_token_leads_to_the_run_and_hides_the_token(
    access: Access, context: BrowserContext
) -> None:
    page = context.new_page()
    found = complaints(page)
    page.goto(f"{access.url}/?token={access.owner}#/runs/run-1")
    assert page.url == f"{access.url}/#/runs/run-1"
    expect(page.locator(".main-svg").first).to_be_visible()
    assert context.cookies() == []
    page.goto(f"{access.url}/#/runs/run-1/ranks/0")
    with page.expect_response("**/stacks?*") as answer:
        page.get_by_role("button", name="Take stacks now").click()
    assert answer.value.status == 200, "our own page may post"
    kept = page.evaluate(
        """new Promise(done => indexedDB.open('loaderwatch').onsuccess = opened => opened.target.result
        .transaction('session').objectStore('session').get('newest')
        .onsuccess = got => done(got.target.result))
        .then(({key}) => [key instanceof CryptoKey,
            crypto.subtle.exportKey('raw', key).catch(error => error.name)])
        .then(both => Promise.all(both))"""
    )
    assert kept == [True, "InvalidAccessError"], "even a script of this origin cannot take the key away"
    assert found == []


def test_an_address_with_a_wrong_token_asks_for_another(access: Access, context: BrowserContext) -> None:
    page = context.new_page()
    page.goto(f"{access.url}/?token=wrong#/runs/run-1")
    expect(page.get_by_role("alert")).to_have_text(
        "This address holds a token that this server does not know."
    )
    assert page.url == f"{access.url}/#/runs/run-1"
    sign_in(page, access.viewer)
    expect(page.locator(".verdict-title")).to_be_visible()


def test_a_viewer_is_shown_no_buttons_that_the_server_would_refuse(
    tmp_path: Path, context: BrowserContext
) -> None:
    detector = ScriptedDetector()
    detector.findings = [
        Finding(
            key="x", code="input-bound", scenario="S02", severity="critical", confidence=0.9, rank=0,
            began_ns=time.time_ns() - 5 * 10**9,
            texts=Texts(title="Rank 0 waits for data", cause="Two workers.", advice="Use more."),
        )
    ]  # fmt: skip
    with serving(tmp_path, detector=detector) as access:
        feed = Feed()

        def found() -> bool:
            access.send(feed.envelope(steps=20))
            time.sleep(0.5)
            return bool(access.get("/runs/run-1/findings"))

        wait_until("an alert", found)
        alert = access.get("/runs/run-1/findings")[0]["id"]
        for token, may in ((access.owner, True), (access.viewer, False)):
            page = context.new_page()
            page.goto(f"{access.url}/?token={token}#/runs/run-1/findings/{alert}")
            expect(page.get_by_text("Two workers.")).to_be_visible()
            for name in ("Acknowledge", "Silence for 1 h"):
                expect(page.get_by_role("button", name=name)).to_have_count(int(may))
            page.goto(f"{access.url}/#/runs/run-1/ranks/0")
            expect(page.get_by_role("heading", name="Stacks")).to_be_visible()
            expect(page.get_by_role("button", name="Take stacks now")).to_have_count(int(may))
            page.close()


def test_another_sites_page_may_not_post_in_the_persons_name(access: Access, context: BrowserContext) -> None:
    page = context.new_page()
    page.goto(f"{access.url}/?token={access.owner}")
    expect(page.get_by_role("heading", name="Runs")).to_be_visible()
    port = access.url.rpartition(":")[2]
    page.goto("about:blank")
    page.set_content(
        f'<form method="post" action="http://127.0.0.1:{port}/api/v1/runs/run-1/stacks">'
        "<button>x</button></form>"
    )
    with page.expect_response("**/stacks") as answer:
        page.get_by_role("button").click()
    assert answer.value.status in (401, 403)
