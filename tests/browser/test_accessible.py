"""axe finds nothing to complain about: every page, both themes, at desktop size and on a phone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import patient_context
from tests.browser.drawing import BIG, DIGITS
from tests.browser.shots import SIZES, settle
from tests.fakes.feed import Feed
from tests.fakes.page_server import PageServer
from tests.fakes.serving import ScriptedDetector, serving

pytestmark = [pytest.mark.browser, pytest.mark.slow]

AXE: Final = Path(__file__).resolve().parents[2] / "node_modules" / "axe-core" / "axe.min.js"
PAGES: Final = {
    "runs": "#/",
    "run": DIGITS,
    "hung": "#/runs/frozen-loader-11c2/findings/frozen-loader-11c2-1",
    "many": BIG,
    "lost": "#/runs/resnet-lost-51aa",
    "crashed": "#/runs/vit-crashed-90fe",
    "finished": "#/runs/healthy-3b1e",
    "rank": f"{DIGITS}/ranks/1",
    "hung-rank": "#/runs/frozen-loader-11c2/ranks/1",
    "unknown": "#/runs/digits-cnn-7f3b",
}

needs_axe = pytest.mark.skipif(not AXE.exists(), reason="npm ci has not installed axe-core")


def complaints(page: Page) -> list[str]:
    """Each rule of axe that a page breaks, with the first few elements that do."""
    page.evaluate(AXE.read_text())
    found: list[dict[str, Any]] = page.evaluate("axe.run(document).then((r) => r.violations)")
    return [
        f"{rule['id']}: {rule['help']}: "
        + "; ".join(
            f"{node['html'][:160]} ({json.dumps(node['any'][:1])[:300]})" for node in rule["nodes"][:3]
        )
        for rule in found
    ]


@needs_axe
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("size", [*SIZES])
def test_axe_finds_nothing(browser: Browser, server: PageServer, theme: Any, size: str) -> None:
    width, height = SIZES[size]
    context = patient_context(
        browser, viewport={"width": width, "height": height}, color_scheme=theme, reduced_motion="reduce"
    )
    found: dict[str, list[str]] = {}
    try:
        page = context.new_page()
        for name, address in PAGES.items():
            page.goto("about:blank")  # else what was there before would do
            page.goto(server.url + address)
            expect(page.locator("main .page")).to_be_visible()
            settle(page, 0.5)
            if name == "hung":
                page.get_by_role("button", name="Last fetches of worker 2").click()
            found[name] = complaints(page)
        page.keyboard.press("?")
        expect(page.get_by_role("dialog")).to_be_visible()
        found["help"] = complaints(page)
    finally:
        context.close()
    assert {name: said for name, said in found.items() if said} == {}


@needs_axe
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_on_the_real_servers_pages(browser: Browser, tmp_path: Path, theme: Any) -> None:
    """The page to sign in, and a run behind it."""
    with serving(tmp_path, detector=ScriptedDetector()) as access:
        access.send(Feed().envelope(steps=20))
        context = patient_context(browser, color_scheme=theme, reduced_motion="reduce")
        try:
            page = context.new_page()
            page.goto(access.url)
            expect(page.get_by_label("Token")).to_be_visible()
            assert complaints(page) == []
            page.goto(f"{access.url}/?token={access.owner}#/runs/run-1")
            expect(page.locator(".verdict-title")).to_be_visible()
            settle(page, 0.5)
            assert complaints(page) == []
        finally:
            context.close()
