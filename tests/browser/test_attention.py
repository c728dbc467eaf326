"""A person in bed: what reaches somebody who does not look, and what a phone shows at first sight."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from loaderwatch.detect.incidents import tracker
from tests.browser.conftest import Watched, patient_context
from tests.browser.drawing import drawn, until
from tests.fakes.feed import Feed
from tests.fakes.page_findings import hang
from tests.fakes.serving import Access, ScriptedDetector, serving

pytestmark = [pytest.mark.browser, pytest.mark.slow]

HIDDEN_TAB = """
    localStorage.setItem("loaderwatch.attention", "on");
    window.requestAnimationFrame = () => 0;  // a hidden tab does not draw
    window.told = [];
    window.Notification = class {
        static permission = "granted";
        static requestPermission = async () => "granted";
        constructor(title, options) { window.told.push([title, options.body, options.requireInteraction]); }
    };
    window.tones = 0;
    const start = OscillatorNode.prototype.start;
    OscillatorNode.prototype.start = function (...when) {
        window.tones += 1;
        return start.apply(this, when);
    };
"""
LONG_TITLE = (
    "Rank 0 has been frozen for 14 min: worker 1 does not return from sample 18432 of TokenizedShardedCorpus,"
    " and the 255 other ranks wait for it in the backward pass"
)


@pytest.fixture
def detector() -> ScriptedDetector:
    """Finds what the test says."""
    return ScriptedDetector()


@pytest.fixture
def access(tmp_path: Path, detector: ScriptedDetector) -> Iterator[Access]:
    """A real server."""
    with serving(tmp_path, detector=detector, open_to_all=True) as access:
        yield access


def send_until(page: Page, access: Access, feed: Feed, selector: str, text: str) -> None:
    """Let the run report until the page says so."""

    def said() -> bool:
        access.send(feed.envelope())
        page.wait_for_timeout(200)
        found = page.locator(selector)
        return found.count() > 0 and text in (found.first.text_content() or "")

    until(page, said, f"{selector} says {text!r}")


def test_a_hidden_tab_changes_title_and_icon_and_tells_with_a_notification_and_a_sound(
    access: Access, detector: ScriptedDetector, watched: Watched
) -> None:
    page, feed = watched.page, Feed()
    page.add_init_script(HIDDEN_TAB)
    access.send(feed.envelope())
    page.goto(f"{access.url}/#/runs/run-1")
    icon = "document.querySelector('link[rel=icon]')"
    until(
        page, lambda: page.title() == "train.py · loaderwatch", "the tab has the run's name"
    )  # not by frames
    quiet = page.evaluate(f"{icon}.href")
    assert page.evaluate("document.querySelectorAll('main').length") == 0, "nothing has been drawn"
    page.mouse.click(5, 5)  # a browser plays no sound before
    detector.findings = [hang(feed)]

    def told() -> bool:
        access.send(feed.envelope())
        return bool(page.evaluate("told.length > 0"))

    until(page, told, "the browser is asked to notify")
    title, body, stays = page.evaluate("told[0]")
    assert (title, stays) == (detector.findings[0].title, True)
    assert body == f"train.py: {detector.findings[0].advice}"
    assert page.evaluate("tones") == 3
    assert page.title() == "(1) train.py · loaderwatch"
    assert page.evaluate(f"{icon}.dataset.tone") == "critical"
    assert page.evaluate(f"{icon}.href") != quiet
    loads = (
        "new Promise(done => { const i = new Image(); i.onload = () => done(i.width > 0);"
        f" i.onerror = () => done(false); i.src = {icon}.href; }})"
    )
    assert page.evaluate(loads), "the icon is a picture"
    access.send(feed.envelope())
    page.wait_for_timeout(1500)
    assert page.evaluate("told.length") == 1, "told once"


def test_alerts_are_told_when_asked_for_and_the_choice_is_kept(access: Access, watched: Watched) -> None:
    page, feed = watched.page, Feed()
    page.add_init_script("window.Notification = class { static requestPermission = async () => 'denied'; };")
    access.send(feed.envelope())
    page.goto(f"{access.url}/#/runs/run-1")
    bell = page.get_by_role("button", name="Notification and sound at an alert")
    expect(bell).to_have_attribute("aria-pressed", "false")
    bell.click()
    expect(page.locator(".note")).to_contain_text("The browser forbids notifications for this address")
    page.reload()
    expect(bell).to_have_attribute("aria-pressed", "true")
    page.locator("h1").click()
    page.keyboard.press("n")
    expect(bell).to_have_attribute("aria-pressed", "false")


def test_a_small_phone_shows_verdict_frozen_card_and_acknowledge_without_scrolling(
    access: Access, detector: ScriptedDetector, watched: Watched
) -> None:
    page, feed = watched.page, Feed()
    page.set_viewport_size({"width": 360, "height": 640})
    detector.findings = [
        hang(feed, title=LONG_TITLE, advice="Give the download a timeout, and the loader timeout=120. " * 4)
    ]
    page.goto(f"{access.url}/#/")
    send_until(page, access, feed, ".run-link", "Rank 0 has been frozen")
    page.goto(f"{access.url}/#/runs/run-1")
    acknowledge = page.locator(".hang").get_by_role("button", name="Acknowledge")
    expect(acknowledge).to_be_visible()
    access.send(feed.envelope())  # or the run would be called lost, in more words
    for part in (page.locator(".verdict"), page.locator(".hang .facts-row"), acknowledge):
        box = part.bounding_box()
        assert box is not None
        assert box["y"] >= 0
        assert box["y"] + box["height"] <= 640
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    acknowledge.click()
    expect(page.locator("#alerts .pill")).to_have_text("Acknowledged")


def test_steps_that_go_on_are_not_called_frozen(
    access: Access, detector: ScriptedDetector, watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(tracker.HYSTERESIS, "hung", tracker.Hysteresis(windows=1, gap_s=600.0))
    page, feed = watched.page, Feed()
    detector.findings = [hang(feed)]
    access.send(feed.envelope())
    page.goto(f"{access.url}/#/runs/run-1")
    send_until(page, access, feed, ".hang h2", "Frozen")
    detector.findings = []
    send_until(page, access, feed, ".hang h2", "Recovered, watching")
    assert "no progress" not in (page.locator(".hang .card-about").text_content() or "")
    send_until(page, access, feed, ".verdict-title", "Recovered, watching whether it lasts. Before: Rank 0")
    monkeypatch.setitem(tracker.HYSTERESIS, "hung", tracker.Hysteresis(windows=1, gap_s=0.5))
    send_until(page, access, feed, "#alerts .pill", "Resolved")
    expect(page.locator(".hang")).to_have_count(0)


def test_times_have_their_zone_and_one_key_shows_utc(access: Access, browser: Browser) -> None:
    access.send(Feed().envelope(steps=50))
    context = patient_context(browser, timezone_id="Asia/Kolkata", locale="en-US")
    try:
        page = context.new_page()
        page.goto(f"{access.url}/#/runs/run-1")
        meta = page.locator(".page-head .page-meta")
        expect(meta).to_contain_text("GMT+5:30")
        drawn(page, "steps")
        first = "document.getElementById('plot-steps').data[0].x[0]"
        local = page.evaluate(first)
        page.keyboard.press("u")
        expect(meta).to_contain_text("UTC")
        page.wait_for_function(f"() => Math.abs({local} - {first} - 5.5 * 3600_000) < 60_000")
        page.reload()
        expect(page.get_by_role("button", name="Times in UTC")).to_have_attribute("aria-pressed", "true")
        expect(meta).to_contain_text("UTC")
    finally:
        context.close()
