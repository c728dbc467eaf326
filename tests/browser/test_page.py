"""The page in a real Chromium, over data that puts it into each of its states."""

from __future__ import annotations

import re
import time

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Watched
from tests.browser.drawing import BIG, DIGITS, drawn
from tests.browser.shots import SIZES, settle
from tests.fakes.page_data import XSS
from tests.fakes.page_server import PageServer

pytestmark = [pytest.mark.browser, pytest.mark.slow]  # as a whole

FROZEN = "#/runs/frozen-loader-11c2"
ROUTES = [
    "#/",
    DIGITS,
    f"{DIGITS}/ranks/1",
    f"{FROZEN}/findings/frozen-loader-11c2-1",
    f"{FROZEN}/ranks/1",
    BIG,
    "#/runs/xss-0001",
]


def test_runs_to_run_to_rank_and_back(server: PageServer, watched: Watched) -> None:
    page = watched.page
    page.goto(server.url)
    expect(page.locator(".run-link")).to_have_count(7)
    page.get_by_text("digits_cnn.py").click()
    expect(page.locator(".verdict-title")).to_have_text(
        "Training waits 54 % of the time for data: 2 workers cannot keep up"
    )
    for chart in ("steps", "gpu", "heatmap"):
        drawn(page, chart)
    expect(page.locator("[data-card=steps] .legend li b")).to_have_count(6)
    expect(page.get_by_role("region", name="GPU utilization").get_by_text("simulated GPU")).to_be_visible()
    page.locator(".ranks").get_by_role("link", name="rank 1").click()
    expect(page.locator("h1")).to_have_text("Rank 1")
    drawn(page, "lanes")
    page.locator(".crumbs").get_by_text("digits_cnn.py").click()
    expect(page.locator("h1")).to_have_text("digits_cnn.py")
    page.go_back()
    expect(page.locator("h1")).to_have_text("Rank 1")


def test_a_hang_shows_rank_worker_sample_and_stack(server: PageServer, watched: Watched) -> None:
    page = watched.page
    page.goto(server.url + FROZEN)
    hang = page.locator(".hang")
    expect(hang.locator(".fact-value").nth(0)).to_contain_text("1")
    expect(hang.locator(".fact").nth(1)).to_contain_text("pid 31877 · state S · in sk_wait_data")
    expect(hang.locator(".fact-value").nth(2)).to_contain_text("dataset[18432]")
    expect(hang.locator(".fact-value").nth(3)).to_contain_text("archive.py:88")
    expect(hang.locator(".frame.here")).to_contain_text("read_member")
    expect(page.locator("#announcer")).to_contain_text("critical alert: Rank 1 has been frozen")
    assert page.title().startswith("(1) train.py")
    hang.get_by_role("button", name="Copy dataset[18432]").click()
    expect(page.locator(".note")).to_contain_text("dataset[18432]")


def test_acknowledge_silence_and_stacks_reach_the_server(server: PageServer, watched: Watched) -> None:
    page = watched.page
    page.goto(f"{server.url}{DIGITS}/findings/digits-cnn-7f3a-3")
    row = page.locator('[id="finding-digits-cnn-7f3a-3"]')
    row.get_by_role("button", name="Acknowledge").click()
    expect(row.locator(".pill")).to_have_text("Acknowledged")
    row.get_by_role("button", name="Silence for 1 h").click()
    expect(row.locator(".pill")).to_have_text("Silenced")
    expect(row.get_by_role("button", name="Silence for 1 h")).to_have_count(0)
    page.goto(f"{server.url}{DIGITS}/ranks/1")
    page.get_by_role("button", name="Take stacks now").click()
    expect(page.locator(".note")).to_contain_text("Stacks asked for")
    assert [p.rsplit("/", 1)[-1] for p in server.posts] == ["ack", "silence", "stacks?rank=1"]


def test_what_one_cause_also_did_lies_under_its_alert(server: PageServer, watched: Watched) -> None:
    page = watched.page
    page.goto(server.url + "#/runs/frozen-loader-11c2")
    alert = page.locator("#alerts .alert")
    expect(alert).to_have_count(1)
    alert.locator(".alert-head").focus()
    page.keyboard.press("Enter")
    expect(alert.locator(".also h3")).to_have_text("Also seen, same cause")
    also = alert.locator(".also-head")
    expect(also).to_contain_text("dataset[18432] took 60 s")
    expect(also).to_contain_text("warned 22 s before")
    for _ in range(6):  # past the actions
        if also.evaluate("e => e === document.activeElement"):
            break
        page.keyboard.press("Tab")
    expect(also).to_be_focused()
    expect(also).to_have_attribute("aria-expanded", "false")
    page.keyboard.press("Enter")
    expect(also).to_have_attribute("aria-expanded", "true")
    expect(alert.locator(".also .evidence")).to_contain_text("long waits")


