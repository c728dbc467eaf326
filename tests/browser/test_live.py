"""The whole way: a real training, its streamer, a real server, and a person with a browser."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Watched
from tests.browser.drawing import drawn, until
from tests.fakes.own_faults import stored_faults
from tests.fakes.serving import Access, ServeProcess
from tests.fakes.streaming import end_processes
from tests.waiting import PATIENCE_S

pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs Linux's /proc"),
]

# Faults are switched by files, so that the test decides when they begin and end.
SCRIPT = """
import sys, time
from pathlib import Path
import torch
import loaderwatch

faults = Path(sys.argv[1])

class Samples(torch.utils.data.Dataset):
    def __len__(self):
        return 80_000

    def __getitem__(self, index):
        while index % 100 == 42 and (faults / "hang").exists():
            time.sleep(0.1)  # the sample that does not come
        if index == 634:
            time.sleep(0.2)  # the slow sample; batches fetched ahead hide it
        time.sleep(0.05 if (faults / "slow").exists() else 0.0002)
        return torch.zeros(16)

loader = torch.utils.data.DataLoader(Samples(), batch_size=8, num_workers=2)
model = torch.nn.Linear(16, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loaderwatch.attach(loader, model=model, optimizer=optimizer)
while not (faults / "stop").exists():
    for batch in loader:
        optimizer.zero_grad()
        model(batch).sum().backward()
        optimizer.step()
        time.sleep(0.05)
        if (faults / "stop").exists():
            break
"""


@dataclass
class Training:
    """A training that goes on, the server that watches it, and the switches of its faults."""

    access: Access
    serve: ServeProcess
    faults: Path
    port: str

    @property
    def page(self) -> str:
        """The address with the viewer's token."""
        return f"{self.access.url}/?token={self.access.owner}"


@pytest.fixture
def training(tmp_path: Path, data_dir: Path, free_port: int) -> Iterator[Training]:
    """A real training under ``loaderwatch.attach``, reporting to a real server."""
    faults = tmp_path / "faults"
    faults.mkdir()
    script = tmp_path / "live_train.py"
    script.write_text(SCRIPT)
    port = str(free_port)
    with ServeProcess(tmp_path / "server", "--port", port, "--hang-after", "5") as serve:
        access = serve.start()
        environ = {
            **os.environ,
            "LOADERWATCH_SERVER": access.url,
            "LOADERWATCH_TOKEN": access.agent,
            "LOADERWATCH_DIR": str(data_dir),
            "OMP_NUM_THREADS": "1",
        }
        trainee = subprocess.Popen(
            [sys.executable, str(script), str(faults)],
            env=environ,
            start_new_session=True,
            stderr=subprocess.PIPE,
        )
        try:
            yield Training(access, serve, faults, port)
        finally:
            for fault in faults.iterdir():
                fault.unlink()
            (faults / "stop").touch()
            try:
                trainee.communicate(timeout=PATIENCE_S)  # lets the streamer end with it
            except subprocess.TimeoutExpired:
                os.killpg(trainee.pid, signal.SIGKILL)
                trainee.communicate(timeout=PATIENCE_S)
            end_processes(data_dir)
        (file,) = (tmp_path / "server" / "runs").glob("*.duckdb")
        assert stored_faults(file.parent, file.stem) == {}


@pytest.mark.parametrize("to_its_end", [False, pytest.param(True, marks=pytest.mark.long)])
def test_points_arrive_and_an_alert_appears_and_resolves(
    training: Training, watched: Watched, to_its_end: bool
) -> None:
    """Runs → run → rank while a real training runs; too few workers come and, in half a minute more, go."""
    page = watched.page
    page.goto(training.page)
    page.locator(".run-link").first.click()
    expect(page.locator("h1")).to_contain_text("live_train")
    drawn(page, "steps")
    newest = "document.getElementById('plot-steps').data[0].x.at(-1)"
    first = page.evaluate(newest)
    page.wait_for_function(f"() => {newest} > {first} + 2000")
    expect(page.locator("[data-card=steps] .legend")).to_contain_text("backward")

    (training.faults / "slow").touch()
    alert = page.locator("#alerts .alert", has_text="data").first
    expect(alert.locator(".pill")).to_have_text("Firing")
    expect(page.locator(".verdict")).to_have_class("verdict tone-critical")
    expect(page.locator("#announcer")).to_contain_text("alert:")
    page.locator(".verdict-link").click()
    expect(alert.locator(".evidence tr").first).to_be_visible()

    page.locator("table.ranks a").first.click()
    expect(page.locator("h1")).to_have_text("Rank 0")
    drawn(page, "lanes")
    expect(page.locator("#plot-lanes .ytick text")).to_have_count(2)
    fetches = (
        "document.getElementById('plot-lanes').data.filter(t => t.name === 'fetch').flatMap(t => [...t.y])"
    )
    page.wait_for_function(f"() => new Set({fetches}.filter(y => y !== null)).size === 2")
    drawn(page, "ready")
    ready = "document.getElementById('plot-ready').data"
    page.wait_for_function(f"() => {ready}.some(t => t.x.at(-1) > {first} && t.y.some(y => y > 0))")
    samples = page.locator("[data-card=samples]")
    samples.scroll_into_view_if_needed()
    slowest = samples.locator("tbody tr", has=page.get_by_text("dataset[634]", exact=True))
    expect(slowest).to_have_count(1)
    expect(slowest.locator("td").nth(1)).to_have_text(re.compile(r"^([2-9]\d\d\sms|[\d.]+\ss)\s*$"))
    page.get_by_role("button", name="Take stacks now").scroll_into_view_if_needed()
    page.get_by_role("button", name="Take stacks now").click()
    expect(page.locator("[data-card=stacks] .stack-name").first).to_be_visible()

    (training.faults / "slow").unlink()
    page.locator(".crumbs a").last.click()
    if to_its_end:
        expect(page.locator("#alerts .alert", has_text="data").first.locator(".pill")).to_have_text(
            "Resolved", timeout=90_000
        )


def test_a_hang_names_worker_sample_and_line_and_the_page_survives_a_restart_of_the_server(
    training: Training, watched: Watched
) -> None:
    watched.allow_network_errors = True  # while the server is away
    page = watched.page
    page.goto(training.page)
    page.locator(".run-link").first.click()
    drawn(page, "steps")
    (run,) = training.access.get("/runs")
    steps_so_far = f"/runs/{run['run_id']}/summary"
    until(
        page,
        lambda: training.access.get(steps_so_far)["steps"] > 80,
        "healthy steps, to learn the limit from",
    )
    (training.faults / "hang").touch()
    hang = page.locator(".hang")
    expect(hang).to_be_visible()
    expect(hang.locator(".fact").nth(2)).to_contain_text("42]")
    expect(hang.locator(".frame.here")).to_contain_text("__getitem__")
    expect(hang.locator(".frame.here")).to_contain_text("live_train.py")
    expect(page.locator(".page-head .badge").first).to_have_text("Hung")

    training.serve.stop()
    expect(page.locator(".link-pill")).to_contain_text("Stale")
    with ServeProcess(training.serve.data_dir, "--port", training.port, "--hang-after", "5") as again:
        again.start()
        expect(page.locator(".link-pill")).to_have_text("Live")
        expect(page.locator(".hang")).to_be_visible()
        (training.faults / "hang").unlink()
        expect(page.locator(".page-head .badge").first).to_have_text("Live")
        expect(page.locator(".hang")).to_have_count(0)
        steps = page.locator(".tile", has_text="Speed").locator(".tile-sub")
        before = steps.text_content()
        until(page, lambda: steps.text_content() != before, "steps go on")
