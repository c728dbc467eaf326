"""The page's charts in a real Chromium: motion, requests, and how often each chart is drawn."""

from __future__ import annotations

import pytest
from playwright.sync_api import Position, Route, expect

from tests.browser.conftest import Watched
from tests.browser.drawing import BIG, DIGITS, drawn, until
from tests.fakes.page_server import PageServer

pytestmark = [pytest.mark.browser, pytest.mark.slow]  # as a whole


def test_a_click_on_the_heat_map_opens_the_rank(server: PageServer, watched: Watched) -> None:
    page = watched.page
    page.goto(server.url + DIGITS)
    drawn(page, "heatmap")
    heat_map = page.locator("#plot-heatmap .nsewdrag")
    box = heat_map.bounding_box()
    assert box is not None
    place: Position = {
        "x": box["width"] / 2,
        "y": box["height"] * 0.75,
    }  # in it: cards above it may still grow

    def hovered() -> bool:
        heat_map.hover(position=place)
        return "rank 1" in (page.locator("#plot-heatmap .hoverlayer").text_content() or "")

    until(page, hovered, "Plotly sees the mouse")
    heat_map.click(position=place)
    expect(page.locator("h1")).to_have_text("Rank 1")


def test_the_pointer_reads_all_parts_of_a_step(server: PageServer, watched: Watched) -> None:
    page = watched.page
    page.goto(server.url + DIGITS)
    drawn(page, "steps")

    def read() -> bool:
        page.locator("#plot-steps .nsewdrag").hover()
        lines = page.locator("#plot-steps .hoverlayer .legend .legendtext").all_text_contents()
        return {"data wait", "forward", "backward"} <= {line.partition(" : ")[0] for line in lines}

    until(page, read, "the values under the pointer are listed")


def test_zooming_one_chart_zooms_all_and_comes_back(server: PageServer, watched: Watched) -> None:
    page = watched.page
    page.set_viewport_size({"width": 1280, "height": 1400})
    page.goto(server.url + DIGITS)
    for chart in ("gpu", "heatmap", "steps"):  # the last is on the screen
        drawn(page, chart)
    box = page.locator("#plot-steps .nsewdrag").bounding_box()
    assert box is not None
    y = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] * 0.4, y)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.6, y, steps=5)
    page.mouse.up()
    expect(page.locator(".chip.zoom")).to_be_visible()
    ranges = (
        "['steps', 'gpu', 'heatmap'].map(id => JSON.stringify("
        "document.getElementById('plot-' + id)._fullLayout.xaxis.range.map(v => +new Date(v))))"
    )
    page.wait_for_function(f"() => new Set({ranges}).size === 1")
    page.keyboard.press("Escape")
    expect(page.locator(".chip.zoom")).to_have_count(0)
    expect(page.locator("h1")).to_have_text("digits_cnn.py")


def test_charts_move_while_the_run_goes_on_and_stand_still_while_paused(
    server: PageServer, watched: Watched
) -> None:
    server.tick_s = 0.3
    page = watched.page
    asked: list[str] = []
    answered: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if "/series" in request.url else None)
    page.on(
        "requestfinished", lambda request: answered.append(request.url) if "/series" in request.url else None
    )
    page.goto(server.url + DIGITS)
    drawn(page, "steps")
    newest = "document.getElementById('plot-steps').data[0].x.at(-1)"
    first = page.evaluate(newest)
    page.wait_for_function(f"() => {newest} > {first}")
    page.locator("body").press(" ")
    expect(page.locator(".link-pill")).to_have_text("Paused")
    until(page, lambda: len(asked) == len(answered), "the request in flight is answered")
    so_far = len(asked)

    def stays() -> bool:
        """Ticks come, and what was answered before has been drawn."""
        before = page.evaluate(newest)
        page.wait_for_timeout(1000)
        return bool(page.evaluate(newest) == before)

    until(page, stays, "what was answered is drawn")
    stopped = page.evaluate(newest)
    assert stays()
    assert len(asked) == so_far
    page.locator("body").press(" ")
    page.wait_for_function(f"() => {newest} > {stopped}")


