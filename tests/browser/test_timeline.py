"""Speed, epochs, waiting for other ranks and what slows a GPU: a real server, before a real Chromium."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from playwright.sync_api import Page, expect

from loaderwatch.core.facts import GpuInfo, LoaderInfo
from loaderwatch.core.records import pack_row
from loaderwatch.core.wire import pack_table
from loaderwatch.server.recordings import recording
from tests.browser.conftest import Watched
from tests.browser.drawing import drawn
from tests.fakes.feed import SECOND, Feed
from tests.fakes.serving import Access, serving

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

RECORDINGS = Path(__file__).resolve().parents[1] / "scenarios" / "recordings"


def _rows(table: str, rows: list[dict[str, Any]]) -> Any:
    return pack_table(table, [pack_row(table, row) for row in rows])


def _send(access: Access) -> None:
    """Send a minute of one rank: two epochs, between them an evaluation and a checkpoint; then a hang.

    Its GPU is hot for ten seconds.
    """
    feed = Feed()
    began_ns = feed.started_ns
    train = LoaderInfo(loader=0, name="train_loader", role="train", class_name="DataLoader", num_workers=2)
    val = LoaderInfo(loader=1, name="val_loader", role="eval", class_name="DataLoader", num_workers=0)
    process = feed.process(loaders=[train, val], phase_names=["checkpoint"])

    def at(second: float) -> int:
        return began_ns + int(second * SECOND)

    begins = [(0, 0, 1.0, 0.5), (0, 1, 18.0, 2.0), (1, 0, 12.0, 0.1)]
    ends = [(0, 0, 12.0), (1, 0, 15.0)]
    steps = [at(2 + 0.25 * n) for n in range(40)] + [at(20.5 + 0.25 * n) for n in range(40)]
    tables = {
        "epoch_begins": _rows("epoch_begins", [
            {"rank": 0, "loader": loader, "epoch": epoch, "request_ns": at(began),
             "iter_ns": int(took * SECOND), "sampler_ns": SECOND // 100,
             "first_wait_ns": SECOND // 2, "iter_kind": 1, "workers": 2, "drained": 0,
             "gap_ns": 6 * SECOND if epoch else None}
            for loader, epoch, began, took in begins]),
        "epoch_ends": _rows("epoch_ends", [
            {"rank": 0, "loader": loader, "epoch": epoch, "request_ns": at(ended), "teardown_ns": SECOND // 5,
             "batches": 40, "ended_by": 1}
            for loader, epoch, ended in ends]),
        "phases": _rows("phases", [{"rank": 0, "name": 0, "request_ns": at(16), "duration_ns": SECOND,
                                    "step": 40}]),
        "steps": _rows("steps", [
            {"rank": 0, "loader": 0, "epoch": n // 40, "batch": n % 40, "step": n, "request_ns": when,
             "wait_ns": SECOND // 20, "step_ns": SECOND // 5,
             "off_main_thread": 0, "optimizer_steps": 1} for n, when in enumerate(steps)]),
        "fetches": _rows("fetches", [
            {"rank": 0, "loader": 0, "worker": n % 2, "ordinal": n, "request_ns": when,
             "fetch_ns": SECOND // 5, "samples": 32}
            for n, when in enumerate(steps)]),
        "processes": _rows("processes", [
            {"rank": 0, "loader": None, "worker": -1, "pid": 4000, "t_ns": at(second + 0.5), "cpu_ratio": 0.5}
            for second in range(59)]),
        "gpus": _rows("gpus", [
            {"rank": 0, "gpu": 0, "t_ns": at(tenth / 10), "utilization_ratio": 0.9,
             "throttle_reasons": 0x20 if 200 <= tenth < 300 else 0}
            for tenth in range(590)]),
    }  # fmt: skip
    other = msgspec.structs.replace(process, loaders=[msgspec.structs.replace(train, num_workers=6), val])
    gpu = GpuInfo(gpu=0, uuid="GPU-a", name="NVIDIA H100", rank=0)
    access.send(feed.envelope(steps=0, made_ns=at(1), processes=[process]))
    access.send(feed.envelope(steps=0, made_ns=at(30), processes=[other]))
    access.send(feed.envelope(steps=0, processes=[other], tables=tables, gpus=[gpu]))


def _send_with_device_clock(access: Access) -> None:
    """Send a loop that waits 200 of each 250 ms. Its GPU has work meanwhile, except in the last 30 s."""
    feed = Feed("on-device")
    # Whole seconds: a newest second with only the wait of an iteration would have a larger starved share.
    feed.started_ns -= feed.started_ns % SECOND
    times = [feed.started_ns + n * SECOND // 4 for n in range(236)]
    dry = [n >= 120 for n in range(236)]
    common = [
        {"rank": 0, "loader": 0, "epoch": 0, "batch": n, "request_ns": when} for n, when in enumerate(times)
    ]
    ms = SECOND // 1000
    tables = {
        "steps": _rows("steps", [
            {**of, "step": n, "wait_ns": 200 * ms, "step_ns": 50 * ms, "off_main_thread": 0,
             "optimizer_steps": 1} for n, of in enumerate(common)]),
        "gpu_waits": _rows("gpu_waits", [
            {**of, "starved_ns": (150 if late else 10) * ms, "gpu_step_ns": (100 if late else 240) * ms,
             "slack_ns": (0 if late else 180) * ms}
            for of, late in zip(common, dry, strict=True)]),
        "gpus": _rows("gpus", [
            {"rank": 0, "gpu": 0, "t_ns": feed.started_ns + n * SECOND // 10,
             "utilization_ratio": 0.4 if n >= 300 else 0.96} for n in range(590)]),
    }  # fmt: skip
    gpu = GpuInfo(gpu=0, uuid="GPU-b", name="NVIDIA H100", rank=0)
    access.send(feed.envelope(steps=0, processes=[feed.process()], tables=tables, gpus=[gpu]))


@pytest.fixture(scope="module")
def access(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Access]:
    with serving(tmp_path_factory.mktemp("server"), open_to_all=True) as access:
        _send(access)
        _send_with_device_clock(access)
        for envelope in recording.load(RECORDINGS / "s43_straggler.lwrec").decoded():
            access.send(envelope)
        yield access


def _open(watched: Watched, access: Access, path: str, width: int = 1280) -> Page:
    page = watched.page
    page.set_viewport_size({"width": width, "height": 900})
    page.goto(f"{access.url}/?token={access.owner}")
    page.goto(f"{access.url}/#/runs/{path}")
    return page


def test_epochs_are_told_by_their_parts(access: Access, watched: Watched) -> None:
    page = _open(watched, access, "run-1")
    card = page.locator("[data-card=epochs]")
    expect(card.locator("h3")).to_have_text(["train_loader", "val_loader"])
    rows = card.locator("tbody tr")
    expect(rows).to_have_count(3)
    expect(rows.first).to_contain_text("epoch 1")
    expect(rows.first.locator("[data-label='Workers’ start']")).to_have_text(
        re.compile(r"2\.0\ssstarted 2 · \+1\.5\ss")
    )
    expect(rows.first.locator("[data-label=Steady]")).to_have_text("–")
    expect(rows.nth(1).locator("[data-label=Steady]")).to_have_text(re.compile(r"10\ss40 batches"))
    expect(rows.nth(1).locator("[data-label='Gap to the next']")).to_have_text(re.compile(r"6\.0\ss"))
    expect(card).to_contain_text(re.compile(r"cost \d\.\d\ss of \d+\ss"))
    expect(rows.first.locator(".at-start")).to_be_visible()


def test_speed_is_zero_while_it_stands_and_what_happened_stands_below(
    access: Access, watched: Watched
) -> None:
    page = _open(watched, access, "run-1")
    drawn(page, "speed")
    read = "[...document.getElementById('plot-speed').data]"
    names = page.evaluate(f"{read}.map(d => d.name).filter(Boolean)")
    assert {"steps/s", "samples/s", "settings", "checkpoint", "evaluation"} <= set(names)
    speeds = page.evaluate(f"{read}.find(d => d.name === 'steps/s').y")
    assert max(speed or 0 for speed in speeds) == pytest.approx(4, rel=0.3)
    assert sum(speed == 0 for speed in speeds) >= 3
    assert page.evaluate(f"{read}.find(d => d.name === 'settings').text") == [
        "settings: train_loader: num_workers 2 → 6 (rank 0)"
    ]
    legend = page.locator("[data-card=speed] ul.legend")
    expect(legend).to_contain_text("means of the time in view")
    box = page.locator("#plot-speed").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 3)
    expect(legend).to_contain_text(re.compile(r"at \d\d:\d\d:\d\d"))
    expect(page.locator("[data-card=steps] ul.legend")).to_contain_text(re.compile(r"at \d\d:\d\d:\d\d"))
    page.mouse.move(5, 5)
    expect(legend).to_contain_text("means of the time in view")


def test_waiting_for_other_ranks_is_hatched(access: Access, watched: Watched) -> None:
    page = _open(watched, access, "s43-straggler/ranks/0")
    drawn(page, "steps")
    legend = page.locator("[data-card=steps] ul.legend")
    expect(legend).to_contain_text("waiting for other ranks")
    page.wait_for_function("() => document.querySelectorAll('#plot-steps pattern').length > 0")
    trace = "document.getElementById('plot-steps').data.find(d => d.name === 'waiting for other ranks')"
    waits = [wait for wait in page.evaluate(f"{trace}.y") if wait]
    shares = access.get("/runs/s43-straggler/coupling")["ranks"]
    assert sum(waits) / len(waits) > 0.5 * 1000 * shares[0]["others_s"]
    page = _open(watched, access, "s43-straggler/ranks/1")
    drawn(page, "steps")
    expect(page.locator("[data-card=steps] ul.legend")).to_contain_text("backward")
    late = page.evaluate(f"({trace}?.y ?? []).reduce((sum, v) => sum + (v ?? 0), 0)")
    assert late < 0.2 * sum(waits), "the late rank waits for nobody"


@pytest.mark.parametrize("place", ["on-device", "on-device/ranks/0"])
def test_starvation_is_drawn_by_the_gpus_clock(access: Access, watched: Watched, place: str) -> None:
    """By the loop it waited 80 % all along; the GPU lacked a batch for 4 %, and then for 60 %."""
    page = _open(watched, access, place)
    page.set_viewport_size({"width": 1280, "height": 2400})
    drawn(page, "starvation")
    drawn(page, "headroom")
    # The outline of the bars goes down to 0 at its ends.
    shares = page.evaluate("document.getElementById('plot-starvation').data[0].y.filter(y => y > 0)")
    assert min(shares) == pytest.approx(0.04, abs=0.02)
    assert max(shares) == pytest.approx(0.6, abs=0.02)
    card = page.locator("[data-card=starvation]")
    expect(card.locator("ul.legend")).to_contain_text(re.compile(r"\d+\s%, \d+\sms per step"))
    expect(page.locator("[data-card=headroom]")).to_contain_text("queued on the GPU")
    expect(page.locator("[data-card=steps]")).to_contain_text("by the GPU's clock")


def test_what_slows_a_gpu_is_drawn_by_reason(access: Access, watched: Watched) -> None:
    page = _open(watched, access, "run-1/ranks/0")
    drawn(page, "slowed")
    card = page.locator("[data-card=slowed]")
    expect(card.locator("ul.legend")).to_contain_text("software thermal slowdown")
    assert page.evaluate("document.getElementById('plot-slowed').data.map(d => d.name).filter(Boolean)") == [
        "software thermal slowdown"
    ]


def test_small_charts_have_axes(access: Access, watched: Watched) -> None:
    page = _open(watched, access, "run-1/ranks/0")
    page.set_viewport_size({"width": 1280, "height": 4000})
    drawn(page, "small-gpu_throttled_ratio")
    ticks = page.locator("#plot-small-gpu_throttled_ratio .ytick text")
    expect(ticks).to_have_text([re.compile(r"0\s%"), re.compile(r"100\s%")])
    assert page.locator("#plot-small-gpu_throttled_ratio .xtick text").count() >= 2
