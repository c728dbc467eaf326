"""The demo, played for real: a server, two gloo ranks, its acts, and what was found in each.

``make test`` plays three of them, the long suites all.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest
from playwright.sync_api import sync_playwright

from loaderwatch.core.answers import Finding
from loaderwatch.core.config import load_settings
from loaderwatch.demo import acts
from loaderwatch.demo.acts import ACTS, HANG_AFTER_S
from loaderwatch.texts import say
from tests.browser.shots import find_chromium
from tests.fakes.own_faults import stored_faults
from tests.fakes.serving import ServeProcess
from tests.waiting import PATIENCE_S

PLAY_LIMIT_S = 240.0
"""The fast demo takes about 75 s on two free cores; other work on the machine stretches it."""

QUICK = ("few-workers", "slow-sample", "hang")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(PLAY_LIMIT_S + 60)]


@dataclass(frozen=True)
class Demo:
    """What one fast demo left behind."""

    code: int
    output: str
    folder: Path
    findings: list[dict[str, Any]]
    results: dict[str, acts.Outcome]


def start(folder: Path, *options: str, **environ: str) -> subprocess.Popen[str]:
    plain = {name: value for name, value in os.environ.items() if not name.startswith("LOADERWATCH_")}
    command = [sys.executable, "-m", "loaderwatch", "demo", "--fast", "--exit", "--port", "0"]
    return subprocess.Popen(
        [*command, "--data-dir", str(folder), *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=plain | environ,
        start_new_session=True,
    )


def end(process: subprocess.Popen[str]) -> str:
    """Interrupt it as Ctrl-C would; its output. A demo that does not end is killed, and fails the test."""
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
    try:
        return process.communicate(timeout=PATIENCE_S)[0]
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        raise


def processes_of(folder: Path) -> list[str]:
    """Command lines of the processes that have this data folder in their environment."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and str(folder).encode() in (entry / "environ").read_bytes():
                found.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:  # ended meanwhile
            continue
    return found


def rings_of(folder: Path) -> Path:
    return load_settings({"LOADERWATCH_DIR": str(folder)}).rings_dir


@pytest.fixture(
    scope="module",
    params=[pytest.param(QUICK, id="three"), pytest.param((), id="all", marks=pytest.mark.long)],
)
def demo(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Demo:
    folder = tmp_path_factory.mktemp("demo")
    process = start(folder, *(["--acts", *request.param] if request.param else []))
    try:
        output = process.communicate(timeout=PLAY_LIMIT_S)[0]
    except subprocess.TimeoutExpired:
        pytest.fail(f"the demo did not end within {PLAY_LIMIT_S} s:\n{end(process)}")
    analyzed = subprocess.run(
        [sys.executable, "-m", "loaderwatch", "analyze", "--json", "--hang-after", str(HANG_AFTER_S), "demo"],
        env={**os.environ, "LOADERWATCH_DIR": str(folder)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert analyzed.returncode == 0, analyzed.stderr
    findings = json.loads(analyzed.stdout)
    told = msgspec.convert(findings, list[Finding])
    results = acts.outcomes(acts.read_played(folder / "played.jsonl"), told)
    played = {result.played.act.key: result for result in results}
    assert tuple(played) == (request.param or tuple(act.key for act in ACTS)), output
    return Demo(process.returncode, output, folder, findings, played)


def test_every_act_is_played_and_found_live(demo: Demo) -> None:
    assert demo.code == 0, demo.output
    for result in demo.results.values():
        assert f"] {say(result.played.act.title)}: " in demo.output
    rows = [line for line in demo.output.splitlines() if line.endswith((" ok", " NOT"))]
    assert [row.endswith(" ok") for row in rows] == [True] * len(demo.results), demo.output


def test_analyze_finds_the_same_in_the_recorded_run(demo: Demo) -> None:
    for key, result in demo.results.items():
        assert result.is_right, (
            f"{key}: expected {result.played.act.scenarios}, found {result.found}: {result.titles};"
            f" it took {result.played.began_at} to {result.played.ended_at}; all findings:"
            f" {[(f['began_at'], f['severity'], f['title'], f['folded']) for f in demo.findings]}"
        )


def test_the_hang_names_worker_sample_and_blocking_line(demo: Demo) -> None:
    hangs = [finding for finding in demo.findings if finding["scenario"] == "S36"]
    assert hangs, demo.output
    named = [hang for hang in hangs if hang["worker"] is not None and hang["sample_indices"] == [511]]
    assert named, hangs
    stacks = "".join(stack["text"] for hang in named for stack in hang["stacks"])
    assert "_fetch_from_storage" in stacks


def test_the_slow_sample_is_named(demo: Demo) -> None:
    slow = [finding for finding in demo.findings if finding["scenario"] == "S20"]
    assert any(1690 in finding["sample_indices"] for finding in slow), slow


def test_each_act_is_told_on_the_page(demo: Demo) -> None:
    """As it was shown while the demo ran: the finished run, opened by another server in a browser."""
    chromium = find_chromium()
    if chromium is None:
        pytest.skip("no Chromium on this machine: apt install chromium")
    with ServeProcess(demo.folder, "--port", "0") as server, sync_playwright() as playwright:
        access = server.start()
        played = acts.read_played(demo.folder / "played.jsonl")
        found = msgspec.convert(access.get("/runs/demo/findings"), list[Finding])
        told = acts.outcomes(played, found)
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page()
        page.goto(f"{access.url}/?token={access.viewer}")
        page.locator(".run-link").click()
        page.locator("#alerts .alert").first.wait_for(timeout=60_000)
        listed = page.locator("#alerts .alert-title").all_text_contents()
        browser.close()
    assert [result.played.act.key for result in told] == list(demo.results)
    for result in told:
        assert bool(result.titles) == bool(result.played.act.scenarios)
        assert set(result.titles) <= set(listed)


def test_our_own_code_had_no_faults(demo: Demo) -> None:
    assert stored_faults(demo.folder / "runs", "demo") == {}


def test_nothing_is_left_behind(demo: Demo) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while processes_of(demo.folder) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert processes_of(demo.folder) == []
    assert not rings_of(demo.folder).exists()


@pytest.mark.long
def test_without_a_compiler_it_goes_on_and_ctrl_c_ends_everything(tmp_path: Path) -> None:
    folder = tmp_path / "interrupted"
    process = start(folder, "--acts", "hang", PATH=str(tmp_path))
    try:
        deadline = time.monotonic() + PATIENCE_S
        while not list(rings_of(folder).rglob("*")) and time.monotonic() < deadline:
            time.sleep(0.2)
        assert list(rings_of(folder).rglob("*")), "the training did not start"
    finally:
        output = end(process)
    assert process.returncode == 130, output
    assert "GPU charts are off: no C compiler" in output
    assert processes_of(folder) == []
    assert not rings_of(folder).exists()