def test_an_alert_appears_and_resolves_by_itself(server: PageServer, watched: Watched) -> None:
    server.tick_s = 0.2
    run = next(r for r in server.runs if r.run_id == "digits-cnn-7f3a")
    held, run.findings = run.findings, []
    page = watched.page
    page.goto(server.url + DIGITS)
    expect(page.locator("#alerts")).to_contain_text("No detector has found anything")
    run.findings = held[:1]
    expect(page.locator("#alerts .pill")).to_have_text("Firing")
    expect(page.locator("#announcer")).to_contain_text("warning alert")
    held[0] |= {"state": "resolved", "ended_at": time.time()}
    expect(page.locator("#alerts .pill")).to_have_text("Resolved")
    expect(page.locator("#alerts")).to_contain_text("none firing")


def test_no_runs_shows_the_two_lines(server: PageServer, watched: Watched) -> None:
    server.runs = []
    watched.page.goto(server.url)
    expect(watched.page.locator("pre")).to_have_text("import loaderwatch\nloaderwatch.attach(train_loader)")


def test_loading_shows_placeholders_first(server: PageServer, watched: Watched) -> None:
    server.delay_s = 1.0
    page = watched.page
    page.goto(server.url + DIGITS)
    expect(page.locator(".skeleton").first).to_be_visible()
    expect(page.locator("[data-card=steps].is-loading")).to_be_visible()
    server.delay_s = 0
    drawn(page, "steps")
    expect(page.locator("[data-card=steps] .skeleton")).to_have_count(0)


def test_a_server_that_goes_away_is_told_and_comes_back(server: PageServer, watched: Watched) -> None:
    watched.allow_network_errors = True
    page = watched.page
    page.goto(server.url + DIGITS)
    drawn(page, "steps")
    server.down = True
    expect(page.locator(".link-pill")).to_contain_text(re.compile("Stale, .* old"))
    expect(page.locator("[data-card=steps]")).to_contain_text("stale")
    expect(page.locator(".verdict-title")).to_be_visible()  # what was known stays
    server.down = False
    expect(page.locator(".link-pill")).to_have_text("Live")
    expect(page.locator("[data-card=steps].is-live")).to_be_visible()


def test_a_deleted_run_says_so(server: PageServer, watched: Watched) -> None:
    watched.allow_network_errors = True
    page = watched.page
    page.goto(server.url + DIGITS)
    drawn(page, "steps")
    server.gone.add("digits-cnn-7f3a")
    expect(page.locator(".link-pill")).to_have_text("Run deleted")
    expect(page.get_by_text("This run was deleted on the server")).to_be_visible()
    page.goto(server.url + "#/runs/never-was")
    expect(page.get_by_text("There is no run never-was here")).to_be_visible()
    page.get_by_role("button", name="All runs").click()
    expect(page.locator(".run-link")).to_have_count(6)


def test_signed_out_says_how_to_get_in(server: PageServer, watched: Watched) -> None:
    watched.allow_network_errors = True
    server.unauthorized = True
    page = watched.page
    for route in ("#/", DIGITS):
        page.goto("about:blank")
        page.goto(server.url + route)
        expect(page.get_by_text("Open the address that loaderwatch printed in the terminal")).to_be_visible()
    server.unauthorized = False
    expect(page.locator(".verdict-title")).to_be_visible()  # resumes by itself, after 8 s at the most


def test_lost_records_and_missing_gpu_are_said(server: PageServer, watched: Watched) -> None:
    page = watched.page
    page.goto(server.url + "#/runs/resnet-lost-51aa")
    expect(page.locator(".lost-records")).to_have_text("18,204 records lost")
    expect(page.locator(".page-head .badge").first).to_have_text("Lost contact")
    page.goto(server.url + "#/runs/healthy-3b1e")
    expect(page.get_by_role("heading", name="Compute duty")).to_be_visible()
    expect(page.locator("[data-card=gpu]")).to_contain_text("No NVIDIA driver on this machine")
    expect(page.locator(".lost-records")).to_have_count(0)
    expect(page.locator(".unwatched")).to_have_count(0)
    expect(page.locator(".verdict")).to_contain_text("Nothing is wrong")


def test_names_that_are_markup_stay_text(server: PageServer, watched: Watched) -> None:
    page = watched.page
    page.goto(server.url)
    expect(page.locator(".run-name b").first).to_have_text(f"train {XSS}.py")
    for route in ("#/runs/xss-0001/findings/xss-0001-1", "#/runs/xss-0001/ranks/0"):
        page.goto(server.url + route)
        drawn(page, "steps")
        settle(page, 0.5)
        assert page.evaluate("document.querySelectorAll('main img, main script').length") == 0
    assert XSS in page.title()


