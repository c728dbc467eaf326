"""The culprit's page: a script that loads its sample, its stack for an issue, its worker's last fetches."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from playwright.sync_api import Page, expect

from loaderwatch.core.facts import LoaderInfo, SpanInfo, StackDump
from loaderwatch.core.records import TABLES, UNKNOWN
from loaderwatch.core.wire import Envelope, pack_table
from tests.browser.conftest import Watched
from tests.browser.drawing import until
from tests.fakes.feed import SECOND, Feed
from tests.fakes.page_data import HANG_STACK
from tests.fakes.page_findings import hang
from tests.fakes.serving import Access, ScriptedDetector, serving

pytestmark = [pytest.mark.browser, pytest.mark.slow]

LOADER = LoaderInfo(
    loader=0,
    name="train_loader",
    role="train",
    class_name="DataLoader",
    dataset_class="Squares",
    num_workers=2,
)


class Squares(torch.utils.data.Dataset[int]):
    """The run's dataset."""

    def __getitem__(self, index: int) -> int:
        return index * index


def envelope(feed: Feed) -> Envelope:
    """The next one, with three fetches of worker 1, of which the last was held up by sample 1204."""
    now_ns = time.time_ns()
    rows = []
    for number in range(3):
        known = dict.fromkeys((column.name for column in TABLES["fetches"]), UNKNOWN) | {
            "rank": 0, "worker": 1, "loader": 0, "request_ns": now_ns - (30 - 10 * number) * SECOND,
            "fetch_ns": (1 + number) * SECOND, "collate_ns": SECOND // 10, "cpu_ns": SECOND // 4,
            "samples": 64,
        }  # fmt: skip
        if number == 2:
            known |= {"slow_index": 1204, "slow_ns": 2 * SECOND}
        rows.append(list(known.values()))
    worker = SpanInfo(
        rank=0, worker=1, pid=4101, phase="fetch", since_ns=now_ns - SECOND, loader=0, epoch=0, batch=3,
        step=0, batches=3, steps=0,
    )  # fmt: skip
    return feed.envelope(
        processes=[feed.process(loaders=[LOADER])],
        spans=[*feed.envelope(steps=0).spans, worker],
        tables={"fetches": pack_table("fetches", rows)},
    )


@pytest.fixture
def access(tmp_path: Path) -> Iterator[Access]:
    """A real server with a run in which worker 1 hangs in sample 7."""
    feed, detector = Feed(), ScriptedDetector()
    stack = StackDump(rank=0, worker=1, pid=4101, taken_ns=time.time_ns(), text=HANG_STACK, why="open span")
    detector.findings = [hang(feed, stacks=[stack])]
    with serving(tmp_path, detector=detector, open_to_all=True) as access:
        access.send(envelope(feed))
        yield access


def copied(page: Page) -> str:
    """What the page last put on the clipboard."""
    text: str = page.evaluate("window.copied")
    return text


def test_what_is_frozen_can_be_acted_on(access: Access, watched: Watched) -> None:
    page = watched.page
    page.add_init_script(
        "Object.defineProperty(navigator, 'clipboard', {value: {writeText: async (text) => {"
        " window.copied = text; }}})"
    )
    page.goto(f"{access.url}/#/runs/run-1")
    frozen = page.locator(".hang")

    frozen.get_by_role("button", name="Copy a script that loads it alone").click()
    expect(page.locator(".note")).to_have_text("Copied a script that loads dataset[7] alone")
    script = copied(page)
    loader = torch.utils.data.DataLoader(Squares())
    pasted: dict[str, Any] = {"train_loader": loader}
    exec(script, pasted)
    assert pasted["sample"] == 49
    with pytest.raises(AssertionError, match="another dataset"):
        exec(script, {"train_loader": torch.utils.data.DataLoader(torch.utils.data.Subset(Squares(), [0]))})

    expect(frozen.locator(".stack-body")).to_contain_text("read_member")
    frozen.get_by_role("button", name="Copy for an issue").click()
    until(page, lambda: copied(page) != script, "the stack is copied")
    issue = copied(page)
    assert issue.startswith("```text\nRank 0 hangs: worker 1")
    assert "stack:  worker 1 of rank 0, pid 4101 on gpu01, taken " in issue
    assert "loader: DataLoader train_loader of Squares: num_workers=2" in issue
    assert issue.endswith("in _worker_loop\n```\n")

    frozen.get_by_role("button", name="Last fetches of worker 1").click()
    rows = frozen.locator(".fetched tbody tr")
    expect(rows).to_have_count(3)
    expect(rows.first).to_contain_text("dataset[1204], 2.0\u202fs")

    page.locator("#alerts .alert-head").click()
    expect(page.locator("#alerts .load-alone pre")).to_have_text(script)


def test_the_last_fetches_unfold_in_the_table_of_processes(access: Access, watched: Watched) -> None:
    page = watched.page
    page.goto(f"{access.url}/#/runs/run-1/ranks/0")
    table = page.locator("[data-card=workers]")
    table.scroll_into_view_if_needed()
    button = table.get_by_role("button", name="Last fetches of worker 1")
    button.click()
    expect(table.locator(".fetched tbody tr")).to_have_count(3)
    button.click()
    expect(table.locator(".fetched")).to_have_count(0)
