"""Pictures of the page in both sizes and themes: ``python -m tests.browser.shots URL OUT``.

URL is the address of the page, with its token if it needs one. ``names`` maps a picture's name to the page's
hash (``"run": "#/runs/RUN_ID"``). By default the pictures show the list of runs, the newest run and its worst
rank.
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from playwright.sync_api import Browser, Page, sync_playwright

from tests.waiting import PATIENCE_S

_NAMES: Final = ("chromium", "chromium-browser", "google-chrome")
SIZES: Final = {"wide": (1280, 800), "phone": (390, 844)}
THEMES: Final = ("light", "dark")


def find_chromium() -> str | None:
    """The browser of this machine, if it has one."""
    return next((path for name in _NAMES if (path := shutil.which(name)) is not None), None)


def newest_run(page: Page, url: str) -> str:
    """The id of the newest run that the server behind ``url`` knows."""
    page.goto(url)
    page.wait_for_selector(".run-link", timeout=PATIENCE_S * 1000)
    href = page.get_attribute(".run-link", "href") or ""
    return href.removeprefix("#/runs/")


def settle(page: Page, wait_s: float) -> None:
    """Wait until no card on the screen is loading and the charts on it are drawn, then ``wait_s`` more."""
    page.wait_for_selector("main .page", timeout=PATIENCE_S * 1000)
    page.wait_for_function(
        """() => document.querySelectorAll('.page[aria-busy], .run-row .skeleton').length === 0
        && [...document.querySelectorAll('.plot')].every(p => {
            const box = p.getBoundingClientRect();
            return box.top > innerHeight || box.bottom < 0 || p.querySelector('.main-svg') !== null;
        })""",
        timeout=PATIENCE_S * 1000,
    )
    page.wait_for_timeout(wait_s * 1000)


def take(
    url: str,
    out_dir: Path,
    names: Mapping[str, str] | None = None,
    sizes: Mapping[str, tuple[int, int]] = SIZES,
    themes: Sequence[str] = THEMES,
    *,
    full_page: bool = True,
    wait_s: float = 1.0,
    locale: str = "en-US",
) -> list[Path]:
    """Write ``NAME-SIZE-THEME.png`` for every combination; returns the files.

    Raises:
        FileNotFoundError: there is no Chromium on this machine.
    """
    chromium = find_chromium()
    if chromium is None:
        raise FileNotFoundError(f"none of {', '.join(_NAMES)} is on the PATH; apt install chromium")
    out_dir.mkdir(parents=True, exist_ok=True)
    files: list[Path] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        try:
            for theme in themes:
                for size, (width, height) in sizes.items():
                    files += _take(
                        browser, url, out_dir, names, (size, width, height), theme, full_page, wait_s, locale
                    )
        finally:
            browser.close()
    return files


def _take(
    browser: Browser,
    url: str,
    out_dir: Path,
    names: Mapping[str, str] | None,
    size: tuple[str, int, int],
    theme: str,
    full_page: bool,
    wait_s: float,
    locale: str,
) -> list[Path]:
    label, width, height = size
    context = browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme="dark" if theme == "dark" else "light",
        reduced_motion="reduce",
        device_scale_factor=1,
        locale=locale,
    )
    files: list[Path] = []
    try:
        page = context.new_page()
        page.goto(url)
        page.wait_for_selector(
            "main .page", timeout=PATIENCE_S * 1000
        )  # signed in, if the address holds a token
        if names is None:
            run = newest_run(page, url)
            names = {"runs": "#/", "run": f"#/runs/{run}", "rank": f"#/runs/{run}/ranks/0"}
        root = page.url.split("#")[0]
        for name, route in names.items():
            page.goto("about:blank")
            page.set_viewport_size({"width": width, "height": height})
            page.goto(root + route)
            settle(page, 0.2)
            if full_page:
                # Cards load when they come onto the screen: make the screen as high as the page.
                tall = int(page.evaluate("document.documentElement.scrollHeight"))
                page.set_viewport_size({"width": width, "height": max(height, min(tall, 6000))})
                settle(page, wait_s)
                tall = int(
                    page.evaluate("document.querySelector('main').getBoundingClientRect().bottom + scrollY")
                )
                page.set_viewport_size({"width": width, "height": max(height, min(tall, 6000))})
            settle(page, wait_s)
            file = out_dir / f"{name}-{label}-{theme}.png"
            page.screenshot(path=file)
            files.append(file)
    finally:
        context.close()
    return files


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("out", type=Path)
    parser.add_argument("--name", action="append", default=[], metavar="NAME=HASH")
    parser.add_argument("--size", action="append", choices=sorted(SIZES), default=[])
    parser.add_argument("--theme", action="append", choices=THEMES, default=[])
    parser.add_argument("--screen", action="store_true", help="one screen, not the whole page")
    args = parser.parse_args()
    names = dict(name.split("=", 1) for name in args.name) or None
    sizes = {size: SIZES[size] for size in args.size} or SIZES
    for file in take(args.url, args.out, names, sizes, args.theme or THEMES, full_page=not args.screen):
        print(file)


if __name__ == "__main__":
    main()
