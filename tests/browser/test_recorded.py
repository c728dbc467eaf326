"""Recorded stalls in a real server: the page shows the findings of its detectors in both languages."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from playwright.sync_api import Browser, ViewportSize, expect

from loaderwatch.core.facts import GpuInfo, GpuProcess, GpuState
from tests.browser.conftest import Watched, patient_context
from tests.browser.shots import settle
from tests.browser.test_language import TEXTS
from tests.fakes.feed import Feed
from tests.fakes.serving import Access, serving, wait_until

pytestmark = [pytest.mark.browser, pytest.mark.slow]

RECORDINGS: Final = Path(__file__).resolve().parents[1] / "scenarios" / "recordings"
FEW: Final = "s02-few-workers"
RUN: Final = f"#/runs/{FEW}"
LATE: Final = "s43-straggler"
STOPPED: Final = "s45-early-stop"
CHINESE: Final = {
    "runs": ("#/", ".run-link"),
    "run": (RUN, ".verdict-title"),
    "ranks": (f"#/runs/{LATE}", "[data-card=coupling] .flow, .flow"),
    "rank": (f"#/runs/{LATE}/ranks/1", "[data-card=workers] tbody"),
    "hang": (f"#/runs/{STOPPED}", ".card.hang"),
    "two": (f"#/compare/{FEW}/{LATE}", ".compared-title"),
}
"""Pages, each with what shows that it is drawn."""
PLACE: Final = re.compile(r"\S+:\d+ in \S+|\bin (\w*_\w*|<\w+>)")
LEFT: Final = re.compile(r"(?<![\w./`=(<\[-])[a-z][a-z']+(?![\w./`=(\]-])", re.ASCII)
"""An English word in small letters that is no part of a name or a path."""
SAME_IN_BOTH: Final = frozenset(
    re.findall(
        r"\w+",
        "worker workers rank epoch pid loader fork spawn dataset cgroup loss host main train token fetch"
        " collate issue hung runpy early stopping ms min loaderwatch analyze gloo",
    )
)
"""What Chinese engineers write in English, and units on the axes."""
FROM_OLD_STREAMERS: Final = ("no NVIDIA driver on this host",)
"""How texts begin that older streamers sent in English only; the recordings are theirs."""
TALL: Final[ViewportSize] = {"width": 1280, "height": 4000}


@pytest.fixture(scope="module")
def access(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Access]:
    """A run with too few workers, and one on a host with two GPUs of which the second is somebody else's."""
    with serving(tmp_path_factory.mktemp("server"), open_to_all=True, hang_after_s=6.0) as access:
        access.replay(RECORDINGS / "s02_few_workers.lwrec")
        wait_until("the finding", lambda: access.get(f"/runs/{FEW}/findings"))
        for run in (LATE, STOPPED):
            access.replay(RECORDINGS / f"{run.replace('-', '_')}.lwrec")
        gpus = [
            GpuInfo(gpu=0, uuid="GPU-a", name="NVIDIA H100", rank=0),
            GpuInfo(gpu=1, uuid="GPU-b", name="NVIDIA H100"),
        ]
        states = [
            GpuState(gpu=0, utilization_ratio=0.4, temperature_c=61.0),
            GpuState(gpu=1, utilization_ratio=0.9, processes=[GpuProcess(pid=77, name="ollama", user="ada")]),
        ]
        access.send(Feed().envelope(gpus=gpus, gpu_states=states))
        yield access


def test_the_finding_and_what_other_settings_give(access: Access, watched: Watched) -> None:
    (found,) = access.get(f"/runs/{FEW}/findings")
    (model,) = access.get(f"/runs/{FEW}/what-if")
    page = watched.page
    page.set_viewport_size(TALL)
    page.goto(f"{access.url}/{RUN}")
    expect(page.locator(".verdict-title")).to_contain_text("waits for data")
    expect(page.locator("#alerts")).to_contain_text("2 workers deliver")
    assert found["scenario"] == "S02"
    card = page.locator("[data-card=whatif]")
    card.get_by_role("button", name="Show", exact=True).click()
    expect(card.locator("tr", has_text="today")).to_contain_text("num_workers=2")
    for each in model["workers"][:8]:  # a few beyond the best are left out
        expect(card.locator("tbody").first).to_contain_text(f"num_workers={each['num_workers']}")
    expect(card.locator(".whatif-curve svg")).to_be_visible()


def test_other_settings_are_of_the_rank_that_the_others_wait_for(access: Access, watched: Watched) -> None:
    """Those of rank 0, which waits for it, would gain nothing, and would contradict the finding."""
    (found,) = access.get(f"/runs/{LATE}/findings")
    (model,) = access.get(f"/runs/{LATE}/what-if")
    assert (found["scenario"], found["rank"], model["rank"]) == ("S43", 1, 1)
    page = watched.page
    page.set_viewport_size(TALL)
    page.goto(f"{access.url}/#/runs/{LATE}")
    card = page.locator("[data-card=whatif]")
    expect(card).to_contain_text(re.compile(rf"num_workers={model['knee']} gives about .*, today 9\.8"))


def test_the_configurations_advice(access: Access, watched: Watched) -> None:
    page = watched.page
    page.set_viewport_size(TALL)
    page.goto(f"{access.url}/{RUN}")
    card = page.locator("[data-card=audit]")
    card.get_by_role("button", name="Show", exact=True).click()
    expect(card).to_contain_text("persistent_workers=True keeps them.")


def test_every_gpu_of_the_host_with_whose_it_is(access: Access, watched: Watched) -> None:
    page = watched.page
    page.set_viewport_size(TALL)
    page.goto(f"{access.url}/#/runs/run-1")
    rows = page.locator("[data-card=gpus] tbody tr")
    expect(rows).to_have_count(2)
    expect(rows.first).to_contain_text("GPU 0, rank 0")
    expect(rows.first).to_contain_text(re.compile(r"61\s°C"))
    expect(rows.last).to_contain_text("ollama of ada, pid 77")


@pytest.mark.parametrize("where", CHINESE)
def test_all_of_it_is_in_chinese(access: Access, browser: Browser, where: str) -> None:
    """Also what only the real server's detectors say, with every alert and card unfolded."""
    address, drawn = CHINESE[where]
    context = patient_context(browser, locale="zh-CN", viewport=TALL, reduced_motion="reduce")
    try:
        page = context.new_page()
        page.goto(f"{access.url}/{address}")
        expect(page.locator("html")).to_have_attribute("lang", "zh-CN")
        expect(page.locator(drawn).first).to_be_visible()
        settle(page, 0.5)
        for head in page.locator("#alerts .alert-head").all():
            head.click()
        folded = page.get_by_role("button", name="显示", exact=True)
        for _ in range(folded.count()):
            folded.first.click()  # which is none of them any more then
            page.wait_for_timeout(100)
            if not folded.count():
                break
        settle(page, 0.5)
        texts = page.evaluate(TEXTS)
    finally:
        context.close()
    left = {
        text: set(LEFT.findall(PLACE.sub("", text))) - SAME_IN_BOTH
        for text in texts
        if not text.startswith(FROM_OLD_STREAMERS)
    }
    assert {text: words for text, words in left.items() if words} == {}
