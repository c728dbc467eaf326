"""The list of runs, the address of a view, downloads and the comparison, on a page of the real server."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from playwright.sync_api import Browser, Download, Page, expect

from loaderwatch.core.answers import Evidence
from loaderwatch.core.facts import StackDump
from loaderwatch.detect.finding import Finding, Texts
from tests.browser.conftest import Watched, patient_context
from tests.browser.drawing import drawn, until
from tests.fakes.feed import Feed
from tests.fakes.runs import SECOND
from tests.fakes.serving import Access, ScriptedDetector, serving, wait_until
from tests.fakes.two_runs import following, paced, store_advised

pytestmark = [pytest.mark.browser, pytest.mark.slow]
TITLE: Final = "62 % of the time is data wait <b>bold</b>"


@pytest.fixture
def access(tmp_path: Path) -> Iterator[Access]:
    """Two runs that are over, and one that goes on, in which something was found."""
    detector = ScriptedDetector()
    with serving(tmp_path, detector=detector) as access:
        lately = time.time_ns() - 600 * SECOND
        access.send(paced("slow-run", began_ns=lately, num_workers=2))
        access.send(
            paced(
                "quick-run",
                began_ns=lately + SECOND,
                iteration_s=0.06,
                wait_ratio=0.08,
                start_s=0.5,
                num_workers=8,
            )
        )
        wait_until("both are over", lambda: {row["state"] for row in access.get("/runs")} == {"finished"})
        feed = Feed("live-run")
        detector.findings = [
            Finding(
                key="k", code="hung", scenario="S36", severity="critical", confidence=0.9,
                began_ns=feed.started_ns + 10 * SECOND,
                texts=Texts(title=TITLE, cause="The workers are too few.", advice="num_workers=8"), rank=0,
                evidence=[Evidence(label="data wait", value=0.62, unit="ratio")],
                stacks=[StackDump(rank=0, worker=-1, pid=5, taken_ns=feed.started_ns,
                                  text='Thread 0x1\n  File "t.py", line 3 in f')],
            )
        ]  # fmt: skip
        access.send(feed.envelope(steps=500))
        wait_until("the finding", lambda: access.get("/runs/live-run/findings"))
        yield access


def opened(access: Access, watched: Watched, where: str = "") -> Page:
    """The page as the owner sees it."""
    watched.page.goto(f"{access.url}/?token={access.owner}")
    if where:
        watched.page.goto(f"{access.url}/{where}")
    return watched.page


def names(page: Page) -> list[str]:
    return page.locator(".run-link .run-name code").all_inner_texts()


def test_runs_are_searched_named_pinned_and_deleted(access: Access, watched: Watched) -> None:
    page = opened(access, watched)
    expect(page.locator(".run-item")).to_have_count(3)
    assert names(page) == ["live-run", "quick-run", "slow-run"]
    page.get_by_role("button", name="Finished 2").click()
    expect(page.locator(".run-item")).to_have_count(2)
    until(page, lambda: page.evaluate("location.hash") == "#/?state=finished", "the address says so")
    page.get_by_label("Search runs").fill("slow")
    expect(page.locator(".run-item")).to_have_count(1)
    page.reload()
    expect(page.locator(".run-item")).to_have_count(1)
    expect(page.get_by_label("Search runs")).to_have_value("slow")

    page.get_by_role("button", name="Name, tags and note of train.py").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name", exact=True).fill("baseline <i>")
    dialog.get_by_label("Tags").fill("resnet, #lr3")
    dialog.get_by_label("Note").fill("before the new disks")
    dialog.get_by_role("button", name="Save").click()
    expect(dialog).to_have_count(0)
    expect(page.locator(".run-name b")).to_have_text("baseline <i>")
    page.get_by_label("Search runs").fill("#lr3")
    page.get_by_role("button", name=re.compile("^Finished")).click()
    expect(page.locator(".run-item")).to_have_count(1)
    page.get_by_role("button", name="Pin baseline <i>").click()
    page.get_by_label("Search runs").fill("")
    until(page, lambda: names(page)[0] == "slow-run", "the pinned run is first")

    page.get_by_role("button", name="Name, tags and note of baseline <i>").click()
    dialog.get_by_role("button", name="Delete the run…").click()
    expect(dialog).to_contain_text("1,200 steps")
    dialog.get_by_role("textbox").fill("baseline")
    watched.allow_network_errors = True
    dialog.get_by_role("button", name="Delete for good").click()
    expect(dialog).to_contain_text("confirm with the run's name")
    dialog.get_by_role("textbox").fill("baseline <i>")
    dialog.get_by_role("button", name="Delete for good").click()
    expect(page.locator(".run-item")).to_have_count(2)
    assert [row["run_id"] for row in access.get("/runs")] == ["live-run", "quick-run"]


def test_what_reports_is_not_deleted(access: Access, watched: Watched) -> None:
    feed = Feed("going")
    access.send(feed.envelope(steps=5))
    page = opened(access, watched, "#/?q=going")
    expect(page.locator(".run-item")).to_have_count(1)
    access.send(feed.envelope())  # it reports now, however long the page took to come
    page.get_by_role("button", name="Name, tags and note of train.py").click()
    expect(page.get_by_role("dialog")).to_contain_text("It is reporting; end its processes")
    expect(page.get_by_role("button", name="Delete the run…")).to_be_disabled()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_a_link_opens_exactly_that(access: Access, watched: Watched) -> None:
    began = access.get("/runs/slow-run/summary")["started_at"]
    page = opened(access, watched, f"#/runs/slow-run?from={began + 20:.0f}&to={began + 60:.0f}")
    expect(page.locator(".chip.zoom")).to_be_visible()
    drawn(page, "steps")
    shown = page.evaluate(
        "document.querySelector('#plot-steps')._fullLayout.xaxis.range.map(v => Date.parse(v + 'Z') / 1000)"
    )
    assert round(shown[1] - shown[0]) == 40
    page.get_by_role("button", name="15 min").click()
    until(page, lambda: page.evaluate("location.hash") == "#/runs/slow-run?last=900", "the address follows")
    page.get_by_role("button", name="All", exact=True).click()
    until(page, lambda: page.evaluate("location.hash") == "#/runs/slow-run", "what is usual is not in it")

    finding = access.get("/runs/live-run/findings")[0]["id"]
    page.goto(f"{access.url}/#/runs/live-run?alert={finding}")
    expect(page.get_by_text("The workers are too few.")).to_be_visible()
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy link").click()
    link = page.evaluate("navigator.clipboard.readText()")
    assert re.search(rf"#/runs/live-run\?from=[\d.]+&to=[\d.]+&alert={finding}&rank=0$", link), link
    page.goto("about:blank")
    page.goto(link)
    expect(page.locator(".chip.zoom")).to_be_visible()
    expect(page.get_by_text("The workers are too few.")).to_be_visible()


def test_a_drawing_between_a_click_and_the_browsers_word_keeps_the_link(
    access: Access, watched: Watched
) -> None:
    """The address changes at the click; the page gets the event in a later task, here after it has drawn."""
    watched.page.add_init_script(
        "addEventListener('hashchange', event => window.deaf && event.stopImmediatePropagation())"
    )
    page = opened(access, watched)
    expect(page.locator(".run-item")).to_have_count(3)
    page.evaluate("window.deaf = true; location.hash = '#/runs/slow-run?last=900'")
    page.get_by_role("button", name="Keyboard shortcuts").click()
    expect(page.get_by_role("dialog")).to_be_visible()  # so it has drawn
    assert page.evaluate("location.hash") == "#/runs/slow-run?last=900"
    page.keyboard.press("Escape")
    page.evaluate("window.deaf = false; dispatchEvent(new HashChangeEvent('hashchange'))")
    expect(page.get_by_role("button", name="15 min")).to_have_attribute("aria-pressed", "true")


def test_charts_are_taken_along(access: Access, watched: Watched, tmp_path: Path) -> None:
    page = opened(access, watched, "#/runs/slow-run")
    drawn(page, "steps")
    with page.expect_download() as got:
        page.locator("[data-card=steps] [data-take=csv]").click()
    assert got.value.suggested_filename == "slow-run-steps.csv"
    head, first, *_ = got.value.path().read_text().splitlines()
    assert head.startswith("time,unix_s,data_wait_s_mean,")
    assert re.match(r"\d{4}-\d\d-\d\dT[\d:.]+Z,[\d.]+,", first)
    with page.expect_download() as got:
        page.locator("[data-card=steps] [data-take=png]").click()
    got.value.save_as(tmp_path / "steps.png")
    assert (tmp_path / "steps.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    with page.expect_download() as got:
        page.get_by_role("link", name="Recording").click()
    assert got.value.suggested_filename == "slow-run.lwrec"


def test_a_report_opens_without_a_network(
    access: Access, watched: Watched, browser: Browser, tmp_path: Path
) -> None:
    page = opened(access, watched, "#/runs/live-run")
    expect(page.locator("h1")).to_have_text("train.py")
    with page.expect_download() as got:
        page.get_by_role("button", name="Report").click()
    file = tmp_path / got.value.suggested_filename
    got.value.save_as(file)
    context = patient_context(browser, offline=True, viewport={"width": 1280, "height": 900})
    try:
        report = context.new_page()
        complaints: list[str] = []
        requests: list[str] = []
        report.on("console", lambda message: complaints.append(message.text))
        report.on("request", lambda request: requests.append(request.url))
        report.goto(file.as_uri())
        expect(report.locator("h1")).to_have_text("train.py")
        expect(report.get_by_text("The workers are too few.")).to_be_visible()
        expect(report.get_by_text(TITLE).first).to_be_visible()
        assert report.locator(".plot > svg").count() >= 3
        assert report.locator("script, button, input").count() == 0
        expect(report.locator("thead").last).to_contain_text("Data wait")
        assert (report.locator(".plot image").first.get_attribute("href") or "").startswith("data:image/png")
        assert [url for url in requests if not url.startswith(("file:", "data:"))] == []
        assert complaints == []
        report.screenshot(path=tmp_path / "report.png", full_page=True)
    finally:
        context.close()


def test_a_report_says_which_chart_is_missing_and_why(
    access: Access, watched: Watched, browser: Browser, tmp_path: Path
) -> None:
    """One whose data the server never answers with, and one that it refuses; it has all others."""
    watched.allow_network_errors = True
    page = watched.page
    page.clock.install()
    page.route("**/api/v1/**/heatmap*", lambda route: None)
    page.route(
        "**/api/v1/**/boundaries*",
        lambda route: route.fulfill(status=503, json={"detail": "the disk is full"}),
    )
    opened(access, watched, "#/runs/live-run")
    expect(page.locator("h1")).to_have_text("train.py")
    drawn(page, "steps")
    saved: list[Download] = []
    page.on("download", lambda download: saved.append(download))
    page.get_by_role("button", name="Report").click()

    def comes() -> bool:
        page.clock.run_for(2000)  # a minute without anything new
        return bool(saved)

    until(page, comes, "the report is saved")
    expect(page.locator(".note")).to_contain_text("The report is saved without 2 charts, and says why")
    file = tmp_path / saved[0].suggested_filename
    saved[0].save_as(file)
    context = patient_context(browser, offline=True)
    try:
        report = context.new_page()
        report.goto(file.as_uri())
        expect(report.get_by_role("note")).to_have_text(
            "Missing in this report: Who waits, and when, Epoch boundaries"
        )
        said = report.locator(".card .report-missing").all_text_contents()
        assert sorted(said) == [
            "This chart is missing: the server answered 503",
            "This chart is missing: the server has not answered",
        ]
        assert report.locator(".plot > svg").count() == report.locator(".plot").count() >= 2
    finally:
        context.close()


def test_two_runs_beside_each_other(access: Access, watched: Watched) -> None:
    page = opened(access, watched, "#/?state=finished")
    page.locator(".run-item", has_text="slow-run").get_by_role("button", name="Compare").click()
    page.locator(".run-item", has_text="quick-run").get_by_role("button", name="Compare").click()
    page.get_by_role("link", name="Compare train.py with train.py").click()
    expect(page.locator(".compared-title")).to_contain_text("faster than A")
    assert (
        page.locator(".compared-title").inner_text()
        == access.get("/compare", a="slow-run", b="quick-run")["title"]
    )
    expect(page.locator("tr", has_text="num_workers")).to_contain_text("8")
    expect(page.locator("tr", has_text="Data wait").first).to_contain_text("more than noise: better")
    assert page.locator(".line-b").first.get_attribute("d") or "" > "M"
    page.get_by_role("link", name="Swap A and B").click()
    expect(page.locator(".compared-title")).to_contain_text("slower than A")
    watched.allow_network_errors = True
    page.goto(f"{access.url}/#/compare/slow-run/nope")
    expect(page.get_by_text("These runs cannot be compared")).to_be_visible()


def test_an_advice_that_was_followed_says_so(tmp_path: Path, watched: Watched) -> None:
    lately = time.time_ns() - 600 * SECOND
    store_advised(tmp_path / "runs", lately)
    with serving(tmp_path) as access:
        access.send(following(lately + 200 * SECOND))
        page = opened(access, watched, "#/runs/run-a")
        page.get_by_role("button", name="Training waits for data half of its time.").click()
        line = page.locator(".alert-body .followed")
        (found,) = access.get("/runs/run-a/findings")
        expect(line).to_have_text(f"{found['followed']['sentence']} · train.py")
        expect(line.get_by_role("link", name="train.py")).to_have_attribute("href", "#/runs/run-b")
        line.get_by_role("link", name="followed:").click()
        expect(page.locator(".compared-title")).to_contain_text("faster than A")
        assert page.evaluate("location.hash") == "#/compare/run-a/run-b"
