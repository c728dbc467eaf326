"""The card "Where a fetch goes", in a real Chromium."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import Watched
from tests.browser.drawing import BIG, DIGITS
from tests.fakes.page_server import PageServer

pytestmark = pytest.mark.browser


def shown(page: Page, server: PageServer, route: str) -> Locator:
    """The card on a page, with its data."""
    page.goto(server.url + route)
    card = page.locator("[data-card=profile]")
    expect(card).to_be_visible()
    expect(card).to_have_attribute("class", re.compile("is-live"))
    return card


def test_the_largest_line_comes_first(server: PageServer, watched: Watched) -> None:
    card = shown(watched.page, server, DIGITS)
    expect(card.locator(".card-about").first).to_contain_text(
        re.compile(r"55.% of a fetch goes to zip_faces\.py:31 in read_image")
    )
    row = card.locator("tbody tr").first
    expect(row).to_contain_text(re.compile(r"zip_faces\.py:31.*read_image.*55.%.*50–60.%.*17.ms"))
    expect(row).to_contain_text(re.compile(r"waits for disk 59.%.*computes 41.%"))
    expect(card.locator(".flame-box", has_text="Python · zipfile")).to_have_count(1)
    order = watched.page.locator("[data-card]").evaluate_all("cards => cards.map(c => c.dataset.card)")
    assert order.index("profile") < order.index("speed")


def test_enter_on_a_row_opens_its_frames(server: PageServer, watched: Watched) -> None:
    card = shown(watched.page, server, DIGITS)
    line = card.get_by_role("button", name="zip_faces.py:31", exact=True)
    line.focus()
    watched.page.keyboard.press("Enter")
    expect(line).to_have_attribute("aria-expanded", "true")
    frames = card.locator("td.unfolded")
    expect(frames).to_contain_text("118 of 201 samples")
    expect(frames.locator(".frame.here").first).to_contain_text("/home/ana/faces/zip_faces.py:31")
    expect(line).to_be_focused()
    card.locator("tbody tr").first.click()
    expect(frames).to_have_count(0)


def test_a_box_opens_its_frames_by_mouse_and_keyboard(server: PageServer, watched: Watched) -> None:
    page = watched.page
    card = shown(page, server, DIGITS)
    card.locator(".flame-box", has_text="Python · zipfile").click()
    panel = card.locator(".box-frames")
    expect(panel).to_contain_text(re.compile(r"55.% of a fetch: waits for disk 59.%, computes 41.%"))
    panel.get_by_role("button", name="Show its 2 functions").click()
    expect(card.locator(".flame-box", has_text="_RealGetContents")).to_have_count(3)
    panel.get_by_role("button", name="Merge Python · zipfile").click()
    expect(card.locator(".flame-box", has_text="_RealGetContents")).to_have_count(0)
    panel.get_by_role("button", name="Close").click()
    expect(panel).to_have_count(0)

    boxes = card.locator(".flame-box")
    boxes.first.focus()
    for _ in range(2):
        page.keyboard.press("ArrowDown")
    expect(card.locator(".flame-box", has_text="zip_faces.py:31")).to_be_focused()
    page.keyboard.press("Enter")
    expect(panel).to_contain_text("read_image")
    assert boxes.evaluate_all("boxes => boxes.filter(b => b.tabIndex === 0).length") == 1


def test_boxes_lie_within_the_box_above_them(server: PageServer, watched: Watched) -> None:
    for size in ((1280, 800), (390, 844)):
        watched.page.set_viewport_size({"width": size[0], "height": size[1]})
        card = shown(watched.page, server, DIGITS)
        boxes = card.locator(".flame-box").evaluate_all(
            "boxes => boxes.map(b => b.getBoundingClientRect()).map(r => [r.top, r.left, r.right])"
        )
        rows: dict[float, list[tuple[float, float]]] = {}
        for top, left, right in boxes:
            rows.setdefault(round(top), []).append((left, right))
        outer = rows[min(rows)]
        for row in rows.values():
            assert min(left for left, _ in row) >= outer[0][0] - 1
            assert max(right for _, right in row) <= outer[-1][1] + 1
            assert all(a[1] <= b[0] + 1 for a, b in zip(sorted(row), sorted(row)[1:], strict=False))
        assert watched.page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_other_parts_and_few_samples(server: PageServer, watched: Watched) -> None:
    page = watched.page
    card = shown(page, server, DIGITS)
    parts = card.locator(".segments button")
    expect(parts).to_have_text(["Fetch", "Step", "Epoch boundary"])
    parts.nth(1).click()
    expect(card.get_by_role("heading", name="Where a step goes")).to_be_visible()
    expect(card.locator("thead")).to_contain_text("Per step")
    parts.nth(2).click()
    expect(card).to_contain_text("Only 12 samples so far.")
    expect(card.locator("tbody")).not_to_contain_text("–")
    card = shown(page, server, BIG)
    expect(card).to_contain_text(re.compile(r"33.% of all samples are missing"))
    card = shown(page, server, "#/runs/resnet-lost-51aa")
    expect(card).to_contain_text("No samples of stacks in this range")
    card = shown(page, server, f"{DIGITS}/ranks/1")
    expect(card).to_contain_text("rank 1")


def test_colours_follow_the_theme(server: PageServer, watched: Watched) -> None:
    page = watched.page
    seen = []
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme)
        card = shown(page, server, DIGITS)
        box = card.locator(".flame-box", has_text="Python · zipfile")
        stripes = box.locator("> i").evaluate_all(
            "parts => parts.map(p => getComputedStyle(p).borderBottomColor)"
        )
        assert len(set(stripes)) == 2, "disk and computing"
        seen.append(stripes)
    assert seen[0] != seen[1]
