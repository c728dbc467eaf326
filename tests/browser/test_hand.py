"""What the page redraws takes away no click, no focus and no selected text."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Watched
from tests.browser.drawing import DIGITS
from tests.fakes.page_server import PageServer

pytestmark = pytest.mark.browser

RUN_ID = DIGITS.rpartition("/")[2]
HEADS = "#alerts .alert-head"


def findings(server: PageServer) -> list[dict[str, Any]]:
    """What the run's detectors say, to be changed."""
    return next(run for run in server.runs if run.run_id == RUN_ID).findings


def center(page: Page, selector: str) -> tuple[float, float]:
    """The middle of the one element."""
    page.locator(selector).scroll_into_view_if_needed()
    box = page.locator(selector).bounding_box()
    assert box is not None
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def test_elements_that_stay_are_the_same_with_focus_and_marked_text(
    server: PageServer, watched: Watched
) -> None:
    server.tick_s = 0.2
    page = watched.page
    page.goto(server.url + DIGITS)
    expect(page.locator(HEADS)).to_have_count(3)
    page.evaluate(f"""() => {{
        const heads = [...document.querySelectorAll('{HEADS}')];
        heads.forEach((head) => (head.seen = true));
        heads[2].focus();
        getSelection().selectAllChildren(heads[1].querySelector('.alert-title'));
    }}""")
    marked, focused = (
        page.locator(HEADS).nth(place).locator(".alert-title").inner_text() for place in (1, 2)
    )
    del findings(server)[0]  # that of the list's first line
    expect(page.locator(HEADS)).to_have_count(2)
    findings(server).reverse()
    findings(server)[0]["began_at"] += 3600
    findings(server)[1]["lost_s"] = 4242
    expect(page.locator("#alerts")).to_contain_text("71 min lost")
    assert page.evaluate(f"[...document.querySelectorAll('{HEADS}')].every((head) => head.seen)")
    expect(page.locator(f"{HEADS}:focus .alert-title")).to_have_text(focused)
    assert page.evaluate("getSelection().toString()") == marked


def test_a_list_in_another_order_moves_its_elements_with_the_focus(
    server: PageServer, watched: Watched
) -> None:
    page = watched.page
    page.goto(server.url)
    expect(page.locator(".run-link")).to_have_count(7)
    outcome = page.evaluate("""async () => {
        const { h, render } = await import('/js/dom.js');
        const list = document.body.appendChild(document.createElement('div'));
        const draw = (keys) => render(list, [...keys].map((key) => h('button', { key }, key)));
        const said = {};
        for (const order of ['abcdef', 'bcdefa', 'fabcde', 'fedcba', 'face', 'xfaceby']) {
            draw('abcdef');
            list.children[2].focus();
            const before = [...list.children];
            draw(order);
            const same = [...list.children].filter((one) => before.includes(one)).length;
            said[order] = [list.textContent, same, document.activeElement?.textContent];
        }
        list.remove();
        return said;
    }""")
    assert outcome == {
        order: [order, sum(key in "abcdef" for key in order), "c"]
        for order in ("abcdef", "bcdefa", "fabcde", "fedcba", "face", "xfaceby")
    }


def test_a_click_meets_what_the_mouse_was_pressed_on(server: PageServer, watched: Watched) -> None:
    server.tick_s = 0.1
    page = watched.page
    page.goto(server.url + DIGITS)
    expect(page.locator(HEADS)).to_have_count(3)
    # What is above the alerts stays as high as it is.
    expect(page.locator("[data-card=epochs] tbody tr")).not_to_have_count(0)
    last = findings(server)[-2]["id"]
    row = f'[id="finding-{last}"]'
    page.mouse.move(*center(page, f"{row} .alert-head"))
    page.mouse.down()
    del findings(server)[0]
    page.wait_for_timeout(1500)  # ticks come; drawn now, another line would lie under the pointer
    expect(page.locator(HEADS)).to_have_count(3)
    page.mouse.up()
    expect(page.locator(f"{row}.is-open")).to_have_count(1)
    expect(page.locator(HEADS)).to_have_count(2)


def test_a_mouse_that_is_never_let_go_does_not_stop_the_page(server: PageServer, watched: Watched) -> None:
    server.tick_s = 0.1
    page = watched.page
    page.goto(server.url + DIGITS)
    expect(page.locator(HEADS)).to_have_count(3)
    page.mouse.move(*center(page, "h1"))
    page.mouse.down()
    del findings(server)[0]
    expect(page.locator(HEADS)).to_have_count(2)
    page.mouse.up()
