"""The states of a run on the page, as the real server brings them about: ended, out of reach, unknown."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from loaderwatch.server.live import event_stream, run, summary
from tests.browser.conftest import Watched
from tests.browser.drawing import until
from tests.fakes.feed import Feed
from tests.fakes.page_findings import hang
from tests.fakes.serving import Access, ScriptedDetector, serving

pytestmark = [pytest.mark.browser, pytest.mark.slow]

STORE_JS = Path(__file__).resolve().parents[2] / "web" / "js" / "store.js"


@pytest.fixture
def detector() -> ScriptedDetector:
    """Finds what the test says."""
    return ScriptedDetector()


@pytest.fixture
def access(tmp_path: Path, detector: ScriptedDetector, monkeypatch: pytest.MonkeyPatch) -> Iterator[Access]:
    """A real server, which loses a run after three seconds."""
    for module in (summary, run):
        monkeypatch.setattr(module, "LOST_AFTER_S", 3.0)
    with serving(tmp_path, detector=detector, open_to_all=True) as access:
        yield access


def stale_after_s() -> float:
    """How long the page waits for a word."""
    found = re.search(r"STALE_AFTER_S = (\d+);", STORE_JS.read_text())
    assert found is not None
    return float(found[1])


def test_the_page_waits_for_two_heartbeats() -> None:
    assert stale_after_s() >= 2 * event_stream.HEARTBEAT_S + 1


def test_an_ended_run_stays_up_to_date(access: Access, watched: Watched) -> None:
    feed = Feed()
    access.send(feed.envelope())
    access.send(feed.envelope(state="finished", final=True))
    page = watched.page
    page.goto(f"{access.url}/#/runs/run-1")
    pill = page.locator(".link-pill")
    expect(pill).to_have_text("Up to date")
    for _ in range(round(stale_after_s()) + 4):
        page.wait_for_timeout(1000)
        assert pill.text_content() == "Up to date"


def test_lost_contact_keeps_the_last_verdict_and_nothing_counts_on(
    access: Access, detector: ScriptedDetector, watched: Watched
) -> None:
    feed = Feed()
    detector.findings = [hang(feed)]
    page = watched.page
    page.goto(f"{access.url}/#/")

    def hangs() -> bool:
        access.send(feed.envelope())
        return bool(access.get("/runs/run-1/findings"))

    until(page, hangs, "the hang is an alert")
    page.goto(f"{access.url}/#/runs/run-1")
    expect(page.locator(".page-head .badge").first).to_have_text("Lost contact")
    title = page.locator(".verdict-title")
    expect(title).to_contain_text(f"At the last contact: {detector.findings[0].title}")
    expect(title).to_contain_text("; its state is unknown.")
    expect(page.locator(".verdict")).to_have_class("verdict tone-critical")
    meta = page.locator(".page-meta")
    expect(meta).to_contain_text("last heard of ")
    assert "ended" not in (meta.text_content() or "")
    expect(page.locator(".hang h2")).to_have_text("Frozen when last heard of")
    frozen, open_for = page.locator(".hang .card-about"), page.locator("#alerts .alert-when")
    before = frozen.text_content(), open_for.text_content()
    page.wait_for_timeout(3000)
    assert (frozen.text_content(), open_for.text_content()) == before


def test_a_mistyped_id_is_told_with_the_names_that_come_near(access: Access, watched: Watched) -> None:
    watched.allow_network_errors = True  # the page asks for what is not there
    access.send(Feed("digits-cnn-7f3a").envelope())
    page = watched.page
    page.goto(f"{access.url}/#/runs/digits-cnn-7f3b")
    expect(page.get_by_text("There is no run digits-cnn-7f3b here")).to_be_visible()
    expect(page.locator(".link-pill")).to_have_text("Not found")
    page.locator(".near a").click()
    expect(page.locator("h1")).to_have_text("train.py")
    page.goto(f"{access.url}/#/runs/digits-cnn-7f3a/attempts/4")
    expect(page.get_by_text("There is no attempt 4 of digits-cnn-7f3a")).to_be_visible()
