"""A training job that wants to run scripts in the reader's browser, on every page of a real server."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from playwright.sync_api import Page, expect

from loaderwatch.core.answers import Evidence
from loaderwatch.core.facts import GpuInfo, HostInfo, LoaderInfo, SpanInfo, StackDump
from loaderwatch.core.records import UNKNOWN
from loaderwatch.core.wire import pack_table
from loaderwatch.detect.finding import Finding, Texts
from tests.browser.conftest import Watched
from tests.browser.drawing import until
from tests.browser.shots import SIZES
from tests.fakes.feed import SECOND, Feed
from tests.fakes.page_server import PageServer
from tests.fakes.serving import Access, ScriptedDetector, serving, wait_until

pytestmark = pytest.mark.browser

SCRIPTS = (
    '<img src=x onerror="window.ran=1"><script>window.ran=1</script><svg onload=window.ran=1>'
    '<a href="javascript:window.ran=1">click</a> <style>body{display:none}</style>'
)
BIDI = "\u202egnp.exe\u2066\u200f"
ESCAPES = "\x1b]0;owned\x07\x1b[2J\r\n"
HOSTILE = f"{SCRIPTS}{BIDI}{ESCAPES}"
LINK = '<a href="javascript:window.ran=1">open</a><b>bold</b>'  # what Plotly itself reads in texts
MOST = 480  # of a run's name; the wire takes 500


def hostile_feed() -> tuple[Feed, dict[str, Any]]:
    """Every text of a run as an attacker would have it."""
    feed = Feed(host=f"{LINK}{BIDI}")
    long = HOSTILE + "x" * 10_000
    loaders = [
        LoaderInfo(
            loader=0, name=HOSTILE, role="train", class_name=LINK, dataset_class=long, sampler_class=LINK,
            num_workers=2, batch_size=4, prefetch_factor=2, start_method=LINK,
        )
    ]  # fmt: skip
    frames = "".join(f'  File "/x/{HOSTILE!r}{n}.py", line {n} in {LINK}\n' for n in range(1, 6))
    more = {
        "stream": "run-1-s",
        "run_name": (HOSTILE + "n" * 500)[:MOST],
        "host": HostInfo(name=feed.host, cpus=8, gpu_status=HOSTILE),
        "processes": [
            feed.process(
                name=long, argv=[long], cwd=long, exit=f"uncaught {long}", loaders=loaders,
                phase_names=[HOSTILE], python=HOSTILE, torch=HOSTILE,
                thread_limits={"OMP_NUM_THREADS": HOSTILE},
            )
        ],
        "gpus": [GpuInfo(gpu=0, uuid=HOSTILE, name=HOSTILE, rank=0)],
        "stacks": [
            StackDump(
                rank=0, worker=worker, pid=4000 + worker, taken_ns=1, why=HOSTILE,
                text=f"Current thread 0x0001 [{HOSTILE!r}] (most recent call first):\n{frames}{HOSTILE}\n",
            )
            for worker in (-1, 0)
        ],
    }  # fmt: skip
    return feed, more


def finding() -> Finding:
    """What a detector makes of it: the names in its sentences."""
    return Finding(
        key="x", code="input-bound", scenario="S02", severity="critical", confidence=0.9,
        began_ns=time.time_ns() - 5 * SECOND,
        texts=Texts(title=f"Rank 0 waits for {HOSTILE}", cause=HOSTILE, advice=LINK + HOSTILE), rank=0,
        host=f"{LINK}{BIDI}", worker=0,
        evidence=[Evidence(label=HOSTILE, value=HOSTILE + "v" * 10_000, unit="text")],
        stacks=[StackDump(rank=0, worker=0, pid=4000, taken_ns=1, text=HOSTILE, why=HOSTILE)],
    )  # fmt: skip


@pytest.fixture
def hostile(tmp_path: Path) -> Iterator[Access]:
    detector = ScriptedDetector()
    feed, more = hostile_feed()
    detector.findings = [finding()]

    def told(access: Access) -> bool:
        envelope = feed.envelope(steps=20, **more)
        now = envelope.made_ns
        fetches = [
            [0, 0, 0, n, now - (20 - n) * SECOND // 10, SECOND // 10, 0, 0, 0, 4, n, SECOND // 20, 100]
            for n in range(20)
        ]
        epoch = [[0, 0, 0, now - 3 * SECOND, SECOND, UNKNOWN, 0, SECOND, 1, 2, 0, 0]]
        tables = envelope.tables | {
            "fetches": pack_table("fetches", fetches),
            "epoch_begins": pack_table("epoch_begins", epoch),
        }
        span = SpanInfo(
            rank=0, worker=-1, pid=4000, phase="user", since_ns=now - SECOND, phase_name=HOSTILE,
            wchan=HOSTILE
        )  # fmt: skip
        access.send(msgspec.structs.replace(envelope, tables=tables, spans=[span]))
        time.sleep(0.5)
        return bool(access.get("/runs/run-1/findings"))

    with serving(tmp_path, detector=detector) as access:
        wait_until("the alert", lambda: told(access))
        yield access


def check(page: Page, where: str) -> None:
    """Nothing ran, nothing was injected, every link leads to ourselves, and the layout holds."""
    assert page.evaluate("window.ran") is None, where
    assert not set(page.locator("#app").inner_text()) & set("\u202e\u2066\u200f\x1b\x07"), where
    injected = page.evaluate(
        """() => ['script', 'style', 'img', 'iframe', 'object', 'base', 'form']
            .flatMap(tag => [...document.querySelectorAll('#app ' + tag)])
            .filter(e => !e.closest('.heatmaplayer')).map(e => e.outerHTML.slice(0, 200))"""
    )
    assert injected == [], where
    handlers = page.evaluate(
        "() => [...document.querySelectorAll('*')].filter(e => [...e.attributes].some(a =>"
        " a.name.startsWith('on'))).length"
    )
    assert handlers == 0, where
    links = page.evaluate(
        "() => [...document.querySelectorAll('a')].map(a => a.getAttribute('href') ??"
        " a.getAttribute('xlink:href'))"
    )
    assert links, where
    assert all(
        link is not None and (link.startswith(("#", "/")) and not link.startswith("//")) for link in links
    ), (where, links)
    too_wide = page.evaluate(
        "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"
    )
    assert too_wide <= 0, f"{where}: {too_wide} px wider than the screen"


@pytest.mark.parametrize("size", ["wide", pytest.param("narrow", marks=pytest.mark.long)])
def test_a_hostile_run_runs_nothing_on_any_page(hostile: Access, watched: Watched, size: str) -> None:
    page = watched.page
    width, height = SIZES["wide"] if size == "wide" else (390, 844)
    page.set_viewport_size({"width": width, "height": height})
    shots = os.environ.get("LOADERWATCH_SHOTS")
    page.goto(f"{hostile.url}/?token={hostile.viewer}")
    expect(page.locator(".run-link")).to_have_count(1)
    check(page, "runs")
    for where, at in (("runs", "#/"), ("run", "#/runs/run-1"), ("rank", "#/runs/run-1/ranks/0")):
        page.goto(f"{hostile.url}/{at}")
        if where != "runs":
            page.locator("[data-card]").first.evaluate("e => e.scrollIntoView()")
            page.locator(".main-svg").first.wait_for()
            page.evaluate(
                "() => document.querySelectorAll('main [aria-expanded=false]').forEach(e => e.click())"
            )
            for at_card in range(page.locator("[data-card]").count()):
                page.evaluate("n => document.querySelectorAll('[data-card]')[n]?.scrollIntoView()", at_card)
                page.wait_for_timeout(60)
            for plot in page.locator(".plot .nsewdrag").all()[
                :4
            ]:  # Plotly writes names into what it shows there
                plot.scroll_into_view_if_needed()
                plot.hover()
                page.wait_for_timeout(120)
                check(page, f"{where}, pointed at a chart")
        page.wait_for_timeout(300)
        check(page, where)
        if shots:
            page.screenshot(path=f"{shots}/hostile-{where}-{size}.png", full_page=True)
    page.keyboard.press("?")
    page.locator(".dialog").wait_for()
    page.keyboard.press("Escape")
    for _ in range(3):  # the themes
        page.keyboard.press("t")
        page.wait_for_timeout(150)
    check(page, "after all")


def test_what_the_policy_forbids_is_heard(server: PageServer, watched: Watched) -> None:
    """Or the other tests of the page would prove nothing."""
    page = watched.page
    page.goto(server.url)
    expect(page.locator(".run-link")).to_have_count(7)
    assert watched.complaints == []
    tries = {
        "an inline style": "const e = document.createElement('p'); e.setAttribute('style', 'color: red');"
        " document.body.append(e)",
        "a style sheet": "const e = document.createElement('style'); e.textContent = 'p{}';"
        " document.head.append(e)",
        "an image of another site": "const e = document.createElement('img');"
        " e.src = 'http://127.0.0.1:9/x'; document.body.append(e)",
        "a request elsewhere": "fetch('http://127.0.0.1:9/').catch(() => null)",
        "markup from text": "try { document.body.innerHTML = '<i>x</i>' } catch (e) {}",
        "a script of another address": "try { const e = document.createElement('script'); e.src = '/x.js' }"
        " catch (e) {}",
        "another policy": "try { trustedTypes.createPolicy('mine', {}) } catch (e) {}",
        "a frame": "const e = document.createElement('iframe'); e.src = '/'; document.body.append(e)",
    }
    for what, script in tries.items():
        before = len(watched.complaints)
        page.evaluate(f"() => {{ {script} }}")
        until(page, lambda: any("CSP " in text for text in watched.complaints[before:]), what)  # noqa: B023
    page.wait_for_timeout(1000)  # a try may bring more than one complaint
    watched.complaints.clear()