def test_the_keyboard_does_everything(server: PageServer, watched: Watched) -> None:
    page = watched.page
    page.goto(server.url)
    expect(page.locator(".run-link")).to_have_count(7)
    for key in ("j", "j", "ArrowDown", "k", "j"):
        page.keyboard.press(key)
    expect(page.locator(".run-link:focus")).to_contain_text("digits_cnn.py")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("digits_cnn.py")
    page.keyboard.press("4")
    expect(page.locator(".range-bar .segments .on")).to_have_text("All")
    page.keyboard.press("[")
    expect(page.locator("[data-card=steps] .card-about")).to_contain_text("rank 0")
    page.keyboard.press("j")
    expect(page.locator(".alert-head:focus")).to_have_count(1)
    page.keyboard.press("Enter")
    expect(page.locator(".alert.is-open")).to_have_count(1)
    for _ in range(3):
        page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("Rank 0")
    page.keyboard.press("]")
    expect(page.locator("h1")).to_have_text("Rank 1")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.keyboard.press("Escape")
    expect(page.locator("h1")).to_have_text("digits_cnn.py")
    page.keyboard.press("Backspace")
    expect(page.locator("h1")).to_have_text("Runs")


def test_the_theme_is_kept(server: PageServer, watched: Watched) -> None:
    page = watched.page
    page.goto(server.url + DIGITS)
    drawn(page, "steps")
    paper = "getComputedStyle(document.documentElement).backgroundColor"
    light = page.evaluate(paper)
    page.keyboard.press("t")
    page.keyboard.press("t")
    page.wait_for_function("() => document.documentElement.dataset.theme === 'dark'")
    assert page.evaluate(paper) != light
    tick = "document.querySelector('#plot-steps .ytick text').style.fill"
    page.wait_for_function(f"() => {tick} === 'rgb(160, 169, 184)'")  # charts follow
    page.reload()
    page.wait_for_function("() => document.documentElement.dataset.theme === 'dark'")


def test_a_dark_page_is_printed_light(server: PageServer, watched: Watched) -> None:
    """And is as dark as before, afterwards."""
    page = watched.page
    page.emulate_media(color_scheme="dark")
    page.goto(server.url + DIGITS)
    drawn(page, "steps")
    tick = "document.querySelector('#plot-steps .ytick text').style.fill"
    page.evaluate(
        f"""window.addEventListener("beforeprint", async () => {{
            for (let turn = 0; turn < 50; turn += 1) await null;  // what may precede the picture
            window.onPaper = [getComputedStyle(document.documentElement).colorScheme, {tick}].join();
        }})"""
    )
    page.pdf()
    assert page.evaluate("window.onPaper") == "light,rgb(89, 98, 115)"
    page.wait_for_function(f"() => {tick} === 'rgb(160, 169, 184)'")
    assert page.evaluate("getComputedStyle(document.documentElement).colorScheme") == "dark"


@pytest.mark.parametrize("route", ROUTES)
def test_nothing_overflows_sideways(server: PageServer, watched: Watched, route: str) -> None:
    """Opened on a phone, and turned into a wide window and back."""
    page = watched.page
    for number, size in enumerate(("phone", "wide", "phone")):
        width, height = SIZES[size]
        page.set_viewport_size({"width": width, "height": height})
        if number == 0:
            page.goto(server.url + route)
        settle(page, 0.3)
        wide = page.evaluate("document.documentElement.scrollWidth")
        assert wide <= width, f"{route} is {wide} px wide on a screen of {width}"


def test_256_ranks(server: PageServer, watched: Watched) -> None:
    page = watched.page
    page.goto(server.url + BIG)
    expect(page.locator("table.ranks tbody tr")).to_have_count(16)
    expect(page.locator("table.ranks tbody tr").first).to_contain_text("rank 37")  # the one that waits
    drawn(page, "heatmap")
    page.get_by_role("button", name="Next ranks").click()
    expect(page.get_by_text("17 to 32 of 256")).to_be_visible()
    page.get_by_placeholder("Find a rank", exact=True).press_sequentially("rank 200")
    expect(page.locator("table.ranks tbody tr")).to_have_count(1)
    expect(page.locator("table.ranks tbody tr")).to_contain_text("rank 200")
    page.get_by_placeholder("Find a rank", exact=True).fill("")
    expect(page.locator("table.ranks tbody tr")).to_have_count(16)
    page.get_by_role("button", name="Rank", exact=True).click()
    expect(page.locator("table.ranks tbody tr").first).to_contain_text("rank 0")
    page.get_by_role("button", name="Rank", exact=True).click()
    expect(page.locator("table.ranks tbody tr").first).to_contain_text("rank 255")
    expect(page.locator("table.ranks tbody tr").first).to_contain_text("not watched any more")
    expect(page.locator(".page-head .unwatched")).to_have_text("1 rank not watched any more")
