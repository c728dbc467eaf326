"""Who waits for whom: recorded runs of real ranks, through a real server, before a real Chromium."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from loaderwatch.server.recordings import recording
from tests.browser.conftest import Watched
from tests.browser.drawing import BIG
from tests.fakes.page_server import PageServer
from tests.fakes.serving import Access, ServeProcess

pytestmark = [pytest.mark.browser, pytest.mark.timeout(900)]

RECORDINGS = Path(__file__).resolve().parents[1] / "scenarios" / "recordings"


@pytest.fixture(scope="module")
def access(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Access]:
    """A real server that has taken in two recorded runs, up to the moment when it was clear."""
    with ServeProcess(tmp_path_factory.mktemp("server"), "--port", "0", "--hang-after", "6") as serve:
        access = serve.start()
        for name in ("s43_straggler", "s47_one_rank"):
            for envelope in recording.load(RECORDINGS / f"{name}.lwrec").decoded():
                access.send(envelope)
        yield access
        serve.stop()


def coupling(access: Access, run: str) -> dict[str, Any]:
    found: dict[str, Any] = access.get(f"/runs/{run}/coupling")
    return found


def test_the_api_says_who_waits_for_whom(access: Access) -> None:
    found = coupling(access, "s43-straggler")
    assert (found["state"], found["waiting"], found["waited_for"], found["cause"]) == (
        "waiting",
        [0],
        [1],
        "data",
    )
    assert (found["source"], found["where"]) == ("measured", "backward")
    for share in found["ranks"]:
        assert sum(share[part] for part in ("data_s", "own_s", "others_s")) == pytest.approx(
            share["iteration_s"]
        )
    assert found["wait_s"] == pytest.approx(found["ranks"][1]["data_s"], rel=0.3)


def test_the_api_says_who_stands_where(access: Access) -> None:
    found = coupling(access, "s47-one-rank")
    assert (found["state"], found["waiting"], found["waited_for"]) == ("standing", [1], [0])
    outlier, waits = found["places"]
    assert (outlier["ranks"], outlier["collective"]) == ([0], None)
    assert "in prepare" in outlier["stands"]
    assert (waits["ranks"], waits["stands"]) == ([1], "barrier")
    assert (found["timeout_s"], found["given_up_in_s"]) == (1800.0, pytest.approx(1790, abs=10))


def test_the_page_shows_who_waits(access: Access, watched: Watched) -> None:
    page = watched.page
    page.goto(f"{access.url}/?token={access.owner}")
    page.goto(f"{access.url}/#/runs/s43-straggler")
    card = page.locator("[data-card=coupling]")
    expect(card.locator(".flow")).to_have_attribute(
        "aria-label", re.compile(r"Rank 0 waits \d+.ms of each iteration for rank 1")
    )
    expect(card.locator(".bar-name")).to_have_text(["rank 1", "rank 0"])
    widths = {
        name: card.locator(f"li:has-text('{name}') .part-{part}").evaluate("e => e.clientWidth")
        for name, part in (("rank 1", "data"), ("rank 0", "others"))
    }
    assert widths["rank 1"] == pytest.approx(widths["rank 0"], rel=0.3)
    assert widths["rank 1"] > 100
    card.get_by_role("link", name="rank 0").click()
    expect(page.locator("h1")).to_have_text("Rank 0")


def test_the_page_shows_who_stands_where(access: Access, watched: Watched) -> None:
    page = watched.page
    page.goto(f"{access.url}/?token={access.owner}")
    page.goto(f"{access.url}/#/runs/s47-one-rank")
    card = page.locator("[data-card=coupling]")
    expect(card.locator("h2")).to_have_text("Who stands where")
    expect(card.locator(".countdown")).to_contain_text(re.compile("(given up in|had) 30\u202fmin"))
    expect(card.locator(".place")).to_have_count(2)
    expect(card.locator(".place").first).to_contain_text("in prepare")
    card.get_by_role("button", name="Stack of rank 1").click()
    expect(card.locator(".frames")).to_contain_text("barrier")


@pytest.mark.parametrize("width", [390, pytest.param(1280, marks=pytest.mark.long)])
def test_256_ranks_stay_readable(server: PageServer, watched: Watched, width: int) -> None:
    page = watched.page
    page.set_viewport_size({"width": width, "height": 900})
    page.goto(server.url + BIG)
    card = page.locator("[data-card=coupling]")
    expect(card.locator(".flow-end").last).to_contain_text("Rank 37")
    expect(card.locator(".bar-name")).to_have_text(["rank 37", "rank 0", "rank 1", "253 others"])
    assert page.evaluate("document.documentElement.scrollWidth") <= width
