"""A real run with redaction: nothing that names people, files or data is in any place it goes to."""

from __future__ import annotations

import lzma
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest
from playwright.sync_api import Browser, Page

from loaderwatch.cli import main
from loaderwatch.server.access.tokens import load_tokens
from loaderwatch.server.store.duckdb import DuckDBStore
from tests.browser.conftest import patient_context
from tests.fakes.ports import next_free_port
from tests.fakes.serving import Access, EventReader, ServeProcess, wait_until
from tests.fakes.streaming import Streaming

pytestmark = [pytest.mark.slow, pytest.mark.browser]

SECRET = "sesame"  # begins whatever must not leave; no word of ours has it
KEPT = (
    "BlockingSamples"  # a class of the script: it is everywhere, so that looking for SECRET proves something
)

LOADING = """
import threading, time
import torch

class BlockingSamples(torch.utils.data.Dataset):
    def __len__(self):
        return 64
    def __getitem__(self, index):
        if index == 40:
            read_slowly("/sesamedata/sesamepatient.png", "sesamesample text")
        time.sleep(0.02)
        return torch.zeros(4)

def read_slowly(path, text):
    thread = threading.Thread(target=time.sleep, args=(12,), name="sesamethread")
    thread.start()
    thread.join()
    raise ValueError(f"sesamemessage: cannot decode {path}: {text!r}")
"""
SCRIPT = """
import sys
from torch.utils.data import DataLoader
from sesamepackage.sesameloading import BlockingSamples

if __name__ == "__main__":
    for batch in DataLoader(BlockingSamples(), batch_size=4, num_workers=1):
        pass
"""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Access, Path, dict[str, bytes]]]:
    """The run, sent to a server that came up after it; and what lay in the outbox until then."""
    home = tmp_path_factory.mktemp("sesamehome") / "sesamealice"
    data_dir = tmp_path_factory.mktemp("data")
    (home / "sesamepackage").mkdir(parents=True)
    (home / "sesamepackage" / "sesameloading.py").write_text(LOADING)
    script = home / "sesametrain.py"
    script.write_text(SCRIPT)
    tokens = load_tokens(data_dir / "token.json")
    port = next_free_port()
    url = f"http://127.0.0.1:{port}"
    with Streaming(data_dir, url, LOADERWATCH_TOKEN=tokens.agent, SESAME="sesameenviron") as it:
        done = subprocess.run(
            [sys.executable, "-m", "loaderwatch", "run", "--redact", str(script), "--key=sesameargument"],
            env=it.environ,
            cwd=home,
            capture_output=True,
            text=True,
            timeout=100,
        )
        assert "sesamemessage" in done.stderr, "the job itself says everything"
        outbox = {str(p): p.read_bytes() for p in it.settings.outbox_dir.rglob("*") if p.is_file()}
        with ServeProcess(data_dir, "--port", str(port)) as server:
            access = server.start()
            wait_until("the run", lambda: [r for r in access.get("/runs") if r["state"] == "crashed"])
            yield access, data_dir, outbox


def holds(data: bytes | str) -> tuple[bool, bool]:
    """Whether there is a secret in it, and the class that may be seen."""
    text = data.decode("utf-8", "replace") if isinstance(data, bytes) else data
    return SECRET in text.lower(), KEPT in text


