"""The page in Chinese: chosen by browser or switch, on every page, without a sentence left in English."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import patient_context
from tests.browser.shots import settle
from tests.browser.test_accessible import PAGES
from tests.fakes import page_answers
from tests.fakes.page_server import PageServer

pytestmark = [pytest.mark.browser, pytest.mark.slow]

TEXTS: Final = """() => {
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode())
    if (!node.parentElement.closest("code, pre, textarea, script, noscript"))
      found.push(node.nodeValue.trim());
  for (const name of ["title", "aria-label", "placeholder", "data-label"])
    for (const element of document.querySelectorAll(`[${name}]`)) found.push(element.getAttribute(name));
  return [...new Set(found)];
}"""
ENGLISH: Final = re.compile(r"(?<![\w.(/=\"'`-])(?:[A-Za-z][a-z']+[ ,]+){2,}[a-z]+", re.ASCII)


def english(page: Page, own: str) -> list[str]:
    """English texts of the page, except sentences of the fake server itself and markup in names."""
    texts: list[str] = page.evaluate(TEXTS)
    return [
        text
        for text in texts
        if "<img" not in text and any(run.rstrip() not in own for run in ENGLISH.findall(text))
    ]


def test_every_page_is_in_chinese(browser: Browser, server: PageServer) -> None:
    own = repr([vars(run) for run in server.runs]) + Path(page_answers.__file__).read_text()
    context = patient_context(browser, locale="zh-CN", reduced_motion="reduce")
    left: dict[str, list[str]] = {}
    try:
        page = context.new_page()
        for name, address in PAGES.items():
            page.goto("about:blank")  # else what was there before would do
            page.goto(server.url + address)
            expect(page.locator("main .page")).to_be_visible()
            expect(page.locator("html")).to_have_attribute("lang", "zh-CN")
            settle(page, 0.5)
            left[name] = english(page, own)
        page.keyboard.press("?")
        expect(page.get_by_role("dialog")).to_contain_text("时间")
    finally:
        context.close()
    assert {name: texts for name, texts in left.items() if texts} == {}


def test_the_switch_is_kept(browser: Browser, server: PageServer) -> None:
    context = patient_context(browser, locale="en-US", reduced_motion="reduce")
    try:
        page = context.new_page()
        page.goto(server.url)
        expect(page.locator("html")).to_have_attribute("lang", "en")
        expect(page.locator(".run-link").first).to_be_visible()
        page.get_by_role("button", name="English / 中文").click()
        expect(page.locator("html")).to_have_attribute("lang", "zh-CN")
        page.reload()
        expect(page.locator("html")).to_have_attribute("lang", "zh-CN")
        expect(page.locator(".run-link").first).to_be_visible()  # no key is heard before the page is drawn
        page.keyboard.press("l")
        expect(page.locator("html")).to_have_attribute("lang", "en")
    finally:
        context.close()


def test_without_the_catalogue_the_page_is_in_english(browser: Browser, server: PageServer) -> None:
    context = patient_context(browser, locale="zh-CN", reduced_motion="reduce")
    try:
        page = context.new_page()
        page.route("**/lang/zh/*.ftl", lambda route: route.abort())
        page.goto(server.url)
        expect(page.locator(".run-link").first).to_be_visible()
        expect(page.locator("html")).to_have_attribute("lang", "en")
    finally:
        context.close()