def test_first_paint_does_not_wait_for_plotly(server: PageServer, watched: Watched) -> None:
    """How soon it comes, ``python -m benchmarks.page`` measures against the budget."""
    page = watched.page
    held: list[Route] = []
    page.route("**/plotly.min.js", lambda route: held.append(route))
    page.goto(server.url + DIGITS, wait_until="commit")
    expect(page.locator(".verdict-title")).to_be_visible()
    page.wait_for_function("() => performance.getEntriesByName('first-contentful-paint').length > 0")
    until(page, lambda: len(held) > 0, "the charts are asked for")
    assert page.locator(".main-svg").count() == 0
    held[0].continue_()
    drawn(page, "steps")
    assert (
        page.evaluate(
            "performance.getEntriesByType('resource').filter(r => !r.name.startsWith(location.origin)).length"
        )
        == 0
    )


def test_a_chart_is_drawn_once_a_second(server: PageServer, watched: Watched) -> None:
    """Charts, alerts and ranges change at different moments. Redrawing all for each would cost a core."""
    page = watched.page
    page.set_viewport_size({"width": 1280, "height": 4000})
    page.goto(f"{server.url}{BIG}/ranks/37")
    for chart in ("steps", "lanes", "gpu", "small-host_cpu_ratio"):
        drawn(page, chart)
    page.evaluate("""() => {
        window.draws = {};
        window.since = performance.now();
        const react = Plotly.react;
        Plotly.react = (element, ...more) => {
            window.draws[element.id] = (window.draws[element.id] ?? 0) + 1;
            return react.call(Plotly, element, ...more);
        };
    }""")
    (alert,) = [
        f for f in next(r for r in server.runs if r.run_id in BIG).findings if f["code"] == "straggler"
    ]

    def moves() -> bool:
        alert["lost_s"] += 1
        return bool(page.evaluate("(window.draws['plot-steps'] ?? 0) > 3"))

    until(page, moves, "the chart moves")
    draws, passed_s = page.evaluate("[window.draws, (performance.now() - window.since) / 1000]")
    assert max(draws.values()) <= passed_s + 2, (draws, passed_s)


def test_only_what_is_seen_is_asked_for(server: PageServer, watched: Watched) -> None:
    page = watched.page
    page.set_viewport_size({"width": 1280, "height": 500})
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(f"{server.url}{DIGITS}/ranks/1")
    drawn(page, "steps")
    page.wait_for_timeout(1500)
    assert any("metric=wait_s" in url for url in asked)
    assert not any("host_psi_io_ratio" in url for url in asked)
    page.locator("[data-card=counters]").scroll_into_view_if_needed()
    until(page, lambda: any("host_psi_io_ratio" in url for url in asked), "the card's data is asked for")


def test_a_gpu_with_a_clock_has_its_headroom_and_counters(server: PageServer, watched: Watched) -> None:
    watched.page.set_viewport_size({"width": 1280, "height": 4000})
    watched.page.goto(f"{server.url}{DIGITS}/ranks/1")
    for chart in ("starvation", "headroom", "small-gpu_sm_clock_hz", "small-gpu_throttled_ratio"):
        drawn(watched.page, chart)
    expect(watched.page.locator("[data-card=headroom]")).to_contain_text("queued on the GPU")
    expect(watched.page.locator("[data-card=starvation]")).to_contain_text("per step")
    expect(watched.page.locator("[data-card=steps]")).to_contain_text("by the GPU's clock")
    expect(watched.page.locator("[data-card=gpu_counters]")).to_contain_text("MHz")
    watched.page.goto(f"{server.url}{BIG}")
    drawn(watched.page, "steps")
    for card in ("headroom", "starvation"):
        expect(watched.page.locator(f"[data-card={card}]")).to_have_count(0)  # the loop's clock