def test_neither_outbox_nor_store_nor_any_answer_holds_a_secret(
    recorded: tuple[Access, Path, dict[str, bytes]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    access, data_dir, outbox = recorded
    assert len(outbox) > 5
    assert not any(SECRET in name.lower() for name in outbox)
    found = {f"outbox {name}": holds(data) for name, data in outbox.items()}
    (run,) = access.get("/runs")
    run_id = run["run_id"]
    assert run_id.startswith("run-")
    ways = [
        "summary",
        "findings",
        "epochs?rank=0",
        "boundaries?rank=0",
        "marks?rank=0",
        "fetches?rank=0",
        "slow-samples?rank=0",
        "profile",
        "audit",
        "coupling",
        "workers?rank=0",
        "stacks",
        "stacks?rank=0",
        "heatmap?metric=wait_s",
    ]
    with access.client() as client:
        for way in ways:
            answer = client.get(f"/api/v1/runs/{run_id}/{way}")
            assert answer.status_code == 200, answer.text
            found[f"GET {way}"] = holds(answer.content)
        for way in ("/api/v1/runs", "/metrics"):
            found[f"GET {way}"] = holds(client.get(way).content)
        recording = client.get(f"/api/v1/runs/{run_id}/recording").content
        found["recording"] = holds(lzma.decompress(recording))
    with EventReader(access, run_id) as events:
        found["events"] = holds(str(events.wait("the snapshot", lambda e: e["event"] == "snapshot")))
    assert main(["export", run_id, str(tmp_path / "x.lwrec"), "--data-dir", str(data_dir)]) == 0
    found["export"] = holds(lzma.decompress((tmp_path / "x.lwrec").read_bytes()))
    capsys.readouterr()
    assert main(["analyze", run_id, "--data-dir", str(data_dir)]) == 0
    analyzed = capsys.readouterr().out
    found["analyze"] = holds(analyzed)
    (file,) = (data_dir / "runs").glob("*.duckdb")
    copies = tmp_path / "runs"
    copies.mkdir()
    for part in (data_dir / "runs").iterdir():  # the write-ahead log as well
        (copies / part.name).write_bytes(part.read_bytes())
    with duckdb.connect(str(copies / file.name), read_only=True) as database:
        tables = [name for (name,) in database.execute("SELECT table_name FROM duckdb_tables()").fetchall()]
        stored = "".join(str(database.table(name).fetchall()) for name in tables)
    store = DuckDBStore(copies, read_only=True)
    try:
        stored += str(list(store.events(run_id, 0, 2**62)))  # compressed, as they lie there
    finally:
        store.close()
    found["store"] = holds(stored)
    found["store, as it lies on disk"] = holds(file.read_bytes())
    assert [where for where, (secret, _) in found.items() if secret] == []
    seen = [where for where, (_, kept) in found.items() if kept]
    for where in ("GET summary", "recording", "events", "export", "store"):
        assert where in seen, "or there would have been nothing to find"
    stacks = "".join(stack["text"] for stack in access.get(f"/runs/{run_id}/stacks"))
    assert "in read_slowly" in stacks
    assert "in __getitem__" in stacks
    assert "/lib/python3" in stacks


def test_the_host_itself_knows_what_the_short_forms_stand_for(
    recorded: tuple[Access, Path, dict[str, bytes]],
) -> None:
    access, data_dir, _ = recorded
    (run,) = access.get("/runs")
    texts = " ".join(stack["text"] for stack in access.get(f"/runs/{run['run_id']}/stacks"))
    short = next(word for word in texts.replace('"', " ").split() if word.startswith("path-"))
    logs = "".join(path.read_text() for path in (data_dir / "logs").glob("streamer-*.log"))
    assert f"{short} stands for " in logs


CHOICES = "[data-card=profile] [aria-expanded]"
"""Boxes and lines of the profile, of which one is open at a time."""


def choices(page: Page) -> list[str]:
    """The page with each box and line of the profile open."""
    shown = []
    for at in range(page.locator(CHOICES).count()):
        page.locator(CHOICES).nth(at).click()
        shown.append(page.content())
    return shown


def unfold(page: Page) -> None:
    """Open every folded line, and those that come to light: the first that is folded now, until none is."""
    folded = page.locator(f"main [aria-expanded=false]:not({CHOICES})")
    while folded.count() > 0:
        line = folded.first.element_handle()
        line.click()
        page.wait_for_function("(line) => line.ariaExpanded === 'true' || !line.isConnected", arg=line)


def test_the_page_reads_well_and_holds_no_secret(
    recorded: tuple[Access, Path, dict[str, bytes]], browser: Browser, request: pytest.FixtureRequest
) -> None:
    access, *_ = recorded
    (run,) = access.get("/runs")
    context = patient_context(browser, viewport={"width": 1280, "height": 1400})
    page = context.new_page()
    try:
        page.goto(f"{access.url}/?token={access.viewer}#/runs/{run['run_id']}")
        page.locator(".verdict-title").wait_for()
        title = page.locator(".verdict-title").inner_text()
        assert "an error that worker 0 raised on sample 40, at file-" in title, title
        unfold(page)
        shown = [page.content(), *choices(page)]
        if shots := os.environ.get("LOADERWATCH_SHOTS"):
            page.screenshot(path=f"{shots}/redacted-run.png", full_page=True)
        page.goto(f"{access.url}/#/runs/{run['run_id']}/ranks/0")
        page.locator("h1").wait_for()
        page.locator("[data-card=stacks]").scroll_into_view_if_needed()
        page.locator(".stack-head").first.wait_for()
        unfold(page)
        shown.append(page.content())
        if shots:
            page.screenshot(path=f"{shots}/redacted-rank.png", full_page=True)
    finally:
        context.close()
    assert not any(SECRET in text.lower() for text in shown)
