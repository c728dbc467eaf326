"""The last line of ours on a job's stderr, of real processes that end in all ways."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.receiver import TOKEN, Receiver
from tests.waiting import PATIENCE_S, wait_until

SCRIPT = """
import os, signal, sys, time
from pathlib import Path
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader
import loaderwatch

def stopped(*_):
    sys.exit(143)

def build(model):
    return DistributedDataParallel(model, device_ids=[0, 1])  # one device too many

loader = loaderwatch.attach(DataLoader(range(64), batch_size=8), run="job")
for batch in loader:
    pass
END = sys.argv[1]
if END == "constructor":
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    build(torch.nn.Linear(4, 1))
elif END == "own":
    raise KeyError("no\\x1b[31m such label")
elif END == "exit":
    sys.exit(3)
else:
    if END == "handler":
        signal.signal(signal.SIGTERM, stopped)
    Path(sys.argv[2]).touch()
    time.sleep(600)
"""


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    with Receiver() as receiver:
        monkeypatch.setenv("LOADERWATCH_SERVER", receiver.url)
        monkeypatch.setenv("LOADERWATCH_TOKEN", TOKEN)
        monkeypatch.setenv("LOADERWATCH_DIR", str(tmp_path / "data"))
        monkeypatch.delenv("LOADERWATCH_NO_STREAMER", raising=False)
        yield receiver


def said(folder: Path, end: str, sent: signal.Signals | None = None) -> list[str]:
    """What a job that ends so printed, the lines of ours."""
    script, waits = folder / "train.py", folder / "waits"
    script.write_text(SCRIPT)
    log = folder / "stderr"
    with log.open("wb") as stderr:
        job = subprocess.Popen(
            [sys.executable, str(script), end, str(waits)], stderr=stderr, env=dict(os.environ)
        )
        try:
            if sent is not None:
                wait_until("the job waits", lambda: waits.exists() or job.poll() is not None)
                job.send_signal(sent)
            job.wait(PATIENCE_S)
        finally:
            job.kill()
    return [line for line in log.read_text().splitlines() if line.startswith("loaderwatch: ")]


@pytest.mark.parametrize(
    ("end", "sent", "last"),
    [
        ("constructor", None, "loaderwatch: job crashed in step 8: ValueError: "),
        ("own", None, "loaderwatch: job crashed in step 8: KeyError: 'no\\x1b[31m such label' (train.py:"),
        ("wait", signal.SIGINT, "loaderwatch: job stopped by Ctrl-C (KeyboardInterrupt) in step 8"),
    ],
)
def test_it_says_what_happened(
    end: str, sent: signal.Signals | None, last: str, tmp_path: Path, server: Receiver
) -> None:
    lines = said(tmp_path, end, sent)
    assert lines[-1].startswith(last)
    assert not any("change first" in line for line in lines)
    if end == "constructor":
        assert "in build, raised in " in lines[-1]


@pytest.mark.parametrize(
    ("end", "sent", "ended"),
    [
        ("exit", None, ("crashed", 3)),
        ("handler", signal.SIGTERM, ("crashed", 143)),  # sys.exit() in the handler, which leaves no error
        ("wait", signal.SIGTERM, ("crashed", -15)),
    ],
)
def test_the_server_learns_the_exit_code(
    end: str, sent: signal.Signals | None, ended: tuple[str, int], tmp_path: Path, server: Receiver
) -> None:
    said(tmp_path, end, sent)
    server.wait_for(lambda: any(envelope.final for envelope in server.envelopes.values()))
    (process,) = server.in_order()[-1].processes
    if process.exit_code is None:
        pytest.skip("this kernel does not tell the exit code of a process that its parent has waited for")
    assert (process.state, process.exit_code) == ended


def test_no_notice_comes_after_it(tmp_path: Path, server: Receiver) -> None:
    """The server has something to say while the process still ends, which takes long here."""
    script = tmp_path / "train.py"
    script.write_text(SCRIPT.replace("import loaderwatch\n", f"import loaderwatch\n{AT_EXIT}", 1))
    job = subprocess.Popen(
        [sys.executable, str(script), "own", str(tmp_path / "goes")], stderr=subprocess.PIPE, text=True
    )
    try:
        wait_until("it has said its last", lambda: (tmp_path / "goes.ending").exists())
        server.extra = {"notices": [{"rank": 0, "text": "loaderwatch: an alert"}]}
        logs = tmp_path / "data" / "logs"
        wait_until(
            "the streamer has the notice", lambda: any("not written" in p.read_text() for p in logs.glob("*"))
        )
        (tmp_path / "goes").touch()
        assert job.stderr is not None
        lines = [line for line in job.stderr.read().splitlines() if line.startswith("loaderwatch: ")]
    finally:
        job.kill()
        job.communicate()
    assert lines[-1].startswith("loaderwatch: job crashed in step 8: KeyError")


AT_EXIT = """
import atexit

def slowly():  # registered before ours, so it runs after
    Path(sys.argv[2] + ".ending").touch()
    while not Path(sys.argv[2]).exists():
        time.sleep(0.05)

atexit.register(slowly)
"""
